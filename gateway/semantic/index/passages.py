"""Splits resources into passages: the pieces that are embedded, searched and shown."""

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

import msgspec

from gateway.domain.resource import Mode, Resource, ResourceKind

SIZE = 500  # characters; between 250 and 500 hardly matters for finding, and fewer passages cost less
INDEXED = (Mode.SEMANTIC, Mode.ON_DEMAND)

_PARAGRAPH = re.compile(r"\n\s*\n")
# A full stop needs a space after it to end a sentence; the full-width ones do not.
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*|\n")


class Passage(msgspec.Struct, frozen=True):
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


def describe_resource(resource: Resource) -> tuple[object, ...]:
    """All by which a resource is found."""
    return resource.name, resource.description, resource.text, resource.examples, resource.mode, resource.kind


class SplitResource(NamedTuple):
    """The passages of a resource as it was, and the keys of their vectors."""

    resource: Resource
    passages: tuple[Passage, ...]
    keys: tuple[bytes, ...]

    @classmethod
    def split(cls, resource: Resource, model: str) -> Self:
        passages = tuple(_split_resource(resource))
        return cls(resource, passages, tuple(passage.key(model) for passage in passages))

    def is_of(self, resource: Resource) -> bool:
        """Whether a resource would be split the same way."""
        return self.resource is resource or describe_resource(self.resource) == describe_resource(resource)


class PassageSplitter:
    """Splits what has changed since the last time: somebody's edit costs nothing for the resources of all others."""

    def __init__(self) -> None:
        self._model = ""
        self._known: dict[str, SplitResource] = {}  # by the resource's key in the index

    def split(self, resources: Iterable[Resource], model: str) -> tuple[list[Passage], list[bytes]]:
        """The passages of everything that semantic search can find, and their keys for a model."""
        known = self._known if model == self._model else {}
        self._model, self._known = model, {}
        for resource in filter(is_indexed, resources):
            former = known.get(resource.id)
            kept = former if former is not None and former.is_of(resource) else SplitResource.split(resource, model)
            self._known[resource.id] = kept
        everything = self._known.values()
        return [one for split in everything for one in split.passages], [
            key for split in everything for key in split.keys
        ]


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
