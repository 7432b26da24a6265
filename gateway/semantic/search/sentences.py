"""Splits a question into what to search for: its sentences, and earlier ones where it does not stand alone."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from gateway.domain.search import Query, Question

MOST = 8  # sentences; the rest of a long message is joined to the last one
LONGEST = 500  # characters of one sentence that are searched for
SHORT = 25  # characters under which a sentence is part of its neighbour ("Hi!", "Thanks.")
WORDS = 4  # of a shorter question, or entry of a list, that is searched for on its own all the same
FOLLOW_UP = 40  # characters under which a question may need what was said before
RECENT = 2  # earlier user messages that a follow-up is joined to
LOOKED_AT = 8_000  # characters of a text that are split: twice what all sentences together may have
MOST_PIECES = 400  # that are put together to sentences; what follows counts as one piece
TAIL = 16  # characters at the end of a sentence in which an abbreviation is looked for: more than any has

_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？；])[”’」』）]*|\n+")
_BULLET = re.compile(r"^\s*(?:[-*•–]|\d{1,2}[.)])\s+")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|mr|mrs|ms|dr|prof|st|no|nr|inc|ltd|co|fig|approx|bzw|ca|usw|z\.\s?b|d\.\s?h|sr|sra|ej|pág|p\.\s?ej)"
    r"|\b[A-Za-z])\.$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\s*\d{1,2}\.")
_REFERRING = re.compile(
    r"^(?:and|or|but|also|what about|how about|why|then|same|und|oder|aber|auch|warum|y|o|pero|también|por qué)\b"
    r"|^(?:那|还|为什么)"
    r"|\b(?:it|its|that|this|those|these|them|they|one|ones|er|sie|es|das|eso|esto|ese|ella)\b|[它这那]",
    re.IGNORECASE,
)
# A question begins like this; after "and", the next one does in the same sentence.
_ASKING = (
    r"(?:(?:how|what|where|who|which|why|when (?:is|are|do|does|did|can|will|would|should)) "
    r"|(?:can|could|do|does|did|is|are|will|would|should|may|must) (?:i|you|we|there|my|your|the) )"
)
_ASKING_IN_GERMAN = (
    r"(?:(?:wie|was|wo|wann|wer|wen|welche[mnrs]?|warum|wieso) "
    r"|(?:kann|könnte|muss|darf|soll|ist|sind|gibt) (?:ich|ihr|wir|es|man|mein|meine|der|die|das) )"
)
_ASKING_IN_SPANISH = r"(?:(?:cómo|qué|dónde|cuándo|quién|cuál|cuánto) )"
_QUESTION = re.compile(rf"¿?(?:{_ASKING}|{_ASKING_IN_GERMAN}|{_ASKING_IN_SPANISH})", re.IGNORECASE)
_CLAUSE = re.compile(
    rf",? (?:and (?:also |then )?(?={_ASKING})|und (?:auch |dann )?(?={_ASKING_IN_GERMAN})"
    rf"|y (?:también )?(?=¿?{_ASKING_IN_SPANISH}))",
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
    pieces = _join_abbreviations(_split(text[:LOOKED_AT]))
    joined = _join_fragments(piece for piece in pieces if any(map(str.isalnum, piece)))
    # Spacing makes no difference to what is found: the same question is then the same query, however it is spaced.
    clauses = [clause for sentence in joined for clause in _split_clauses(" ".join(sentence.split()))]
    if len(clauses) > MOST:
        clauses = [*clauses[: MOST - 1], " ".join(clauses[MOST - 1 :])]
    return [clause[:LONGEST] for clause in clauses]


def needs_context(text: str) -> bool:
    """Whether a question is too short to be understood without what was said before ("and in German?")."""
    text = text.strip()
    if len(text) >= FOLLOW_UP:
        return False
    length = _measure_length(text)
    return length < FOLLOW_UP and (length < SHORT or bool(_REFERRING.search(text)))


def _split(text: str) -> Iterator[str]:
    """Whatever stands between the ends of sentences."""
    at = 0
    for end in islice(_END.finditer(text), MOST_PIECES):
        yield text[at : end.start()]
        at = end.end()
    yield text[at:]


def _join_abbreviations(pieces: Iterable[str]) -> Iterator[str]:
    """Join what was cut after an abbreviation or an initial."""
    sentence: list[str] = []
    tail = ""  # of the sentence
    for piece in pieces:
        if sentence and (_ABBREVIATED.search(tail) or (len(sentence) == 1 and _NUMBERED.fullmatch(sentence[0]))):
            sentence.append(piece)
            tail = f"{tail} {piece}"[-TAIL:]
        elif piece:
            if sentence:
                yield " ".join(sentence)
            sentence = [piece]
            tail = piece[-TAIL:]
    if sentence:
        yield " ".join(sentence)


def _join_fragments(pieces: Iterable[str]) -> list[str]:
    """Join greetings and other fragments to the sentence after them, else before; no more than is looked at."""
    joined: list[list[str]] = []
    before = 0  # the length of the last sentence
    rest = 0  # characters of what will be joined to the last one that is searched for
    for written in pieces:
        piece = _BULLET.sub("", written, count=1).strip()
        length = _measure_length(piece)
        if length < SHORT and _is_asked(piece, listed=piece != written.strip()):
            length = SHORT
        if joined and (before < SHORT or length < SHORT):
            joined[-1].append(piece)
            before += 1 + length
        else:
            joined.append([piece])
            before = length
        if len(joined) > MOST:
            rest += sum(map(len, piece.split()))
            if rest > LONGEST:
                break
    return [" ".join(sentence) for sentence in joined]


def _split_clauses(sentence: str) -> Iterator[str]:
    """The questions that one sentence asks, if each of them can be understood without the others."""
    at = 0
    if not _QUESTION.match(sentence):
        yield sentence
        return
    for end in islice(_CLAUSE.finditer(sentence), MOST):
        before, after = sentence[at : end.start()][:LONGEST], sentence[end.end() : end.end() + LONGEST]
        if stands_alone(before) and stands_alone(after):
            yield before
            at = end.end()
    yield sentence[at:]


def stands_alone(clause: str) -> bool:
    return len(clause.split()) >= WORDS and not _REFERRING.search(clause)


def _is_asked(piece: str, *, listed: bool) -> bool:
    """Whether a short piece is a question, or an entry of a list, with enough words to be found by."""
    return (listed or piece.endswith("?")) and len(piece.split()) >= WORDS


def _measure_length(text: str) -> int:
    """In letters: a character of an unspaced script says about as much as three."""
    return len(text) if text.isascii() else sum(3 if "\u3040" <= letter <= "\u9fff" else 1 for letter in text)
