"""Splits a question into what to search for: its sentences, and earlier ones where it does not stand alone."""

import re
from collections.abc import Sequence

from gateway.domain.search import Query, Question

MOST = 8  # sentences; the rest of a long message is joined to the last one
LONGEST = 500  # characters of one sentence that are searched for
SHORT = 25  # characters under which a sentence is part of its neighbour ("Hi!", "Thanks.")
FOLLOW_UP = 40  # characters under which a question may need what was said before
RECENT = 2  # earlier user messages that a follow-up is joined to

_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？；])[”’」』）]*|\n+")
_BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,2}[.)])\s+")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|mr|mrs|ms|dr|prof|st|no|nr|inc|ltd|co|fig|approx|bzw|ca|usw|z\.\s?b|d\.\s?h|sr|sra|ej|pág|p\.\s?ej)"
    r"|\b[A-Za-z]|^\s*\d{1,2})\.$",
    re.IGNORECASE,
)
_REFERRING = re.compile(
    r"^(?:and|or|but|also|what about|how about|why|then|same|und|oder|aber|auch|warum|y|o|pero|también|por qué)\b"
    r"|^(?:那|还|为什么)"
    r"|\b(?:it|its|that|this|those|these|them|they|one|ones|er|sie|es|das|eso|esto|ese|ella)\b|[它这那]",
    re.IGNORECASE,
)


def split_question(question: Question) -> Query:
    """The query of a request's question."""
    return split_query(question.text, question.earlier)


def split_query(text: str, earlier: Sequence[str] = ()) -> Query:
    """The sentences of a text, or the text joined to the `earlier` ones (newest first) when it needs them.

    Several sentences are also searched as a whole: those about one subject are understood better together.
    """
    sentences = split_sentences(text)
    if earlier and needs_context(text):
        before = [sentence for message in reversed(earlier[:RECENT]) for sentence in split_sentences(message)[-1:]]
        return Query((" ".join([*before, *sentences])[-LONGEST:],))
    return Query((" ".join(sentences)[:LONGEST], *sentences) if len(sentences) > 1 else tuple(sentences))


def split_sentences(text: str) -> list[str]:
    """The sentences of a question, each worth a search of its own; none for a text without a letter or digit."""
    pieces = [_BULLET.sub("", piece).strip() for piece in _join_abbreviations(_END.split(text))]
    joined = _join_fragments([piece for piece in pieces if any(map(str.isalnum, piece))])
    if len(joined) > MOST:
        joined = [*joined[: MOST - 1], " ".join(joined[MOST - 1 :])]
    return [sentence[:LONGEST] for sentence in joined]


def needs_context(text: str) -> bool:
    """Whether a question is too short to be understood without what was said before ("and in German?")."""
    text = text.strip()
    length = _measure_length(text)
    return length < FOLLOW_UP and (length < SHORT or bool(_REFERRING.search(text)))


def _join_abbreviations(pieces: Sequence[str]) -> list[str]:
    """Join what was cut after an abbreviation or an initial."""
    joined: list[str] = []
    for piece in pieces:
        if joined and _ABBREVIATED.search(joined[-1]):
            joined[-1] = f"{joined[-1]} {piece}"
        elif piece:
            joined.append(piece)
    return joined


def _join_fragments(pieces: Sequence[str]) -> list[str]:
    """Join greetings and other fragments to the sentence after them, else before."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (_measure_length(joined[-1]) < SHORT or _measure_length(piece) < SHORT):
            joined[-1] = f"{joined[-1]} {piece}"
        else:
            joined.append(piece)
    return joined


def _measure_length(text: str) -> int:
    """In letters: a character of an unspaced script says about as much as three."""
    return sum(3 if "\u3040" <= letter <= "\u9fff" else 1 for letter in text)
