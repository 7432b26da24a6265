"""A question cut into what is searched for: its sentences, and recent turns where it does not stand alone."""

import re
from collections.abc import Sequence

MOST = 8  # sentences; the rest of a long message is joined to the last ones
LONGEST = 500  # characters of one sentence that are looked at
SHORT = 25  # characters under which a sentence is part of its neighbour ("Hi!", "Thanks.")
FOLLOW_UP = 40  # characters under which a question leans on what was said before
RECENT = 2  # earlier user turns that a follow-up leans on

_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？；])[”’」』）]*|\n+")
_BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,2}[.)])\s+")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|mr|mrs|ms|dr|prof|st|no|nr|inc|ltd|co|fig|approx|bzw|ca|usw|z\.\s?b|d\.\s?h|sr|sra|ej|pág|p\.\s?ej)"
    r"|\b[A-Za-z]|^\s*\d{1,2})\.$",
    re.IGNORECASE,
)
_LEANING = re.compile(
    r"^(?:and|or|but|also|what about|how about|why|then|same|und|oder|aber|auch|warum|y|o|pero|también|por qué)\b"
    r"|^(?:那|还|为什么)"
    r"|\b(?:it|its|that|this|those|these|them|they|one|ones|er|sie|es|das|eso|esto|ese|ella)\b|[它这那]",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """The sentences of a question, each worth a search of its own; none for a text without a letter or digit."""
    pieces = [_BULLET.sub("", piece).strip() for piece in _mended(_END.split(text))]
    merged = _merged([piece for piece in pieces if any(map(str.isalnum, piece))])
    if len(merged) > MOST:
        merged = [*merged[: MOST - 1], " ".join(merged[MOST - 1 :])]
    return [sentence[:LONGEST] for sentence in merged]


def searched(text: str, earlier: Sequence[str] = ()) -> list[str]:
    """What to search for: its sentences, or one thread with the `earlier` texts (newest first) when it needs them.

    Several sentences are also searched as a whole: those that speak of one thing are understood better together.
    """
    asked = sentences(text)
    if earlier and leans_on_context(text):
        before = [sentence for turn in reversed(earlier[:RECENT]) for sentence in sentences(turn)[-1:]]
        return [" ".join([*before, *asked])[-LONGEST:]]
    return [" ".join(asked)[:LONGEST], *asked] if len(asked) > 1 else asked


def leans_on_context(text: str) -> bool:
    """Whether a question is too short to be understood without what was said before ("and in German?")."""
    text = text.strip()
    # A character of an unspaced script says about as much as three letters.
    weight = sum(3 if "\u3040" <= letter <= "\u9fff" else 1 for letter in text)
    return weight < FOLLOW_UP and (weight < SHORT or bool(_LEANING.search(text)))


def _mended(pieces: Sequence[str]) -> list[str]:
    """Pieces that were cut after an abbreviation or an initial are put together again."""
    mended: list[str] = []
    for piece in pieces:
        if mended and _ABBREVIATED.search(mended[-1]):
            mended[-1] = f"{mended[-1]} {piece}"
        elif piece:
            mended.append(piece)
    return mended


def _merged(pieces: Sequence[str]) -> list[str]:
    """Greetings and other scraps go with the sentence after them, else before."""
    merged: list[str] = []
    for piece in pieces:
        if merged and (_scrap(merged[-1]) or _scrap(piece)):
            merged[-1] = f"{merged[-1]} {piece}"
        else:
            merged.append(piece)
    return merged


def _scrap(piece: str) -> bool:
    return sum(3 if "\u3040" <= letter <= "\u9fff" else 1 for letter in piece) < SHORT
