"""Counting tokens without a network: exact for OpenAI's models, a stated estimate for others."""

from __future__ import annotations

import importlib.util
import re
import threading
from array import array
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from tiktoken._tiktoken import CoreBPE

LONGEST_PART = 100_000  # characters that are encoded at once
SMALL_TEXT = 16_384  # characters: longer texts are worth the memory of tiktoken's core
SMALL_PIECE = 64  # bytes: merging takes time that grows with their square
REMEMBERED_STRINGS, SHORT_STRING = 32_768, 64  # and the characters of one
REMEMBERED_LINES, SHORT_LINE = 4_096, 256
LINE, END = MARKS = "\x00\x01"  # before the first word of a line, behind the last word of all
NEW_LINE, BLANK_LINE = f"\n {LINE}", f" {LINE}\n"
WIDE_END, WIDE_START = 2**40, 2**60  # added to the tokens of a word that white space ends, or begins

# How each encoding splits text before merging, and the file of its merges (named by the hash of its address).
_WORD_END = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_O200K = "|".join(
    [
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _WORD_END,
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _WORD_END,
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)

# The same for texts in ASCII: Python's own patterns take a third of the time, but do not know Unicode's classes.
_ASCII_SPACE, _ASCII_OTHER = r"\t-\r ", r"[^\t-\r A-Za-z0-9]"
_ASCII_O200K = "|".join(
    [
        r"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+" + _WORD_END,
        r"[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*" + _WORD_END,
        r"[0-9]{1,3}",
        rf" ?{_ASCII_OTHER}+[\r\n/]*",
        rf"[{_ASCII_SPACE}]*[\r\n]+",
        rf"[{_ASCII_SPACE}]+(?![^{_ASCII_SPACE}])",
        rf"[{_ASCII_SPACE}]+",
    ]
)
_ASCII_CL100K = (
    rf"'(?i:[sdmt]|ll|ve|re)|[^\r\nA-Za-z0-9]?+[A-Za-z]++|[0-9]{{1,3}}+| ?{_ASCII_OTHER}++[\r\n]*+"
    rf"|[{_ASCII_SPACE}]++$|[{_ASCII_SPACE}]*[\r\n]|[{_ASCII_SPACE}]+(?![^{_ASCII_SPACE}])|[{_ASCII_SPACE}]"
)

_LAST_SPACE = re.compile(rf" (?=[^\s{END}])")  # of white space: both encodings split before it


class Encoding(msgspec.Struct, frozen=True):
    """Where an encoding's merges are and how it splits text."""

    file: str
    pattern: str
    ascii: str  # the pattern for texts in ASCII
    slots: int  # of its table: a power of two, more than twice its tokens


ENCODINGS = MappingProxyType(
    {
        "o200k": Encoding("fb374d419588a4632f3f557e76b4b70aebbca790", _O200K, _ASCII_O200K, 2**19),
        "cl100k": Encoding("9b5ad71b2ce5302211f9c61530b329a4922fc6a4", _CL100K, _ASCII_CL100K, 2**18),
    }
)
RANK_BITS = 2**18 - 1  # the lower bits of a slot hold a rank plus one, the others a hash
HASH_BITS = 2**64 - 1 - RANK_BITS
NO_RANK = 2**32
_OLDER = ("gpt-4-", "gpt-3.5", "text-embedding")


class ModelFamily(msgspec.Struct, frozen=True):
    """How the tokens of a family of models are counted: by one of OpenAI's tables, raised by a margin in hundredths."""

    encoding: str
    margin: int = 0  # for texts in ASCII
    wide_margin: int = 0  # for other texts
    exact: bool = False


# `python -m scripts.token_errors` measures them; docs/decisions/040-token-families.md has the figures.
FAMILIES = MappingProxyType(
    {
        "o200k": ModelFamily("o200k", exact=True),
        "cl100k": ModelFamily("cl100k", exact=True),
        "claude": ModelFamily("o200k", 25, 50),
        "gemini": ModelFamily("o200k", 15, 15),
        "llama": ModelFamily("cl100k"),
        "mistral": ModelFamily("o200k", 7, 10),
        "qwen": ModelFamily("cl100k", 4, 4),
    }
)
# What names of models begin with, and their family; OpenAI's are told apart by their version.
NAMES = (
    ("claude", "claude"),
    ("gemini", "gemini"),
    ("gemma", "gemini"),
    ("llama", "llama"),
    ("meta-llama", "llama"),
    ("mistral", "mistral"),
    ("mixtral", "mistral"),
    ("ministral", "mistral"),
    ("codestral", "mistral"),
    ("pixtral", "mistral"),
    ("qwen", "qwen"),
    ("qwq", "qwen"),
)


TokenCount = Callable[[str], int]  # for one model


class TokenCounter(Protocol):
    """Counts the tokens of texts."""

    def count(self, text: str, model: str) -> int:
        """Tokens of `text` for `model`."""
        ...

    def family(self, model: str) -> str:
        """Models of one family count alike, so that counts can be cached by it; its name counts like its models."""
        ...


class TokenTable:
    """The ranks of an encoding's tokens, found by their hash: 4 MB, a tenth of what tiktoken's core takes.

    The tokens come in the order of their ranks. They are not kept: bytes that are none are taken for one once in 10^13
    times.
    """

    def __init__(self, tokens: Iterable[bytes], slots: int) -> None:
        self._mask = mask = slots - 1
        self._slots = table = array("Q", bytes(8 * slots))
        for following, code in enumerate(map(hash, tokens), 1):
            slot = code & mask
            while table[slot]:
                slot = (slot + 1) & mask
            table[slot] = code & HASH_BITS | following

    def find_rank(self, token: bytes) -> int | None:
        code, table, mask = hash(token), self._slots, self._mask
        slot, wanted = code & mask, code & HASH_BITS
        while entry := table[slot]:
            if entry & HASH_BITS == wanted:
                return (entry & RANK_BITS) - 1
            slot = (slot + 1) & mask
        return None


class RememberedCounts(dict[str, int]):
    """The tokens of short strings that come again and again; anything that threads do to each other is harmless."""

    def __init__(self, count: Callable[[str], int], most: int, longest: int) -> None:
        super().__init__()
        self._count, self._most, self._longest = count, most // 2, longest
        self._former: dict[str, int] = {}  # what was remembered before there were too many

    def __missing__(self, string: str) -> int:
        tokens = self._former.get(string)
        if tokens is None:
            tokens = self._count(string)
        if len(string) <= self._longest:
            if len(self) >= self._most:
                self._former = dict(self)
                self.clear()
            self[string] = tokens
        return tokens

    def sum(self, strings: Iterable[str]) -> int:
        """The tokens of all strings; raises LongPiece."""
        return sum(map(self.__getitem__, strings))


class LongPiece(Exception):
    """To merge a piece of this length would take long."""


class SmallEncoding:
    """Counts small texts exactly as tiktoken's core does, in a tenth of its memory; words that came before at once.

    Both encodings split before a space, unless it stands between white space, and after the last of some line breaks,
    unless white space or a slash follows, so that a text is the sum of its words. Each is remembered by its text, with
    a mark before the first word of a line and one behind the last word of all.
    """

    def __init__(self, table: TokenTable, pattern: str, ascii_pattern: str) -> None:
        import regex  # of gateway.late_modules

        self._table, self._pattern, self._ascii = table, regex.compile(pattern), re.compile(ascii_pattern)
        self._pieces = RememberedCounts(self._count_piece, REMEMBERED_STRINGS, SHORT_STRING)
        self._words = RememberedCounts(self._count_word, REMEMBERED_STRINGS, SHORT_STRING)
        self._lines = RememberedCounts(self._count_line, REMEMBERED_LINES, SHORT_LINE)

    def count(self, text: str) -> int | None:
        """Tokens of `text`; None if it has a piece that would take long."""
        try:
            if LINE in text or END in text:
                return self._count_pieces(text)
            lines = text.replace("\n", NEW_LINE).replace(BLANK_LINE, "\n") if "\n" in text else text
            tokens = self._count_indented(lines) if "  " in lines else self._words.sum(f"{LINE}{lines}{END}".split(" "))
            if tokens >= WIDE_START and tokens % WIDE_START >= WIDE_END:
                tokens = self._count_line(text + END)
            return tokens % WIDE_END
        except LongPiece:
            return None

    def _count_indented(self, text: str) -> int:
        """The tokens of a text that has several spaces in a row: several versions of one have most lines in common."""
        return self._lines.sum(f"{text}{END}".split(f" {LINE}"))

    def _count_line(self, line: str) -> int:
        return self._words.sum(_LAST_SPACE.split(LINE + line))

    def _count_word(self, marked: str) -> int:
        """The tokens of a word and the space before it, and whether it has white space at its ends."""
        word = marked.strip(MARKS)
        starts_line, is_last = marked[0] == LINE, marked[-1] == END
        text = word if starts_line else f" {word}"
        flags = 0
        if starts_line:
            flags = WIDE_START + WIDE_END if _belongs_to_break(word, is_last) else 0
        elif not word or word[0].isspace():
            flags = WIDE_START
        if is_last or (text and not text[-1].isspace()):
            return self._count_pieces(text) + flags
        # Texts that end with white space are split otherwise; what ends with a line break has a new line behind it.
        return self._count_pieces(f"{text} x") - 1 + flags + (0 if text[-1:] == "\n" else WIDE_END)

    def _count_pieces(self, text: str) -> int:
        pieces: list[str] = (self._ascii if text.isascii() else self._pattern).findall(text)
        return self._pieces.sum(pieces)

    def _count_piece(self, piece: str) -> int:
        raw = piece.encode()
        if self._table.find_rank(raw) is not None:
            return 1
        if len(raw) > SMALL_PIECE:
            raise LongPiece
        return self._merge(raw)

    def _merge(self, piece: bytes) -> int:
        """Join the neighbours that make the token of the lowest rank, again and again; returns how many are left."""
        parts = [piece[place : place + 1] for place in range(len(piece))]
        ranks = [self._rank(one, other) for one, other in pairwise(parts)]
        while ranks and (lowest := min(ranks)) < NO_RANK:
            place = ranks.index(lowest)
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
            del ranks[place]
            for pair in (place - 1, place):
                if 0 <= pair < len(ranks):
                    ranks[pair] = self._rank(parts[pair], parts[pair + 1])
        return len(parts)

    def _rank(self, one: bytes, other: bytes) -> int:
        rank = self._table.find_rank(one + other)
        return NO_RANK if rank is None else rank


def _belongs_to_break(word: str, is_last: bool) -> bool:
    """Whether what a line begins with cannot be divided from the line break before it."""
    if not word or not (word[0].isspace() or word[0] == "/"):
        return False
    rest = word.lstrip()
    before = word[: len(word) - len(rest)]
    return word[0] == "/" or "\n" in before or "\r" in before or (is_last and not rest)


class BpeCounter(msgspec.Struct):
    """Counts with OpenAI's encodings, each loaded on first use.

    Small texts need a table of 4 MB (0.2 s); the first that is not small loads tiktoken's core (0.4 s, 45 MB), which
    then counts everything.
    """

    _small: dict[str, SmallEncoding] = msgspec.field(default_factory=dict)
    _cores: dict[str, CoreBPE] = msgspec.field(default_factory=dict)
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def family(self, model: str) -> str:
        name = model.rsplit("/", 1)[-1].lower()
        if name in FAMILIES:
            return name
        if name.startswith("gpt-"):
            return "cl100k" if name == "gpt-4" or name.startswith(_OLDER) else "o200k"
        for part, family in NAMES:
            if part in name:
                return family
        return "cl100k" if name.startswith(_OLDER) else "o200k"

    def count(self, text: str, model: str) -> int:
        if not text:
            return 0
        family = FAMILIES[self.family(model)]
        tokens = self._count(family.encoding, text)
        if family.exact:
            return tokens
        margin = family.margin if text.isascii() else family.wide_margin
        return -(-tokens * (100 + margin) // 100) if margin else tokens

    def _count(self, name: str, text: str) -> int:
        if name not in self._cores and len(text) <= SMALL_TEXT:
            tokens = self._get_small(name).count(text)
            if tokens is not None:
                return tokens
        core = self._get_core(name)
        return sum(len(core.encode_ordinary(part)) for part in split_long_text(text))

    def _get_small(self, name: str) -> SmallEncoding:
        if (known := self._small.get(name)) is not None:
            return known
        with self._lock:
            if name not in self._small:
                self._small[name] = load_small_encoding(name)
            return self._small[name]

    def _get_core(self, name: str) -> CoreBPE:
        if (known := self._cores.get(name)) is not None:
            return known
        with self._lock:
            if name not in self._cores:
                self._cores[name] = load_core(name)
            self._small.pop(name, None)
            return self._cores[name]


def split_long_text(text: str) -> Iterator[str]:
    """A text in parts that an encoding can take: millions of spaces in a row exhaust tiktoken's stack.

    Before a space is between two tokens; a part without one is cut where it ends, which may add a token.
    """
    start = 0
    while len(text) - start > LONGEST_PART:
        end = text.rfind(" ", start + 1, start + LONGEST_PART)
        end = start + LONGEST_PART if end < 0 else end
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def load_small_encoding(name: str) -> SmallEncoding:
    encoding = ENCODINGS[name]
    return SmallEncoding(make_table(name), encoding.pattern, encoding.ascii)


def make_table(name: str) -> TokenTable:
    encoding = ENCODINGS[name]
    return TokenTable(read_tokens(encoding), encoding.slots)


def load_core(name: str) -> CoreBPE:
    """tiktoken's core, built directly: its own wrapper keeps a second, unused copy of the merges of 30 MB."""
    from tiktoken._tiktoken import CoreBPE

    encoding = ENCODINGS[name]
    return CoreBPE({token: rank for rank, token in enumerate(read_tokens(encoding))}, {}, encoding.pattern)


def read_tokens(encoding: Encoding) -> Iterator[bytes]:
    """Tokens in the order of their ranks, from the files that litellm's package carries; litellm is not imported."""
    package = importlib.util.find_spec("litellm")
    assert package is not None
    assert package.submodule_search_locations
    folder = Path(package.submodule_search_locations[0], "litellm_core_utils", "tokenizers")
    with open(folder / encoding.file, "rb") as lines:
        for line in lines:
            yield a2b_base64(line.partition(b" ")[0])
