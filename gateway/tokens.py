"""Counting tokens without a network: exact for OpenAI's models, a stated estimate for others."""

from __future__ import annotations

import importlib.util
import re
import threading
from array import array
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import regex

if TYPE_CHECKING:
    from tiktoken._tiktoken import CoreBPE

LONGEST_PART = 100_000  # characters that are encoded at once
SMALL_TEXT = 16_384  # characters: longer texts are worth the memory of tiktoken's core
SMALL_PIECE = 64  # bytes: merging takes time that grows with their square
REMEMBERED_STRINGS, SHORT_STRING = 32_768, 64  # and the characters of one
REMEMBERED_LINES, SHORT_LINE = 4_096, 256
UNKNOWN = -1  # in place of a number of tokens
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

_LAST_SPACE = re.compile(r" (?=\S)")  # of white space: both encodings split before it


@dataclass(frozen=True, slots=True)
class Encoding:
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


@dataclass(frozen=True, slots=True)
class ModelFamily:
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


class RememberedCounts:
    """The tokens of short strings that come again and again; anything that threads do to each other is harmless."""

    def __init__(self, count: Callable[[str], int | None], most: int, longest: int) -> None:
        self._count, self._most, self._longest = count, most, longest
        self._known: dict[str, int] = {}

    def sum(self, strings: Sequence[str]) -> int | None:
        """The tokens of all strings; None if those of one of them are not known."""
        found = [*map(self._known.get, strings, repeat(UNKNOWN))]
        total, place = sum(found), -1
        for _ in range(found.count(UNKNOWN)):
            place = found.index(UNKNOWN, place + 1)
            tokens = self._count_new(strings[place])
            if tokens is None:
                return None
            total += tokens - UNKNOWN
        return total

    def _count_new(self, string: str) -> int | None:
        tokens = self._count(string)
        if tokens is not None and len(string) <= self._longest:
            if len(self._known) >= self._most:
                self._known = {}
            self._known[string] = tokens
        return tokens


class SmallEncoding:
    """Counts small texts exactly as tiktoken's core does, in a tenth of its memory; words that came before at once.

    Both encodings split before a space, unless it stands between white space, so that a text is the sum of its words.
    Most texts with indented lines are the sum of their lines too; several versions of one have most lines in common.
    """

    def __init__(self, table: TokenTable, pattern: str, ascii_pattern: str) -> None:
        self._table, self._pattern, self._ascii = table, regex.compile(pattern), re.compile(ascii_pattern)
        self._pieces = RememberedCounts(self._count_piece, REMEMBERED_STRINGS, SHORT_STRING)
        self._words = RememberedCounts(self._count_word, REMEMBERED_STRINGS, SHORT_STRING)
        self._lines = RememberedCounts(self._count_line, REMEMBERED_LINES, SHORT_LINE)

    def count(self, text: str) -> int | None:
        """Tokens of `text`; None if it has a piece that would take long."""
        if "  " in text:
            return self._count_lines(text) if "\n" in text else self._count_indented(text)
        tokens = self._sum(text.split(" "))
        if tokens is not None and tokens >= WIDE_START and tokens % WIDE_START >= WIDE_END:
            return self._count_indented(text)
        return None if tokens is None else tokens % WIDE_END

    def _count_indented(self, text: str) -> int | None:
        """The tokens of a text that has several spaces in a row."""
        tokens = self._sum(_LAST_SPACE.split(text))
        return None if tokens is None else tokens % WIDE_END

    def _count_lines(self, text: str) -> int | None:
        """The sum of the lines, unless one of them belongs to the white space or the signs before it."""
        first, *lines = text.rstrip("\n").split("\n")
        if not lines:
            return self._count_indented(text)
        end = text[len(text.rstrip("\n")) :]
        begun, between = self._count_indented(f"{first}\n"), self._lines.sum(lines[:-1])
        ended = self._count_line(lines[-1], end)
        if begun is None or between is None or ended is None:
            return None
        tokens = begun + between + ended
        return self._count_indented(text) if tokens >= WIDE_START else tokens

    def _count_line(self, line: str, end: str = "\n") -> int | None:
        """The tokens of a line; more if it cannot be divided from the one before."""
        if not line or line.isspace() or line[0] in "/\r":
            return WIDE_START
        return self._count_indented(line + end)

    def _sum(self, words: list[str]) -> int | None:
        """The tokens of a text that was divided before spaces; more if there is white space around those."""
        first = words[0]
        if len(words) == 1:
            return self._count_pieces(first)
        begun = self._count_wide(first) if first[-1:].isspace() else self._count_pieces(first)
        between, last = self._words.sum(words[1:-1]), words[-1]
        ended = self._count_pieces(f" {last}")  # white space at its end belongs to nothing that comes after it
        if begun is None or between is None or ended is None:
            return None
        return begun + between + ended + (WIDE_START if not last or last[0].isspace() else 0)

    def _count_word(self, word: str) -> int | None:
        """The tokens of a word and the space before it, and whether there is white space next to it."""
        if not word:
            return WIDE_END + WIDE_START
        tokens = self._count_wide(f" {word}") if word[-1].isspace() else self._count_pieces(f" {word}")
        return tokens if tokens is None or not word[0].isspace() else tokens + WIDE_START

    def _count_wide(self, text: str) -> int | None:
        """The tokens of what ends with white space before another word: texts that end so are split otherwise."""
        tokens = self._count_pieces(f"{text} x")
        return None if tokens is None else tokens - 1 + WIDE_END

    def _count_pieces(self, text: str) -> int | None:
        pieces: list[str] = (self._ascii if text.isascii() else self._pattern).findall(text)
        return self._pieces.sum(pieces)

    def _count_piece(self, piece: str) -> int | None:
        raw = piece.encode()
        if self._table.find_rank(raw) is not None:
            return 1
        return self._merge(raw) if len(raw) <= SMALL_PIECE else None

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


@dataclass
class BpeCounter:
    """Counts with OpenAI's encodings, each loaded on first use.

    Small texts need a table of 4 MB (0.2 s); the first that is not small loads tiktoken's core (0.4 s, 45 MB), which
    then counts everything.
    """

    _small: dict[str, SmallEncoding] = field(default_factory=dict)
    _cores: dict[str, CoreBPE] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

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
    return SmallEncoding(TokenTable(read_tokens(encoding), encoding.slots), encoding.pattern, encoding.ascii)


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
