"""Finds what an editor is looking for by the words in it."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.domain.snapshot import Snapshot

KINDS = ("contexts", "resources", "profiles", "agents", "prompts", "content")
SNIPPET = 160  # code points around the first word found
WORD = re.compile(r"\w+")
MARKS = re.compile(r"[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]")
WHOLE, BEGUN, INSIDE = 1.0, 0.8, 0.4  # how well a word of a text answers a word of the query
ALIAS, NAME, DESCRIPTION, TEXT = 1.0, 1.0, 0.6, 0.3  # how much a field says about a thing


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that holds every word of a query."""

    kind: str
    id: str
    name: str
    snippet: str
    score: float  # 0..1


@dataclass(frozen=True, slots=True)
class PageSlice:
    """Which part of the hits is wanted."""

    skip: int = 0
    take: int = 100


FIRST = PageSlice()


@dataclass(frozen=True, slots=True)
class _Thing:
    kind: str
    id: str
    name: str
    fields: tuple[tuple[float, str], ...]  # weight and text, the weightiest first


def search(
    query: str, snapshot: Snapshot, kinds: Iterable[str] = KINDS, part: PageSlice = FIRST
) -> tuple[list[Hit], int]:
    """What holds all words of the query, best first, and how much that is in all."""
    words = list(dict.fromkeys(WORD.findall(folded(query))))
    if not words:
        return [], 0
    wanted = frozenset(kinds)
    scored = [(_score(words, thing), thing) for thing in _things(snapshot) if thing.kind in wanted]
    found = [(score, thing) for score, thing in scored if score]
    found.sort(key=lambda one: (-one[0], KINDS.index(one[1].kind), one[1].id))
    return [_hit(words, score, thing) for score, thing in found[part.skip :][: part.take]], len(found)


def folded(text: str) -> str:
    """Text as it is compared: without case, accents and typographic variants."""
    return text.lower() if text.isascii() else MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()))


def _score(words: list[str], thing: _Thing) -> float:
    """How well a thing answers; 0 if a word is missing."""
    best = dict.fromkeys(words, 0.0)
    for weight, written in thing.fields:
        missing = [word for word in words if best[word] < weight]  # a lighter field cannot do better than that
        if missing and written:
            text = folded(written)
            best |= {word: max(best[word], weight * _closeness(word, text)) for word in missing}
    return round(sum(best.values()) / len(words), 4) if all(best.values()) else 0.0


def _hit(words: list[str], score: float, thing: _Thing) -> Hit:
    return Hit(thing.kind, thing.id, thing.name, _snippet(words, [written for _, written in thing.fields]), score)


def _closeness(word: str, text: str) -> float:
    best = 0.0
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        begins, ends = at == 0 or not _in_word(text[at - 1]), end == len(text) or not _in_word(text[end])
        if begins and ends:
            return WHOLE
        best = max(best, BEGUN if begins else INSIDE)
        at = text.find(word, end)
    return best


def _in_word(character: str) -> bool:
    return character.isalnum()


def _snippet(words: list[str], texts: list[str]) -> str:
    """The longest text that holds a word, around its first one: names are shown anyway."""
    for text in sorted(texts, key=len, reverse=True):
        plain = folded(text)
        found = [at for word in words if (at := plain.find(word)) >= 0]
        if found:
            # Folding may change lengths a little; a snippet need not be exact.
            return _around(text, min(found))
    return ""


def _around(text: str, at: int) -> str:
    start = max(0, min(at - SNIPPET // 4, len(text) - SNIPPET))
    cut = " ".join(text[start : start + SNIPPET].split())
    return f"{'…' if start else ''}{cut}{'…' if start + SNIPPET < len(text) else ''}"


def _things(snapshot: Snapshot) -> Iterator[_Thing]:
    for context in snapshot.contexts.values():
        yield _Thing("contexts", context.alias, context.name, ((ALIAS, context.alias), (NAME, context.name)))
    for resource in snapshot.resources.values():
        named = (ALIAS, resource.id), (NAME, resource.name)
        told = (DESCRIPTION, resource.description), (TEXT, resource.text or ""), (TEXT, "\n".join(resource.examples))
        yield _Thing("resources", resource.id, resource.name, (*named, *told))
    for profile in snapshot.profiles.values():
        yield _Thing("profiles", profile.alias, profile.name, ((ALIAS, profile.alias), (NAME, profile.name)))
    for agent in snapshot.agents.values():
        said = (DESCRIPTION, agent.description), (TEXT, agent.instructions)
        yield _Thing("agents", agent.alias, agent.name, ((ALIAS, agent.alias), (NAME, agent.name), *said))
    for prompt in snapshot.prompts.values():
        named = (ALIAS, prompt.alias), (NAME, prompt.name)
        yield _Thing("prompts", prompt.alias, prompt.name, (*named, (TEXT, prompt.template or "")))
    for path, node in snapshot.nodes.items():
        yield _Thing(
            "content", node.id, node.title, ((ALIAS, path), (ALIAS, node.id), (NAME, node.title), (TEXT, node.body))
        )
