"""Truncating a text to a number of tokens."""

import re
from collections.abc import Callable

Count = Callable[[str], int]

MARK = "[…]"  # marks where text was removed
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n")


def truncate(text: str, limit: int, count: Count, how: str) -> str:
    """The part of `text` that fits, "" if nothing useful does; never longer than `limit` tokens."""
    if count(text) <= limit:
        return text
    if how == "keep_start":
        return keep_start(text, limit, count)
    if how == "keep_end":
        return keep_end(text, limit, count)
    return extract(text, limit, count)


def keep_start(text: str, limit: int, count: Count) -> str:
    size = find_longest(len(text), lambda length: count(f"{text[:length].rstrip()} {MARK}") <= limit)
    kept = text[: cut_at_space(text, size)].rstrip()
    return f"{kept} {MARK}" if kept else ""


def keep_end(text: str, limit: int, count: Count) -> str:
    size = find_longest(len(text), lambda length: count(f"{MARK} {text[len(text) - length :].lstrip()}") <= limit)
    rest = text[len(text) - size :]
    if 0 < size < len(text) and not text[len(text) - size - 1].isspace():
        rest = rest.partition(" ")[2] or rest
    return f"{MARK} {rest.lstrip()}" if rest.strip() else ""


def extract(text: str, limit: int, count: Count) -> str:
    """Whole sentences in their order: the first of every paragraph, then the second of each, and so on."""
    paragraphs = [
        [sentence for sentence in _SENTENCE_END.split(paragraph) if sentence.strip()]
        for paragraph in re.split(r"\n\s*\n", text)
    ]
    places = ((row, column) for row, paragraph in enumerate(paragraphs) for column in range(len(paragraph)))
    order = sorted(places, key=lambda place: place[1])  # stable: in each round the paragraphs keep their order
    fits = find_longest(len(order), lambda size: count(assemble(paragraphs, order[:size])) <= limit)
    return assemble(paragraphs, order[:fits]) if fits else keep_start(text, limit, count)


def assemble(paragraphs: list[list[str]], places: list[tuple[int, int]]) -> str:
    """The chosen sentences in reading order, with a mark at the end of each shortened paragraph."""
    chosen: dict[int, list[str]] = {}
    for row, column in sorted(places):
        chosen.setdefault(row, []).append(paragraphs[row][column])
    texts = [
        " ".join(sentences) + ("" if len(sentences) == len(paragraphs[row]) else f" {MARK}")
        for row, sentences in chosen.items()
    ]
    whole = len(chosen) == sum(1 for paragraph in paragraphs if paragraph)
    return "\n\n".join(texts if whole else [*texts, MARK])


def find_longest(size: int, fits: Callable[[int], bool]) -> int:
    """The largest length up to `size` that fits, by binary search; 0 if none does."""
    low, high = 0, size
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def cut_at_space(text: str, size: int) -> int:
    """A cut at or before `size` that does not split a word, if there is one nearby."""
    if size >= len(text) or text[size].isspace():
        return size
    space = max(text.rfind(" ", 0, size), text.rfind("\n", 0, size))
    return space if space > size // 2 else size
