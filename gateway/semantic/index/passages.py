"""Resources cut into passages: the pieces that are embedded, searched and shown."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gateway.domain.resource import Mode, Resource, ResourceKind

SIZE = 500  # characters; between 250 and 500 hardly matters for finding, and fewer passages cost less
INDEXED = (Mode.SEMANTIC, Mode.ON_DEMAND)

_PARAGRAPH = re.compile(r"\n\s*\n")
# A full stop needs a space after it to end a sentence; the full-width ones do not.
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*|\n")


@dataclass(frozen=True, slots=True)
class Passage:
    """An indexed piece of a resource, or one of its example questions."""

    resource: str  # the resource's id
    text: str
    example: bool = False
    tool: bool = False  # of something to call: those are chosen among themselves

    def key(self, model: str) -> bytes:
        """What its vector is kept under: the same text has the same vector wherever it stands."""
        return hashlib.sha256(f"{model}\n{self.text}".encode("utf-8", "surrogatepass")).digest()


def passages_of(resources: Iterable[Resource]) -> list[Passage]:
    """The passages of everything that can be found by meaning, resource by resource."""
    return [passage for resource in resources if is_indexed(resource) for passage in _passages(resource)]


def is_indexed(resource: Resource) -> bool:
    """Whether there is something to find: text that is neither always there nor named by hand."""
    return resource.mode in INDEXED and resource.text is not None


def _passages(resource: Resource) -> Iterator[Passage]:
    tool = resource.kind is ResourceKind.TOOL
    for piece in pieces(whole_text(resource)):
        yield Passage(resource.id, piece, tool=tool)
    for example in resource.examples:
        if example.strip():
            yield Passage(resource.id, example.strip(), example=True, tool=tool)


def whole_text(resource: Resource) -> str:
    """What a resource is found by: its name and description say what its body often does not."""
    head = f"{resource.name}: {resource.description}" if resource.description else resource.name
    return f"{head}\n\n{resource.text or ''}"


def pieces(text: str, size: int = SIZE) -> list[str]:
    """The text in pieces of at most `size` characters, broken between paragraphs, else sentences, else words."""
    paragraphs = [part.strip() for part in _PARAGRAPH.split(text) if part.strip()]
    small = [piece for paragraph in paragraphs for piece in _sentences_within(paragraph, size)]
    return _joined(small, size, "\n\n")


def _sentences_within(paragraph: str, size: int) -> list[str]:
    if len(paragraph) <= size:
        return [paragraph]
    sentences = [part.strip() for part in _SENTENCE.split(paragraph) if part.strip()]
    return _joined([piece for sentence in sentences for piece in _words_within(sentence, size)], size, " ")


def _words_within(sentence: str, size: int) -> Iterator[str]:
    while len(sentence) > size:
        # A script without spaces, or one endless word, is cut where the size ends.
        end = sentence.rfind(" ", size // 2, size + 1)
        end = size if end < 0 else end
        yield sentence[:end].rstrip()
        sentence = sentence[end:].lstrip()
    if sentence:
        yield sentence


def _joined(parts: Iterable[str], size: int, glue: str) -> list[str]:
    """Neighbours put together while they fit."""
    joined: list[str] = []
    for part in parts:
        if joined and len(joined[-1]) + len(glue) + len(part) <= size:
            joined[-1] += glue + part
        else:
            joined.append(part)
    return joined
