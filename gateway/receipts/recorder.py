"""Records exchanges: a request only queues a reference, a background job renders and writes receipts in batches."""

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any

from gateway.domain.exchange import Exchange, Reply, watch_stream
from gateway.domain.receipt import STARTED, Receipt
from gateway.domain.receipt_note import NotedReceipt, StorableReceipt
from gateway.errors import StoreError
from gateway.receipts.documents import ExchangeText, PendingReceipt
from gateway.receipts.rendering import LONGEST_SECRET, ReceiptRenderer
from gateway.receipts.reported import read_usage
from gateway.settings import ReceiptSettings
from gateway.stores.protocols import ReceiptStore

# With both and two writes, a receipt is stored within 50 ms.
GATHER_SECONDS = 0.025  # that a batch gathers receipts: larger ones cost less
YOUNG_SECONDS = 0.015  # an exchange that has begun since then waits for the next batch: it may be over by then
BATCH = 1000  # receipts that are written at once: a batch costs as much as dozens of those that are only noted
SINGLE, SINGLE_BYTES = 200, 4_000_000  # of them, how many may be single ones, and their bytes
SLICE = 32  # receipts that are rendered before the loop goes on
LEASE_SECONDS = 15.0  # after which the receipts of a process that is gone are swept
FIRST_RETRY, LONGEST_RETRY = 0.1, 2.0  # seconds until a store that failed is tried again
STRICT_SECONDS = 2.0  # that a strict request waits for the store
DEGRADED = "receipt"  # in `x-context-degraded`
MAX_TEXT = 256 * 1024  # bytes of a request or an answer that are stored
SAMPLE_RANGE = 16**4
MAX_SAMPLED_REQUEST = 64 * 1024  # bytes: finding the phrases of longer ones takes more than a few milliseconds
SMALL_REPLY = 8 * 1024  # bytes of a reply that is read at once: to hold it until its receipt is made costs more
# Of a workspace in a second: more tell nothing new, and each takes a quarter of a millisecond, or one with 30 KB.
MAX_SAMPLES, MAX_SAMPLED_BYTES = 10, 64 * 1024
QUEUE_SHARE = 8  # times as many places as are free may be held by one workspace: others always find some
MAX_HELD = 64 * 1024 * 1024  # bytes of replies and text that wait for the store; beyond that receipts come without

log = logging.getLogger(__name__)


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
        share = round(sample * SAMPLE_RANGE)
        self._sampled = f"{share:04x}" if share < SAMPLE_RANGE else "g"  # after the end of ids that are sampled
        self._keeps_text = settings.text or share > 0
        self._places_in_all, self._is_strict = settings.queue, settings.durability == "strict"
        self._sampled_second, self._samples = 0, dict[str, list[int]]()  # taken in that second, by workspace
        self._boot = secrets.token_hex(8)
        self._open: dict[str, PendingReceipt] = {}  # by id of the exchange, until it is rendered as finished
        self._queue: dict[str, PendingReceipt] = {}  # to be rendered, oldest first
        self._rendered: dict[str, StorableReceipt] = {}  # to be written, oldest first
        self._texts: dict[str, int] = {}  # bytes of text that finished ones among them hold
        self._unwritten = 0  # finished ones among them
        self._places: dict[str, int] = {}  # that workspaces hold
        self._held = 0  # bytes of replies and text
        self._commits: dict[str, asyncio.Future[None]] = {}  # what strict requests wait for
        self._wake, self._awake = asyncio.Event(), False  # to ask the event itself would take two calls
        self._flushing = asyncio.Lock()
        self._renewed = float("-inf")
        self.lost = 0  # exchanges without a receipt

    @property
    def waiting(self) -> int:
        """Exchanges that hold a place."""
        return len(self._open) + self._unwritten

    def start(self, exchange: Exchange, request: bytes) -> Coroutine[Any, Any, None] | None:
        """Queue the receipt of an exchange before its upstream call; what it returns, if anything, is to be awaited."""
        pending = self._take_place(exchange)
        if pending is None:
            exchange.degraded.add(DEGRADED)
            return None
        if self._keeps_text and (self._settings.text or exchange.id[-4:] < self._sampled):
            self._keep_request(pending, request)
        if not self._awake:
            self._wake_up()
        return self._await_commit(exchange) if self._is_strict else None

    def watch(self, exchange: Exchange, reply: Reply) -> Reply:
        """The reply, with whatever of it the receipt needs kept."""
        pending = self._open.get(exchange.id)
        if pending is None:
            return reply
        if reply.stream is None:
            body = reply.body
            if exchange.usage is None:
                if len(body) <= SMALL_REPLY:  # read now that it is in the CPU's cache; a larger one is held for later
                    exchange.usage = read_usage(body)
                elif self._held + len(body) <= MAX_HELD:
                    pending.body = body
                    self._held += len(body)
            if pending.text is not None:
                self._keep_piece(pending.text, body)
        elif pending.text is not None:
            reply.stream = watch_stream(reply.stream, partial(self._keep_piece, pending.text))
        return reply

    def finish(self, exchange: Exchange, http_status: int, seconds: float) -> None:
        """Queue the finished receipt; called once per exchange, whether or not it was started."""
        pending = self._open.get(exchange.id) or self._take_place(exchange)
        if pending is None:
            self.lost += 1
            return
        pending.http_status, pending.seconds, pending.finished = http_status, seconds, True
        self._queue[exchange.id] = pending  # where it stands already if it is over before its batch
        if not self._awake:
            self._wake_up()

    async def run(self) -> None:
        """Write what is queued, until cancelled; a store that fails is tried again."""
        delay = FIRST_RETRY
        while True:
            with suppress(TimeoutError):  # the lease is renewed without any receipts too
                async with asyncio.timeout(LEASE_SECONDS / 3):
                    await self._wake.wait()
            if not self._is_strict:
                await asyncio.sleep(GATHER_SECONDS)
            try:
                await self._flush()
                delay = FIRST_RETRY
            except StoreError as error:
                log.warning("receipts wait for the store: %s", error)
                await asyncio.sleep(delay)
                delay = min(2 * delay, LONGEST_RETRY)

    async def write_now(self, workspace: str, id: str) -> None:
        """Store a receipt that still waits for its batch: somebody asks for it."""
        pending, rendered = self._open.get(id), self._rendered.get(id)
        waiting = rendered.workspace if rendered is not None else None
        if workspace == (pending.exchange.principal.workspace if pending is not None else waiting):
            with suppress(StoreError):  # it stays queued
                await self._flush(everything=True)

    async def close(self) -> None:
        """Write what is left, and say that this process is gone."""
        try:
            if self._queue or self._rendered:
                await self._flush(everything=True)
            if self._renewed > 0:
                await self._store.renew(self._boot, 0)
        except StoreError as error:
            self.lost += self._unwritten
            log.error("%d receipts are lost: %s", self._unwritten, error)

    def _take_place(self, exchange: Exchange) -> PendingReceipt | None:
        """Open and queue the receipt of an exchange, if there is a place for it."""
        workspace, places = exchange.principal.workspace, self._places
        free, held = self._places_in_all - len(self._open) - self._unwritten, places.get(workspace, 0)
        if free <= 0 or held >= QUEUE_SHARE * free:
            return None
        places[workspace] = held + 1
        id = exchange.id
        pending = self._open[id] = self._queue[id] = PendingReceipt(exchange, exchange.began)
        return pending

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
        async with self._flushing:
            self._wake.clear()
            self._awake = False
            # Rendered even while the store fails: a receipt is smaller than the exchange it describes.
            await self._render_queue(everything or self._is_strict)
            try:
                await self._renew()
                while self._rendered:
                    await self._write_batch()
            except StoreError as error:
                self._settle_commits(list(self._commits), error)
                if self._rendered:
                    self._wake_up()
                raise

    async def _render_queue(self, everything: bool) -> None:
        """Render what is due: on the loop, where a thread would only fight for the interpreter, if that is quick."""
        young = perf_counter() - YOUNG_SECONDS
        due = [one for one in self._queue.values() if one.finished or one.since <= young or everything]
        if len(due) < len(self._queue):
            self._wake_up()
        slow: list[PendingReceipt] = []
        for start in range(0, len(due), SLICE):
            if start:
                await asyncio.sleep(0)
            for pending in self._note(due[start : start + SLICE]):
                if self._renderer.is_quick(pending):
                    del self._queue[pending.exchange.id]
                    self._keep_rendered(pending, self._render(pending, pending.finished), pending.finished)
                else:
                    slow.append(pending)
        if slow:
            await self._render_slowly(slow)

    def _note(self, due: Sequence[PendingReceipt]) -> list[PendingReceipt]:
        """Note what can be noted; returns what has to be rendered."""
        taker, others = self._renderer.take_notes(), list[PendingReceipt]()
        queue, opened, rendered = self._queue, self._open, self._rendered
        for pending in due:
            try:
                noted = taker.note(pending) if pending.finished else taker.note_start(pending)
            except Exception:  # it is rendered instead
                log.exception("a receipt cannot be noted")
                noted = None
            if noted is None:
                others.append(pending)
                continue
            id = pending.exchange.id
            del queue[id]
            rendered[id] = noted
            if pending.finished:
                del opened[id]
                self._unwritten += 1
                if pending.body:
                    self._held -= len(pending.body)
        return others

    async def _render_slowly(self, batch: Sequence[PendingReceipt]) -> None:
        """Render in a thread what has text, a large reply, or an injection that is not known yet."""
        # Decided here: what is finished while a thread renders it is queued again.
        finished = [one.finished for one in batch]
        for pending in batch:
            del self._queue[pending.exchange.id]
        try:
            receipts = await asyncio.to_thread(lambda: list(map(self._render, batch, finished)))
        except BaseException:
            self._queue = {one.exchange.id: one for one in batch} | self._queue
            raise
        for pending, receipt, was_finished in zip(batch, receipts, finished, strict=True):
            self._keep_rendered(pending, receipt, was_finished)

    def _keep_rendered(self, pending: PendingReceipt, receipt: Receipt | None, finished: bool) -> None:
        id = pending.exchange.id
        pending.stored = True
        held = pending.count_text() if finished and pending.text is not None else 0
        if receipt is not None:
            self._rendered[id] = receipt
            self._unwritten += finished
            if held:
                self._texts[id] = held
        elif finished:
            self._free_places(pending.exchange.principal.workspace, 1)
        if finished:
            del self._open[id]
            self._held -= len(pending.body) + (held if receipt is None else 0)

    def _render(self, pending: PendingReceipt, finished: bool) -> Receipt | None:
        try:
            return self._renderer.render(pending, finished)
        except Exception:  # one receipt that cannot be rendered must not hold up all others
            self.lost += 1
            log.exception("a receipt cannot be rendered")
            return None

    async def _renew(self) -> None:
        # Before anything is written: a process without a lease would have its receipts swept.
        if time.monotonic() - self._renewed > LEASE_SECONDS / 3 - 1:
            await self._store.renew(self._boot, LEASE_SECONDS)
            self._renewed = time.monotonic()

    async def _write_batch(self) -> None:
        batch = choose_batch(self._rendered)
        receipts = list(batch.values())
        await self._store.write(receipts, self._boot)
        for id in batch:
            del self._rendered[id]
        finished = [one.template.workspace for one in receipts if isinstance(one, NotedReceipt)]
        finished += [one.workspace for one in receipts if isinstance(one, Receipt) and one.status != STARTED]
        self._unwritten -= len(finished)
        for workspace, count in Counter(finished).items():
            self._free_places(workspace, count)
        if self._texts:
            self._held -= sum(self._texts.pop(id, 0) for id in batch)
        if self._commits:
            self._settle_commits(list(batch), None)

    def _free_places(self, workspace: str, count: int) -> None:
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
        stored, sampled = self._settings.text, self._is_sampled(pending.exchange, request)
        if (stored or sampled) and self._held + min(len(request), MAX_TEXT) <= MAX_HELD:
            bearer = pending.exchange.forwarded.bearer  # forgotten as soon as the exchange has ended
            cut = len(request) > MAX_TEXT
            kept = request[: MAX_TEXT + LONGEST_SECRET]  # of which the end goes when it has been redacted
            pending.text = ExchangeText(kept, bearer, request_cut=cut, truncated=cut, stored=stored, sampled=sampled)
            self._held += len(pending.text.request)

    def _is_sampled(self, exchange: Exchange, request: bytes) -> bool:
        """By the random end of the id; where nothing was injected or the request is long, there is nothing to see."""
        if exchange.id[-4:] >= self._sampled or exchange.tokens == 0 or len(request) > MAX_SAMPLED_REQUEST:
            return False
        workspace, second = exchange.principal.workspace, int(perf_counter())
        if second != self._sampled_second:
            self._sampled_second, self._samples = second, {}
        taken = self._samples.setdefault(workspace, [])
        if len(taken) >= MAX_SAMPLES or sum(taken) + len(request) > MAX_SAMPLED_BYTES:
            return False
        taken.append(len(request))
        return True

    def _keep_piece(self, text: ExchangeText, piece: bytes) -> None:
        if len(piece) > min(MAX_TEXT - text.size, MAX_HELD - self._held):
            text.full = text.truncated = True
        if not text.full:
            text.pieces.append(piece)
            text.size += len(piece)
            self._held += len(piece)


def choose_batch(rendered: Mapping[str, StorableReceipt]) -> dict[str, StorableReceipt]:
    """The first ones, as many as are written at once; at least one."""
    batch = dict(islice(rendered.items(), BATCH))
    if Receipt not in map(type, batch.values()):  # notes are small
        return batch
    single = {id: len(one.summary) + len(one.details) for id, one in batch.items() if isinstance(one, Receipt)}
    size = sum(single.values())
    while len(batch) > 1 and (len(single) > SINGLE or size > SINGLE_BYTES):
        last, _ = batch.popitem()
        size -= single.pop(last, 0)
    return batch
