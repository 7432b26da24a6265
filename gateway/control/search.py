"""Finds objects by the words in them."""

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gateway.domain.normal_form import normalize_text
from gateway.domain.snapshot import Snapshot

KINDS = ("contexts", "resources", "profiles", "agents", "prompts", "recipes", "content")
SNIPPET = 160  # code points around the first matching word
WORD = re.compile(r"\w+")
MARKS = re.compile(r"[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u064b-\u065f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]")
WHOLE, PREFIX, INSIDE = 1.0, 0.8, 0.4  # how well a word of a text matches a word of the query
ALIAS, NAME, DESCRIPTION, TEXT = 1.0, 1.0, 0.6, 0.3  # how much a match in a field counts


class SearchHit(msgspec.Struct, frozen=True):
    """Something that contains every word of a query."""

    kind: str
    id: str
    name: str
    snippet: str
    score: float  # 0..1


class PageSlice(msgspec.Struct, frozen=True):
    """Which of the hits are wanted."""

    skip: int = 0
    take: int = 100


FIRST = PageSlice()


class _Searchable(msgspec.Struct, frozen=True):
    kind: str
    id: str
    name: str
    fields: tuple[tuple[float, str], ...]  # weight and text, the heaviest first


def search(
    query: str,
    snapshot: Snapshot,
    kinds: Iterable[str] = KINDS,
    part: PageSlice = FIRST,
    texts: Mapping[str, str] | None = None,
) -> tuple[list[SearchHit], int]:
    """What contains all words of the query, best first, and how many hits there are; `texts`: of stored nodes."""
    words = list(dict.fromkeys(WORD.findall(fold_text(query))))
    if not words:
        return [], 0
    wanted = frozenset(kinds)
    scored = [(_score(words, one), one) for one in _list_searchable(snapshot, texts or {}) if one.kind in wanted]
    found = [(score, one) for score, one in scored if score]
    found.sort(key=lambda pair: (-pair[0], KINDS.index(pair[1].kind), pair[1].id))
    return [_make_hit(words, score, one) for score, one in found[part.skip :][: part.take]], len(found)


def fold_text(text: str) -> str:
    """Text for comparison: without case, accents and typographic variants."""
    if text.isascii():
        return text.lower()
    return MARKS.sub("", normalize_text("NFKD", text.casefold()))


def _score(words: list[str], one: _Searchable) -> float:
    """How well it matches; 0 if a word is missing."""
    best = dict.fromkeys(words, 0.0)
    for weight, written in one.fields:
        missing = [word for word in words if best[word] < weight]  # a lighter field cannot improve the others
        if missing and written:
            text = fold_text(written)
            best |= {word: max(best[word], weight * _match(word, text)) for word in missing}
    return round(sum(best.values()) / len(words), 4) if all(best.values()) else 0.0


def _make_hit(words: list[str], score: float, one: _Searchable) -> SearchHit:
    snippet = _make_snippet(words, [written for _, written in one.fields])
    return SearchHit(one.kind, one.id, one.name, snippet, score)


def _match(word: str, text: str) -> float:
    best = 0.0
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        begins, ends = at == 0 or not _is_in_word(text[at - 1]), end == len(text) or not _is_in_word(text[end])
        if begins and ends:
            return WHOLE
        best = max(best, PREFIX if begins else INSIDE)
        at = text.find(word, end)
    return best


def _is_in_word(character: str) -> bool:
    return character.isalnum()


def _make_snippet(words: list[str], texts: list[str]) -> str:
    """The longest text that contains a word, around the first one: names are shown anyway."""
    for text in sorted(texts, key=len, reverse=True):
        plain = fold_text(text)
        found = [at for word in words if (at := plain.find(word)) >= 0]
        if found:
            # Folding may change lengths slightly; a snippet need not be exact.
            return _cut_around(text, min(found))
    return ""


def _cut_around(text: str, at: int) -> str:
    start = max(0, min(at - SNIPPET // 4, len(text) - SNIPPET))
    cut = " ".join(text[start : start + SNIPPET].split())
    return f"{'…' if start else ''}{cut}{'…' if start + SNIPPET < len(text) else ''}"


def _list_searchable(snapshot: Snapshot, node_texts: Mapping[str, str]) -> Iterator[_Searchable]:
    for context in snapshot.contexts.values():
        yield _make_searchable("contexts", context.alias, context.name)
    for resource in snapshot.resources.values():
        texts = (TEXT, resource.text or ""), (TEXT, "\n".join(resource.examples))
        yield _make_searchable("resources", resource.id, resource.name, (DESCRIPTION, resource.description), *texts)
    for profile in snapshot.profiles.values():
        yield _make_searchable("profiles", profile.alias, profile.name)
    for agent in snapshot.agents.values():
        texts = (DESCRIPTION, agent.description), (TEXT, agent.instructions)
        yield _make_searchable("agents", agent.alias, agent.name, *texts)
    for prompt in snapshot.prompts.values():
        yield _make_searchable("prompts", prompt.alias, prompt.name, (TEXT, prompt.template or ""))
    for recipe in snapshot.recipes.values():
        yield _make_searchable("recipes", recipe.alias, recipe.name, (DESCRIPTION, recipe.description))
    for path, node in snapshot.tree.nodes.items():
        text = snapshot.contents[node.id].body if node.id in snapshot.contents else node_texts.get(node.id, "")
        fields = (ALIAS, path), (ALIAS, node.id), (NAME, node.title), (TEXT, text)
        yield _Searchable("content", node.id, node.title, fields)


def _make_searchable(kind: str, id: str, name: str, *texts: tuple[float, str]) -> _Searchable:
    return _Searchable(kind, id, name, ((ALIAS, id), (NAME, name), *texts))
