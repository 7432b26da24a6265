"""What a receipt says that is counted, read from its JSON."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.domain.lru import LruCache
from gateway.domain.receipt import Receipt, SharedDetails
from gateway.domain.receipt_note import NotedReceipt, NoteTemplate
from gateway.domain.sketch import hash_name
from gateway.ids import read_id_time
from gateway.receipts.overlap import SHOWN_PHRASES

KEPT_SELECTIONS = 512  # most exchanges of a scope have the same
KEPT_BYTES = 8_000_000
BROKEN = (msgspec.MsgspecError, UnicodeError, RecursionError)
PICKED = frozenset({"semantic", "expansion", "prefetch"})  # how semantic search says that it chose something
BY_HAND = frozenset({"session", "include"})


class ItemFacts(msgspec.Struct, frozen=True, gc=False):
    """An injected resource."""

    id: str
    context: str
    via: str = ""
    tokens: int = 0
    truncated: bool = False

    @property
    def picked(self) -> bool:
        return self.via in PICKED


class SelectionFacts(msgspec.Struct, frozen=True):
    """What was injected, and what the budget left out."""

    injected: tuple[ItemFacts, ...] = ()
    over_budget: tuple[str, ...] = ()
    picks: frozenset[str] = frozenset()  # worked out of `injected`


class SourceFacts(msgspec.Struct, frozen=True):
    """A context that applied."""

    context: str


class ToolFacts(msgspec.Struct, frozen=True):
    """A tool that the gateway ran."""

    resource: str | None = None
    left_out: str | None = None
    characters: int = 0
    failed: bool = False


class OverlapFacts(msgspec.Struct, frozen=True):
    """How much of a resource the answer shows."""

    id: str
    phrases: int
    shown: int

    @property
    def is_shown(self) -> bool:
        return self.shown >= min(SHOWN_PHRASES, self.phrases)


class SummaryFacts(msgspec.Struct, frozen=True):
    """What is counted of the summary."""

    principal: str = ""
    key: str | None = None
    user: str | None = None
    model: str | None = None
    placement: str | None = None
    seconds: float | None = None
    context_tokens: int = 0
    turn_count: int = 0
    tools_run: int = 0
    usage: dict[str, Any] | None = None
    cost: float | None = None
    degraded: tuple[str, ...] = ()


class DetailFacts(msgspec.Struct, frozen=True):
    """What is counted of the details."""

    selection: msgspec.Raw = msgspec.Raw(b"{}")
    sources: msgspec.Raw = msgspec.Raw(b"[]")
    tools: tuple[ToolFacts, ...] = ()
    overlap: tuple[OverlapFacts, ...] = ()


class ReceiptFacts(msgspec.Struct, frozen=True, gc=False):
    """Everything that is counted of one receipt."""

    receipt: Receipt
    at: float
    session: bytes | None  # a hash
    summary: SummaryFacts
    selection: SelectionFacts  # the same object for receipts with the same injection
    contexts: tuple[str, ...]
    fetched: dict[str, ToolFacts]
    overlap: Sequence[OverlapFacts] = ()


class InjectionFacts(NamedTuple):
    """What is counted of an injection."""

    selection: SelectionFacts
    contexts: tuple[str, ...]


class NotedFacts(NamedTuple):
    """What is counted of all receipts of a template; as long as that is kept, no other has its identity."""

    template: NoteTemplate
    facts: ReceiptFacts


NOTHING_FETCHED: dict[str, ToolFacts] = {}


class FactReader:
    """Reads receipts; what many of them have in common is read once."""

    def __init__(self) -> None:
        self._summary = msgspec.json.Decoder(SummaryFacts).decode
        self._details = msgspec.json.Decoder(DetailFacts).decode
        self._selection = msgspec.json.Decoder(SelectionFacts).decode
        self._sources = msgspec.json.Decoder(tuple[SourceFacts, ...]).decode
        self._shared: LruCache[bytes, InjectionFacts] = LruCache(KEPT_SELECTIONS, KEPT_BYTES)
        self._selections: LruCache[bytes, SelectionFacts] = LruCache(KEPT_SELECTIONS, KEPT_BYTES)
        self._noted: LruCache[int, NotedFacts] = LruCache(KEPT_SELECTIONS, KEPT_BYTES)  # by identity of the template
        self._contexts: LruCache[bytes, tuple[str, ...]] = LruCache(KEPT_SELECTIONS, KEPT_BYTES)

    def read(self, receipt: Receipt) -> ReceiptFacts:
        """The facts of a receipt; a part that another release has written differently counts as empty."""
        try:
            summary = self._summary(receipt.whole_summary)
        except BROKEN:
            summary = SummaryFacts()
        details = self._read_details(receipt.details)
        shared = receipt.shared
        selection, contexts = self._read_injection(details) if shared is None else self._read_shared(shared)
        fetched = NOTHING_FETCHED
        if details.tools:
            fetched = {one.resource: one for one in details.tools if one.resource is not None and not one.failed}
        session = None if receipt.session is None else hash_session(receipt.session, summary)
        at = read_id_time(receipt.id)
        return ReceiptFacts(receipt, at, session, summary, selection, contexts, fetched, details.overlap)

    def read_noted(self, noted: NotedReceipt) -> ReceiptFacts:
        """The facts of a receipt of the same template, which differ in figures only."""
        template = noted.template
        known = self._noted.get(id(template))
        if known is None:
            known = NotedFacts(template, self.read(noted.render()))
            self._noted.put(id(template), known, 2 * (len(template.shared.body) + len(template.shared.summary)))
        return known.facts

    def _read_details(self, raw: bytes) -> DetailFacts:
        try:
            return self._details(raw)
        except BROKEN:
            return DetailFacts()

    def _read_shared(self, shared: SharedDetails) -> InjectionFacts:
        known = self._shared.get(shared.key)
        if known is None:
            known = self._read_injection(self._read_details(shared.body))
            self._shared.put(shared.key, known, 2 * len(shared.body))
        return known

    def _read_injection(self, details: DetailFacts) -> InjectionFacts:
        return InjectionFacts(
            self._read_selection(bytes(details.selection)), self._read_contexts(bytes(details.sources))
        )

    def _read_selection(self, raw: bytes) -> SelectionFacts:
        known = self._selections.get(raw)
        if known is None:
            try:
                known = self._selection(raw)
                picks = frozenset(one.id for one in known.injected if one.picked)
                known = msgspec.structs.replace(known, picks=picks)
            except BROKEN:
                known = SelectionFacts()
            self._selections.put(raw, known, 2 * len(raw))
        return known

    def _read_contexts(self, raw: bytes) -> tuple[str, ...]:
        known = self._contexts.get(raw)
        if known is None:
            try:
                known = tuple(dict.fromkeys(one.context for one in self._sources(raw)))
            except BROKEN:
                known = ()
            self._contexts.put(raw, known, 2 * len(raw))
        return known


def hash_session(session: str, summary: SummaryFacts) -> bytes:
    """A session belongs to a key and a user: the same id of another is another session."""
    return hash_name(session, summary.key or summary.principal, summary.user or "")
