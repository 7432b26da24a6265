"""Truncating a text to a number of tokens."""

import re
from collections import Counter
from collections.abc import Callable
from math import log

from gateway.domain.longest import find_longest_within

Count = Callable[[str], int]

MARK = "[…]"  # marks where text was removed
LONGEST_QUESTION = 4000  # characters of a question that are compared
STEM = 7  # letters of a word that count: most endings are gone then
FIRST_UNSPACED = "\u3040"  # from here on, scripts do not separate words
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n")


def truncate(text: str, limit: int, count: Count, how: str, question: str = "") -> str:
    """The part of `text` that fits, "" if nothing useful does; never longer than `limit` tokens.

    Extraction keeps the sentences that answer a question, or without one those that say most of the text.
    """
    if count(text) <= limit:
        return text
    if how == "keep_start":
        return keep_start(text, limit, count)
    if how == "keep_end":
        return keep_end(text, limit, count)
    return extract(text, limit, count, question)


def keep_start(text: str, limit: int, count: Count) -> str:
    def measure(length: int) -> int:
        return count(f"{text[:length].rstrip()} {MARK}")

    size = find_longest_within(len(text), measure, limit, count(text))
    kept = text[: cut_at_space(text, size)].rstrip()
    return f"{kept} {MARK}" if kept else ""


def keep_end(text: str, limit: int, count: Count) -> str:
    def measure(length: int) -> int:
        return count(f"{MARK} {text[len(text) - length :].lstrip()}")

    size = find_longest_within(len(text), measure, limit, count(text))
    rest = text[len(text) - size :]
    if 0 < size < len(text) and not text[len(text) - size - 1].isspace():
        rest = rest.partition(" ")[2] or rest
    return f"{MARK} {rest.lstrip()}" if rest.strip() else ""


def extract(text: str, limit: int, count: Count, question: str = "") -> str:
    """The best whole sentences, in their order."""
    paragraphs = [
        [sentence for sentence in _SENTENCE_END.split(paragraph) if sentence.strip()]
        for paragraph in re.split(r"\n\s*\n", text)
    ]
    places = [(row, column) for row, paragraph in enumerate(paragraphs) for column in range(len(paragraph))]
    scores = rate_sentences([paragraphs[row][column] for row, column in places], question)
    best = sorted(range(len(places)), key=lambda place: -scores[place])  # stable: of equal ones the first
    order = [places[place] for place in best]

    def measure(size: int) -> int:
        return count(assemble(paragraphs, order[:size]))

    fits = find_longest_within(len(order), measure, limit, count(text))
    return assemble(paragraphs, order[:fits]) if fits else keep_start(text, limit, count)


def rate_sentences(sentences: list[str], question: str = "") -> list[float]:
    """How much each sentence says about a question, or about the text if there is none or nothing answers it.

    A word says the more about a question the fewer sentences have it, and about the text the more have it.
    """
    terms = [find_terms(sentence) for sentence in sentences]
    frequency = Counter(term for found in terms for term in found)
    central = [sum(frequency[term] for term in found) / (len(found) + 4) for found in terms]
    peak = max(central, default=0.0) or 1.0
    wanted = find_terms(question[:LONGEST_QUESTION])
    if wanted.isdisjoint(frequency):
        return central
    rare = {term: log(1 + len(sentences) / frequency[term]) for term in wanted if term in frequency}
    return [
        sum(rare[term] for term in found & rare.keys()) + middle / peak / 10
        for found, middle in zip(terms, central, strict=True)
    ]


def find_terms(text: str) -> set[str]:
    """Words without their endings; of scripts that do not separate words, pairs of characters."""
    terms: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if word[0] >= FIRST_UNSPACED:
            terms.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif len(word) > 2 or word.isdigit():
            terms.add(word[:STEM])
    return terms


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


def cut_at_space(text: str, size: int) -> int:
    """A cut at or before `size` that does not split a word, if there is one nearby."""
    if size >= len(text) or text[size].isspace():
        return size
    space = max(text.rfind(" ", 0, size), text.rfind("\n", 0, size))
    return space if space > size // 2 else size
