"""Records exchanges: a request only queues a reference, a background job renders and writes receipts in batches."""

import asyncio
import logging
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Any, NamedTuple

from gateway.domain.exchange import Exchange, Reply, watch_stream
from gateway.domain.receipt import Receipt
from gateway.errors import StoreError
from gateway.receipts.documents import ExchangeText, PendingReceipt
from gateway.receipts.rendering import LONGEST_SECRET, ReceiptRenderer
from gateway.receipts.reported import SMALL_REPLY
from gateway.receipts.sampling import AnswerSampler
from gateway.receipts.unwritten import UnwrittenReceipts
from gateway.settings import ReceiptSettings
from gateway.stores.protocols import ReceiptStore

GATHER_SECONDS = 0.04  # after which an exchange that has begun is written: with the write itself, that makes 50 ms
ENDED_SECONDS = 0.015  # that those which are over wait for others while nothing else has begun
YOUNG_SECONDS = 0.015  # an exchange that has begun since then waits for the next batch: it may be over by then
SLICE, NOTED_SLICE = 32, 256  # receipts that are rendered, or noted, before the loop goes on
LEASE_SECONDS = 15.0  # after which the receipts of a process that is gone are swept
FIRST_RETRY, LONGEST_RETRY = 0.1, 2.0  # seconds until a store that failed is tried again
STRICT_SECONDS = 2.0  # that a strict request waits for the store
DEGRADED = "receipt"  # in `x-context-degraded`
MAX_TEXT = 256 * 1024  # bytes of a request or an answer that are stored
QUEUE_SHARE = 8  # times as many places as are free may be held by one workspace: others always find some
MAX_HELD = 64 * 1024 * 1024  # bytes of replies and text that wait for the store; beyond that receipts come without

log = logging.getLogger(__name__)


class DueReceipt(NamedTuple):
    """What has to be rendered."""

    pending: PendingReceipt
    finished: bool  # whether the exchange was over when that was decided


class ReceiptRecorder:
    """The receipts of one process.

    An exchange holds its place in the queue from its start until its finished receipt is stored, so that whatever has
    been started can be finished. Without a free place it has no receipt, its reply says so, and it is counted. The
    fewer places are free, the fewer a workspace may hold: one that floods the queue loses its own receipts.
    """

    def __init__(
        self, store: ReceiptStore, settings: ReceiptSettings, renderer: ReceiptRenderer, sample: float = 0.0
    ) -> None:
        self._store, self._settings, self._renderer = store, settings, renderer
        self._sampler = AnswerSampler(sample)
        self._kept = "g" if settings.text else self._sampler.end  # after the ends of ids whose text may be kept
        self._free, self._is_strict = settings.queue, settings.durability == "strict"  # free places
        self._boot = secrets.token_hex(8)
        self._begun: dict[str, PendingReceipt] = {}  # of exchanges that have just begun, by id, oldest first
        self._open: dict[str, PendingReceipt] = {}  # of those that go on, and of which that they began is noted
        self._finished: list[PendingReceipt] = []  # to be noted
        self._due = deque[DueReceipt]()  # to be rendered, since they cannot be noted
        self._unwritten = UnwrittenReceipts()
        self._texts: dict[str, int] = {}  # bytes of text that finished ones among them hold
        self._places: dict[str, int] = {}  # that workspaces hold
        self._held = 0  # bytes of replies and text
        self._commits: dict[str, asyncio.Future[None]] = {}  # what strict requests wait for
        self._wake, self._awake = asyncio.Event(), False  # to ask the event itself would take two calls
        self._flushing = asyncio.Lock()
        self._write: asyncio.Task[None] | None = None  # the last one
        self._drain: Callable[[], None] = lambda: None
        self._renewed = float("-inf")
        self.lost = 0  # exchanges without a receipt

    @property
    def waiting(self) -> int:
        """Exchanges that hold a place."""
        return self._settings.queue - self._free

    def prepare_flush(self, drain: Callable[[], None]) -> None:
        """Before anything is written, `drain` lets whoever gathers exchanges that are over `finish` them."""
        self._drain = drain

    def start(self, exchange: Exchange, request: bytes) -> Coroutine[Any, Any, None] | None:
        """Queue the receipt of an exchange before its upstream call; what it returns, if anything, is to be awaited."""
        if not self._take_place(exchange):
            exchange.degraded.add(DEGRADED)
            return None
        id = exchange.id
        pending = self._begun[id] = PendingReceipt(exchange, perf_counter())
        if id[-4:] < self._kept:
            self._keep_request(pending, request)
        if not self._awake:
            self._wake_up()
        return self._await_commit(exchange) if self._is_strict else None

    def watch(self, exchange: Exchange, reply: Reply) -> Reply:
        """The reply, with whatever of it the receipt needs kept."""
        if exchange.usage is None and reply.stream is None and len(reply.body) > SMALL_REPLY:
            self._keep_body(exchange.id, reply.body)
        if exchange.id[-4:] < self._kept:
            self._keep_answer(exchange.id, reply)
        return reply

    def finish(self, exchanges: Iterable[Exchange]) -> None:
        """Queue finished receipts; each exchange comes here once, whether or not it was started."""
        begun, finished = self._begun, self._finished
        for exchange in exchanges:
            pending = begun.pop(exchange.id, None) or self._finish_other(exchange)
            if pending is not None:
                pending.finished = True
                finished.append(pending)
        if self._finished and not self._awake:
            self._wake_up()

    def _finish_other(self, exchange: Exchange) -> PendingReceipt | None:
        """The receipt of one that began long ago, or never, since it was refused; None: there is no place for it."""
        pending = self._open.pop(exchange.id, None)
        if pending is not None:
            return pending
        if self._take_place(exchange):
            return PendingReceipt(exchange)
        self.lost += 1
        return None

    async def run(self) -> None:
        """Write what is queued, until cancelled; a store that fails is tried again."""
        delay = FIRST_RETRY
        while True:
            with suppress(TimeoutError):  # the lease is renewed without any receipts too
                async with asyncio.timeout(LEASE_SECONDS / 3):
                    await self._wake.wait()
            if not self._is_strict:
                await asyncio.sleep(self._measure_wait())
            try:
                await self._flush()
                delay = FIRST_RETRY
            except StoreError as error:
                log.warning("receipts wait for the store: %s", error)
                await asyncio.sleep(delay)
                delay = min(2 * delay, LONGEST_RETRY)

    def _measure_wait(self) -> float:
        """Seconds until the next batch: the oldest exchange of which nothing is noted has to be written then."""
        oldest = next(iter(self._begun.values()), None)
        return ENDED_SECONDS if oldest is None else oldest.since + GATHER_SECONDS - perf_counter()

    async def write_now(self, workspace: str, id: str) -> None:
        """Store a receipt that still waits for its batch: somebody asks for it."""
        self._drain()
        if workspace in self._places and self._waits(workspace, id):
            with suppress(StoreError):  # it stays queued
                await self._flush(everything=True)

    def _waits(self, workspace: str, id: str) -> bool:
        """Whether a receipt of this workspace has something to be written."""
        ended = chain(self._finished, (one.pending for one in self._due))
        pending = self._find_open(id) or next((one for one in ended if one.exchange.id == id), None)
        if pending is not None:
            return pending.exchange.principal.workspace == workspace
        return self._unwritten.has(workspace, id)

    async def close(self) -> None:
        """Write what is left, and say that this process is gone."""
        self._drain()
        try:
            if self._begun or self._finished or self._due or self._unwritten:
                await self._flush(everything=True)
            if self._renewed > 0:
                await self._store.renew(self._boot, 0)
        except StoreError as error:
            lost = self._unwritten.count_finished()
            self.lost += lost
            log.error("%d receipts are lost: %s", lost, error)

    def _take_place(self, exchange: Exchange) -> bool:
        """Take a place for the receipt of an exchange, if there is one for it."""
        workspace = exchange.principal.workspace
        held = self._places.get(workspace, 0)
        if held >= QUEUE_SHARE * self._free:  # also if none is free
            return False
        self._places[workspace] = held + 1
        self._free -= 1
        return True

    def _wake_up(self) -> None:
        self._awake = True
        self._wake.set()

    async def _await_commit(self, exchange: Exchange) -> None:
        """Wait until the started receipt is stored; the chat goes on without it if the store fails."""
        commit = self._commits[exchange.id] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(STRICT_SECONDS):
                await commit
        except (TimeoutError, StoreError):
            exchange.degraded.add(DEGRADED)
        finally:
            self._commits.pop(exchange.id, None)

    async def _flush(self, *, everything: bool = False) -> None:
        """Write what is queued now; raises StoreError, and what was not written stays queued."""
        await self._flushing.acquire()
        # All wait for it: it goes on if who asked for it leaves, and may then fail without anybody to tell.
        self._write = asyncio.create_task(self._write_queued(everything))
        self._write.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._write)

    async def _write_queued(self, everything: bool) -> None:
        try:
            self._drain()
            self._wake.clear()
            self._awake = False
            # Noted or rendered even while the store fails: a receipt is smaller than the exchange it describes.
            await self._note_queue(everything or self._is_strict)
            await self._render_due()
            await self._renew()
            while self._unwritten:
                await self._write_batch()
        except StoreError as error:
            self._settle_commits(list(self._commits), error)
            if self._unwritten:
                self._wake_up()
            raise
        finally:
            self._flushing.release()

    async def _note_queue(self, everything: bool) -> None:
        """Note what can be noted; the rest is due to be rendered."""
        young = perf_counter() - YOUNG_SECONDS
        begun = [one for one in self._begun.values() if everything or one.since <= young]
        for start in range(0, len(begun), NOTED_SLICE):
            if start:
                await asyncio.sleep(0)
            self._note_starts([one for one in begun[start : start + NOTED_SLICE] if not one.finished])
        if self._begun:
            self._wake_up()
        for start in range(0, len(self._finished), NOTED_SLICE):
            if start:
                await asyncio.sleep(0)
            slice = self._finished[:NOTED_SLICE]
            del self._finished[:NOTED_SLICE]
            self._note_finished(slice)

    def _note_starts(self, begun: Sequence[PendingReceipt]) -> None:
        taker = self._renderer.take_notes()
        for pending in begun:
            self._open[pending.exchange.id] = self._begun.pop(pending.exchange.id)
            try:
                noted = taker.note_start(pending)
            except Exception:  # it is rendered instead
                log.exception("a receipt cannot be noted")
                noted = None
            if noted is not None:
                self._unwritten.put(noted)
            else:
                self._due.append(DueReceipt(pending, finished=False))

    def _note_finished(self, finished: Sequence[PendingReceipt]) -> None:
        self._unwritten.forget_starts(finished)
        taker = self._renderer.take_notes()
        for pending in finished:
            try:
                if taker.note(pending):
                    if pending.body:
                        self._held -= len(pending.body)
                    continue
            except Exception:  # it is rendered instead
                log.exception("a receipt cannot be noted")
            self._due.append(DueReceipt(pending, finished=True))
        for template, notes in taker.noted:
            self._unwritten.add_notes(template, notes)

    async def _render_due(self) -> None:
        """Render what is due: on the loop, where a thread would only fight for the interpreter, if that is quick."""
        for number in range(len(self._due)):
            if number and number % SLICE == 0:
                await asyncio.sleep(0)
            due = self._due.popleft()
            pending, finished = due
            if not finished and pending.finished:
                continue  # it will be noted or rendered as what it is now
            if self._renderer.is_quick(pending):
                self._keep_rendered(pending, self._render(pending, finished), finished)
            else:
                self._due.append(due)
        if self._due:
            await self._render_slowly(list(self._due))

    async def _render_slowly(self, slow: Sequence[DueReceipt]) -> None:
        """Render in a thread what has text, a large reply, or an injection that is not known yet."""
        receipts = await asyncio.to_thread(lambda: [self._render(*one) for one in slow])
        self._due.clear()
        for (pending, finished), receipt in zip(slow, receipts, strict=True):
            self._keep_rendered(pending, receipt, finished)

    def _keep_rendered(self, pending: PendingReceipt, receipt: Receipt | None, finished: bool) -> None:
        pending.single = True
        held = pending.count_text() if finished and pending.text is not None else 0
        if receipt is not None:
            self._unwritten.put(receipt)
            if held:
                self._texts[receipt.id] = held
        elif finished:  # one that goes on may still get its receipt
            self.lost += 1
            self._free_places(pending.exchange.principal.workspace, 1)
        if finished:
            self._held -= len(pending.body) + (held if receipt is None else 0)

    def _render(self, pending: PendingReceipt, finished: bool) -> Receipt | None:
        try:
            return self._renderer.render(pending, finished)
        except Exception:  # one receipt that cannot be rendered must not hold up all others
            log.exception("a receipt cannot be rendered")
            return None

    async def _renew(self) -> None:
        # Before anything is written: a process without a lease would have its receipts swept.
        if time.monotonic() - self._renewed > LEASE_SECONDS / 3 - 1:
            await self._store.renew(self._boot, LEASE_SECONDS)
            self._renewed = time.monotonic()

    async def _write_batch(self) -> None:
        batch = self._unwritten.choose_batch()
        await self._store.write(batch, self._boot)
        self._unwritten.remove(batch)
        for template, notes in batch.noted.items():
            self._free_places(template.workspace, len(notes))
        for workspace, count in Counter(one.workspace for one in batch.finished).items():
            self._free_places(workspace, count)
        if self._texts:
            self._held -= sum(self._texts.pop(one.id, 0) for one in batch.finished)
        if self._commits:
            self._settle_commits([one.id for one in batch], None)

    def _free_places(self, workspace: str, count: int) -> None:
        self._free += count
        self._places[workspace] -= count
        if not self._places[workspace]:
            del self._places[workspace]

    def _settle_commits(self, ids: Sequence[str], error: StoreError | None) -> None:
        for id in ids:
            commit = self._commits.get(id)
            if commit is not None and not commit.done():
                if error is None:
                    commit.set_result(None)
                else:
                    commit.set_exception(error)

    def _keep_request(self, pending: PendingReceipt, request: bytes) -> None:
        stored, sampled = self._settings.text, self._sampler.take(pending.exchange, request)
        if (stored or sampled) and self._held + min(len(request), MAX_TEXT) <= MAX_HELD:
            bearer = pending.exchange.forwarded.bearer  # forgotten as soon as the exchange has ended
            cut = len(request) > MAX_TEXT
            kept = request[: MAX_TEXT + LONGEST_SECRET]  # of which the end goes when it has been redacted
            pending.single = True
            pending.text = ExchangeText(kept, bearer, request_cut=cut, truncated=cut, stored=stored, sampled=sampled)
            self._held += len(pending.text.request)

    def _find_open(self, id: str) -> PendingReceipt | None:
        return self._begun.get(id) or self._open.get(id)

    def _keep_body(self, id: str, body: bytes) -> None:
        """Hold a reply whose usage is read later."""
        pending = self._find_open(id)
        if pending is not None and self._held + len(body) <= MAX_HELD:
            pending.body = body
            self._held += len(body)

    def _keep_answer(self, id: str, reply: Reply) -> None:
        """Keep the text of a reply, if that of its request is kept."""
        pending = self._find_open(id)
        if pending is None or pending.text is None:
            return
        if reply.stream is None:
            self._keep_piece(pending.text, reply.body)
        else:
            reply.stream = watch_stream(reply.stream, partial(self._keep_piece, pending.text))

    def _keep_piece(self, text: ExchangeText, piece: bytes) -> None:
        if len(piece) > min(MAX_TEXT - text.size, MAX_HELD - self._held):
            text.full = text.truncated = True
        if not text.full:
            text.pieces.append(piece)
            text.size += len(piece)
            self._held += len(piece)
