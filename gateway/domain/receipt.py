"""The stored account of one exchange."""

import re
from hashlib import blake2b
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import astuple, force_setattr, replace

from gateway.domain.exchange import ExchangeStatus
from gateway.domain.price import TokenCount

STARTED = "started"  # the status of a receipt whose exchange goes on
SWEPT = ExchangeStatus.ABORTED.value  # the status that a receipt gets when its process is gone
RECEIPT_STATUSES = (STARTED, *(status.value for status in ExchangeStatus))

ID_PATTERN = "^[0-9a-f]{26}$"
_ID = re.compile(ID_PATTERN)

# Narrow filters first: a query walks the index of the first that is given and checks the others row by row.
_BY_SELECTIVITY = ("session", "content", "status", "resource", "agent")


class SharedDetails(msgspec.Struct, frozen=True):
    """What many receipts have in common; a store may keep it once for all of them."""

    body: bytes  # a JSON object: details
    summary: bytes = b""  # a JSON object, or nothing: the rest of the summary
    key: bytes = b""  # derived from the others; the same for equal ones only

    def __post_init__(self) -> None:
        whole = self.summary + b"\0" + self.body if self.summary else self.body
        force_setattr(self, "key", blake2b(whole, digest_size=16).digest())

    def complete_summary(self, own: bytes) -> bytes:
        """The summary of a receipt, of which this is the rest."""
        return join_objects(own, self.summary) if self.summary else own


class ReceiptFigures(msgspec.Struct, frozen=True, gc=False):
    """What a receipt adds to the figures, besides what others say as well."""

    alike: object  # receipts with the same object and status differ in nothing else that is counted
    seconds: float | None
    tokens: TokenCount
    cost: float | None
    used: bool  # whether the upstream reported its usage


class Receipt(msgspec.Struct):
    """A receipt as it is stored; its id is that of the exchange, and ids sort by time."""

    id: str
    workspace: str
    status: str  # one of RECEIPT_STATUSES
    session: str | None = None
    agent: str | None = None
    content: str | None = None  # path of the content node
    resources: tuple[str, ...] = ()  # ids of what was placed or fetched
    summary: bytes = b"{}"  # a JSON object: what lists show
    details: bytes = b"{}"  # a JSON object: everything else
    shared: SharedDetails | None = None  # what others say as well, details first; most stores merge it
    figures: ReceiptFigures | None = None  # None: they are read from the JSON

    def __eq__(self, other: object) -> bool:
        """Whether both say the same; `figures` say it once more."""
        return isinstance(other, Receipt) and astuple(self)[:-1] == astuple(other)[:-1]

    def merge_shared(self) -> Self:
        """The same receipt with all that it says in objects of its own."""
        if self.shared is None:
            return self
        return replace(self, summary=self.whole_summary, details=self.whole_details, shared=None)

    @property
    def whole_summary(self) -> bytes:
        return self.summary if self.shared is None else self.shared.complete_summary(self.summary)

    @property
    def whole_details(self) -> bytes:
        return self.details if self.shared is None else join_objects(self.shared.body, self.details)


class ReceiptFilter(msgspec.Struct, frozen=True):
    """Which receipts of a workspace are wanted; None: any."""

    session: str | None = None
    agent: str | None = None
    content: str | None = None
    resource: str | None = None
    status: str | None = None
    begin: float | None = None  # seconds since 1970
    end: float | None = None  # exclusive

    @property
    def leading(self) -> str | None:
        """The field whose index is walked; None: all receipts of the workspace are."""
        given = [name for name in _BY_SELECTIVITY if getattr(self, name) is not None]
        if self.status == ExchangeStatus.OK and len(given) > 1:
            given.remove("status")  # most receipts are ok
        return given[0] if given else None

    def matches(self, receipt: Receipt) -> bool:
        """Whether everything but the time fits."""
        return (
            self.session in (None, receipt.session)
            and self.agent in (None, receipt.agent)
            and self.content in (None, receipt.content)
            and self.status in (None, receipt.status)
            and (self.resource is None or self.resource in receipt.resources)
        )


class ReceiptPage(NamedTuple):
    """Some receipts, newest first, and the id after which the next page begins; None: there are no more."""

    receipts: list[Receipt]
    next: str | None


def is_receipt_id(id: str) -> bool:
    """Whether a receipt could have this id."""
    return _ID.fullmatch(id) is not None


def join_objects(first: bytes, second: bytes) -> bytes:
    """Two JSON objects without white space, neither of them empty, as one."""
    return first[:-1] + b"," + second[1:]
