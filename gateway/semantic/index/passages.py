"""Splits resources into passages: the pieces that are embedded, searched and shown."""

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

    resource: str  # the resource's key in the index
    text: str
    example: bool = False
    tool: bool = False  # of something to call: those compete among themselves

    def key(self, model: str) -> bytes:
        """What its vector is stored under: the same text has the same vector wherever it stands."""
        return hashlib.sha256(f"{model}\n{self.text}".encode("utf-8", "surrogatepass")).digest()


def split_resources(resources: Iterable[Resource]) -> list[Passage]:
    """The passages of everything that semantic search can find, resource by resource."""
    return [passage for resource in resources if is_indexed(resource) for passage in _split_resource(resource)]


def is_indexed(resource: Resource) -> bool:
    """Whether there is something to find: text that is neither always placed nor only named by hand."""
    return resource.mode in INDEXED and resource.text is not None and not is_server(resource)


def is_server(resource: Resource) -> bool:
    """Whether it only stands for the tools of a server, which are indexed themselves."""
    return resource.kind is ResourceKind.TOOL and not resource.text


def _split_resource(resource: Resource) -> Iterator[Passage]:
    tool = resource.kind is ResourceKind.TOOL
    for piece in split_text(compose_text(resource)):
        yield Passage(resource.id, piece, tool=tool)
    for example in resource.examples:
        if example.strip():
            yield Passage(resource.id, example.strip(), example=True, tool=tool)


def compose_text(resource: Resource) -> str:
    """The text a resource is found by: its name and description say what its body often does not."""
    head = f"{resource.name}: {resource.description}" if resource.description else resource.name
    if resource.kind is ResourceKind.TOOL:  # its text is a schema
        return head
    return f"{head}\n\n{resource.text or ''}"


def split_text(text: str, size: int = SIZE) -> list[str]:
    """The text in pieces of at most `size` characters, broken between paragraphs, else sentences, else words."""
    paragraphs = [part.strip() for part in _PARAGRAPH.split(text) if part.strip()]
    small = [piece for paragraph in paragraphs for piece in _split_paragraph(paragraph, size)]
    return _join_neighbours(small, size, "\n\n")


def _split_paragraph(paragraph: str, size: int) -> list[str]:
    if len(paragraph) <= size:
        return [paragraph]
    sentences = [part.strip() for part in _SENTENCE.split(paragraph) if part.strip()]
    return _join_neighbours([piece for sentence in sentences for piece in _split_sentence(sentence, size)], size, " ")


def _split_sentence(sentence: str, size: int) -> Iterator[str]:
    start = 0
    while len(sentence) - start > size:
        # A script without spaces, or one endless word, is cut where the size ends.
        end = sentence.rfind(" ", start + size // 2, start + size + 1)
        end = start + size if end < 0 else end
        yield sentence[start:end].rstrip()
        start = end
        while start < len(sentence) and sentence[start].isspace():
            start += 1
    if start < len(sentence):
        yield sentence[start:]


def _join_neighbours(parts: Iterable[str], size: int, glue: str) -> list[str]:
    """Joins neighbours while they fit."""
    joined: list[str] = []
    for part in parts:
        if joined and len(joined[-1]) + len(glue) + len(part) <= size:
            joined[-1] += glue + part
        else:
            joined.append(part)
    return joined
