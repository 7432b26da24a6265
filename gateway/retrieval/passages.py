"""The passages of a long text that share most words with a query."""

import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")
_BREAK = re.compile(r"\n\s*\n")


def words(text: str) -> set[str]:
    return {word for word in _WORD.findall(text.lower()) if len(word) > 2}


def shared_words(query: str, text: str) -> int:
    return len(words(query) & words(text))


def best_passages(text: str, query: str, size: int) -> str:
    """The paragraphs nearest to the query that fit into `size` characters, in reading order."""
    paragraphs = [piece[:size] for piece in _BREAK.split(text) if piece.strip()]
    wanted = words(query)
    ranked = sorted(range(len(paragraphs)), key=lambda place: -len(wanted & words(paragraphs[place])))
    chosen: list[int] = []
    room = size
    for place in ranked:
        if not wanted & words(paragraphs[place]) and chosen:
            break
        if len(paragraphs[place]) + 2 <= room or not chosen:
            chosen.append(place)
            room -= len(paragraphs[place]) + 2
    return "\n\n".join(paragraphs[place] for place in sorted(chosen))


def joined(passages: Iterable[str], size: int) -> str:
    """As many of the passages, best first, as fit into `size` characters."""
    text = ""
    for passage in passages:
        if text and len(text) + 2 + len(passage) > size:
            break
        text = f"{text}\n\n{passage}" if text else passage[:size]
    return text
