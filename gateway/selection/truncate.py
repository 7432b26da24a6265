"""Truncating a text to a number of tokens."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from math import log

from gateway.domain.longest import find_longest_within

Count = Callable[[str], int]

MARK = "[…]"  # marks where text was removed
LONGEST_QUESTION = 4000  # characters of a question that are compared
LOOKED_AT = 256_000  # characters of a text that are split, rated and counted: a whole book would take seconds each time
LONG_TOKENS = 6  # characters of a token in texts that have few tokens
PIECE = 2_000  # characters of a long text that are looked at together
MAX_TERMS = 8  # words of a question that are looked for in it
STEM = 7  # letters of a word that count: most endings are gone then
FIRST_UNSPACED = "\u3040"  # from here on, scripts do not separate words
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|\n")


def truncate(text: str, limit: int, count: Count, how: str, question: str = "") -> str:
    """The part of `text` that fits, "" if nothing useful does; never longer than `limit` tokens.

    Extraction keeps the sentences that answer a question, or without one those that say most of the text.
    """
    looked_at = choose_part(text, limit, how, question)
    if looked_at is text and count(text) <= limit:
        return text
    text = looked_at
    if how == "keep_start":
        return keep_start(text, limit, count)
    if how == "keep_end":
        return keep_end(text, limit, count)
    return extract(text, limit, count, question)


def choose_part(text: str, limit: int, how: str, question: str = "") -> str:
    """The part of a long text that is looked at, however long that is: LOOKED_AT characters, or a large limit's worth.

    Of extracts that is the beginning, and the pieces that have most words of the question, in their order.
    """
    most = max(LOOKED_AT, LONG_TOKENS * limit)
    if len(text) <= most:
        return text
    if how == "keep_end":
        return text[-most:]
    found = sorted(find_terms(question[:LONGEST_QUESTION]), key=lambda term: (len(term), term))
    terms = found[-MAX_TERMS:] if how != "keep_start" else []
    if not terms:
        return text[:most]
    half = most // 2
    starts = range(half, len(text), PIECE)
    scores = [sum(term in piece for term in terms) for piece in (text[at : at + PIECE].lower() for at in starts)]
    best = sorted((at for at in range(len(starts)) if scores[at]), key=lambda at: -scores[at])[: half // (2 * PIECE)]
    return "\n\n".join([text[:half], *cut_pieces(text, half, [starts[at] for at in sorted(best)])])


def cut_pieces(text: str, end: int, starts: list[int]) -> Iterator[str]:
    """The pieces that begin at these places, with the rest of the sentences at either end of them, none twice."""
    for start in starts:
        start, before = max(end, start - PIECE // 2), end
        end = start + 2 * PIECE
        piece = text[start:end]
        first = _SENTENCE_END.search(piece) if start > before else None
        yield piece if first is None else piece[first.end() :]


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
