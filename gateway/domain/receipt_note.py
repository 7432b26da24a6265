"""Receipts of which only what differs was noted. The JSON that they say is written when somebody reads them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter

import msgspec

from gateway.domain.exchange import STAGES, ExchangeStatus
from gateway.domain.price import TokenCount
from gateway.domain.receipt import STARTED, Receipt, SharedDetails

SUMMARY = b'{"at":"%b.%03dZ","seconds":%b,"http_status":%b,"usage":%b,"cached_tokens":%d,"cost":%b}'
TURN = b'{"upstream":%b,"status":%d,"first_byte_ms":%.3f,"usage":%b,"cached_tokens":%d,"cost":%b}'
DETAILS = b'{"scope":%b,"turns":[%b],"tools":%b,"timings":{%b"first_byte_ms":%b,"total_ms":%b}}'
STAGE_TIMES = [b'"%b_ms":%%.3f,' % name.encode() for name in STAGES]
NULL, NOTHING = b"null", b"[]"
OK = ExchangeStatus.OK.value
TIME_DIGITS = 14  # of an id, in microseconds: see gateway/ids.py

_encode = msgspec.json.Encoder().encode


class NoteTemplate(msgspec.Struct, frozen=True, eq=False):
    """What receipts have in common of which only the rest is noted."""

    workspace: str
    agent: str | None
    content: str | None
    resources: tuple[str, ...]
    shared: SharedDetails
    scope: bytes  # JSON
    upstream: bytes  # JSON: the name of who answered


class ReceiptNote(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What only one exchange says: one call that was answered as a whole, without tools. Stored in this order."""

    id: str
    seconds: float
    http_status: int
    usage: bytes  # JSON
    tokens: TokenCount
    cost: float | None
    status: int  # of the upstream's reply
    first_byte: float  # seconds until its head was there
    began: float
    times: Sequence[float]  # when each of STAGES was done

    @property
    def used(self) -> bool:
        """Whether the upstream reported its usage."""
        return self.usage != NULL


class NotedReceipt(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The receipt of an exchange that ended well, of which nothing is stored yet but its start; it is `ok`."""

    template: NoteTemplate
    note: ReceiptNote

    @property
    def id(self) -> str:
        return self.note.id

    @property
    def workspace(self) -> str:
        return self.template.workspace

    def render(self) -> Receipt:
        """The same receipt, written out."""
        template, note = self.template, self.note
        names = (template.workspace, OK, None, template.agent, template.content, template.resources)
        summary, details = render_noted_summary(note), render_noted_details(template, note)
        return Receipt(note.id, *names, summary, details, template.shared)


class StartNote(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What only one exchange says that waits for its upstream. Stored in this order."""

    id: str
    began: float
    times: Sequence[float]  # when each of STAGES was done


class NotedStart(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The receipt of an exchange that goes on and has no answer yet; its status is `started`."""

    template: NoteTemplate
    note: StartNote

    @property
    def id(self) -> str:
        return self.note.id

    @property
    def workspace(self) -> str:
        return self.template.workspace

    def render(self) -> Receipt:
        """The same receipt, written out."""
        template, note = self.template, self.note
        names = (template.workspace, STARTED, None, template.agent, template.content, template.resources)
        summary = render_summary(note.id, None, None, NULL, 0, None)
        times = render_times(note.began, note.times)
        details = DETAILS % (template.scope, b"", NOTHING, times, NULL, NULL)
        return Receipt(note.id, *names, summary, details, template.shared)


StorableReceipt = Receipt | NotedReceipt | NotedStart


class ReceiptBatch:
    """Receipts that are written together; those that are only noted stand by template, in any order."""

    def __init__(self, receipts: Iterable[StorableReceipt] = ()) -> None:
        self.single = list[Receipt]()
        self.noted = defaultdict[NoteTemplate, list[ReceiptNote]](list)
        self.starts = defaultdict[NoteTemplate, list[StartNote]](list)
        for one in receipts:
            if isinstance(one, NotedReceipt):
                self.noted[one.template].append(one.note)
            elif isinstance(one, NotedStart):
                self.starts[one.template].append(one.note)
            else:
                self.single.append(one)

    def __iter__(self) -> Iterator[StorableReceipt]:
        yield from self.single
        yield from self.list_noted()
        yield from (NotedStart(template, start) for template, starts in self.starts.items() for start in starts)

    @property
    def finished(self) -> list[Receipt]:
        """Single receipts of exchanges that are over."""
        return [one for one in self.single if one.status != STARTED]

    def list_noted(self) -> list[NotedReceipt]:
        return [NotedReceipt(template, note) for template, notes in self.noted.items() for note in notes]

    def list_finished_ids(self) -> list[str]:
        return [
            *[one.id for one in self.finished],
            *[note.id for notes in self.noted.values() for note in notes],
        ]

    def write_out(self) -> Iterator[Receipt]:
        """All of them, one after the other, for whoever needs their JSON."""
        return (one if isinstance(one, Receipt) else one.render() for one in self)

    def sort(self) -> None:
        """Put what is noted in order, oldest first."""
        for notes in self.noted.values():
            notes.sort(key=attrgetter("id"))
        for starts in self.starts.values():
            starts.sort(key=attrgetter("id"))


def render_noted_summary(note: ReceiptNote) -> bytes:
    return render_summary(note.id, note.seconds, note.http_status, note.usage, note.tokens.cached, note.cost)


def render_noted_details(template: NoteTemplate, note: ReceiptNote) -> bytes:
    turn = render_turn(template.upstream, note.status, note.first_byte, note.usage, note.tokens.cached, note.cost)
    return DETAILS % (
        template.scope,
        turn,
        NOTHING,
        render_times(note.began, note.times),
        b"%.3f" % (note.first_byte * 1000),
        b"%.3f" % (note.seconds * 1000),
    )


def render_summary(
    id: str, seconds: float | None, status: int | None, usage: bytes, cached: int, cost: float | None
) -> bytes:
    """The figures that lists show."""
    second, rest = divmod(int(id[:TIME_DIGITS], 16), 1_000_000)
    return SUMMARY % (
        format_second(second),
        rest // 1000,
        NULL if seconds is None else _encode(round(seconds, 6)),
        b"%d" % status if status else NULL,
        usage,
        cached,
        NULL if cost is None else _encode(cost),
    )


def render_turn(upstream: bytes, status: int, seconds: float, usage: bytes, cached: int, cost: float | None) -> bytes:
    """One upstream call that was answered."""
    return TURN % (upstream, status, seconds * 1000, usage, cached, NULL if cost is None else _encode(cost))


def render_times(began: float, times: Sequence[float]) -> bytes:
    """Milliseconds that each stage took, in the order of the walk; a request that goes on has fewer."""
    spent = zip(STAGE_TIMES, [began, *times], times, strict=False)
    return b"".join(name % ((end - begin) * 1000) for name, begin, end in spent)


@lru_cache(maxsize=16)
def format_second(second: int) -> bytes:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
