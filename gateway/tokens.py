"""Counting tokens without a network: exact for OpenAI's models, a stated estimate for others."""

import base64
import importlib.util
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tiktoken._tiktoken import CoreBPE

LONGEST_PART = 100_000  # characters that are encoded at once
CLAUDE_MARGIN = 1.25  # no public tokenizer: o200k counts too few, so the estimate is raised

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
_ENCODINGS = {
    "o200k": ("fb374d419588a4632f3f557e76b4b70aebbca790", _O200K),
    "cl100k": ("9b5ad71b2ce5302211f9c61530b329a4922fc6a4", _CL100K),
}
_OLDER = ("gpt-4-", "gpt-3.5", "text-embedding", "llama", "meta-llama")


class TokenCounter(Protocol):
    """Counts the tokens of texts."""

    def count(self, text: str, model: str) -> int:
        """Tokens of `text` for `model`."""
        ...

    def family(self, model: str) -> str:
        """Models of one family count alike, so that counts can be cached by it."""
        ...


@dataclass
class BpeCounter:
    """Counts with OpenAI's encodings; each is loaded on first use (0.4 s, 45 MB)."""

    _loaded: dict[str, CoreBPE] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def family(self, model: str) -> str:
        name = model.rsplit("/", 1)[-1].lower()
        if "claude" in name:
            return "claude"
        return "cl100k" if name == "gpt-4" or name.startswith(_OLDER) else "o200k"

    def count(self, text: str, model: str) -> int:
        if not text:
            return 0
        family = self.family(model)
        encoding = self._encoding("o200k" if family == "claude" else family)
        tokens = sum(len(encoding.encode_ordinary(part)) for part in split_long_text(text))
        return -(-int(tokens * 100 * CLAUDE_MARGIN) // 100) if family == "claude" else tokens

    def _encoding(self, name: str) -> CoreBPE:
        if (known := self._loaded.get(name)) is not None:
            return known
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = load_encoding(name)
            return self._loaded[name]


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


def load_encoding(name: str) -> CoreBPE:
    """An encoding from the files that litellm's package carries; litellm itself is not imported.

    The core is built directly: tiktoken's own wrapper keeps a second, unused copy of the merges of 30 MB.
    """
    file, pattern = _ENCODINGS[name]
    package = importlib.util.find_spec("litellm")
    assert package is not None
    assert package.submodule_search_locations
    path = Path(package.submodule_search_locations[0], "litellm_core_utils", "tokenizers", file)
    lines = (line.split() for line in path.read_bytes().splitlines())
    return CoreBPE({base64.b64decode(token): int(rank) for token, rank in lines}, {}, pattern)
