"""What lists of noted and of started receipts have in common: how a template is stored, and the walk over lists."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Protocol, TypeVar

from gateway.domain.receipt import SharedDetails
from gateway.domain.receipt_note import NoteTemplate
from gateway.stores.codec import decode_text, encode_text

SEPARATOR = "\n"  # between the ids of resources, which contain no control characters


class ListRow(Protocol):
    """The columns that every row of a list has."""

    @property
    def workspace(self) -> bytes: ...
    @property
    def last(self) -> bytes: ...
    @property
    def agent(self) -> bytes | None: ...
    @property
    def content(self) -> bytes | None: ...
    @property
    def resources(self) -> bytes: ...


class ListBody(Protocol):
    """What the body of every row says of its template, as JSON."""

    scope: bytes
    upstream: bytes


class ListPosition(Protocol):
    """A receipt in a list."""

    @property
    def id(self) -> bytes: ...


Row = TypeVar("Row", bound=ListRow)
Position = TypeVar("Position", bound=ListPosition)


def encode_template(template: NoteTemplate) -> Sequence[bytes | None]:
    """The columns agent, content, resources and shared."""
    agent, content = (None if one is None else encode_text(one) for one in (template.agent, template.content))
    return (agent, content, encode_text(SEPARATOR.join(template.resources)), template.shared.key)


def read_template(row: ListRow, body: ListBody, shared: SharedDetails | None) -> NoteTemplate:
    agent, node = (None if one is None else decode_text(one) for one in (row.agent, row.content))
    resources = tuple(one for one in decode_text(row.resources).split(SEPARATOR) if one)
    names = (decode_text(row.workspace), agent, node, resources)
    return NoteTemplate(*names, shared or SharedDetails(b"{}"), body.scope, body.upstream)


def split_resources(resources: bytes) -> list[bytes]:
    return [one for one in resources.split(SEPARATOR.encode()) if one]


def walk_positions(rows: Iterable[Row], choose: Callable[[Row], Iterable[Position]]) -> Iterator[Position]:
    """What is chosen of lists, whose ids may mingle, newest first; the lists with the newest ones come first."""
    opened: list[Position] = []  # oldest first
    for row in rows:
        while opened and opened[-1].id > row.last:
            yield opened.pop()
        opened = sorted([*opened, *choose(row)], key=attrgetter("id"))
    yield from reversed(opened)
