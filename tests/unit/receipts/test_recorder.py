"""The recorder: what it costs a request, what it holds, and what it does when the store fails."""

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from gateway.domain.exchange import Exchange, ExchangeStatus, Reply, ToolRun, TurnReply
from gateway.domain.injection import Injection
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.receipt import Receipt, ReceiptFilter
from gateway.domain.receipt_note import ReceiptBatch
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.selection import Selection
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.errors import StoreError
from gateway.ids import make_id
from gateway.receipts import recorder as module
from gateway.receipts import sampling, unwritten
from gateway.receipts.documents import PendingReceipt
from gateway.receipts.prices import PriceTable
from gateway.receipts.recorder import ReceiptRecorder
from gateway.receipts.rendering import LONGEST_SECRET, MAX_ARGUMENTS, MAX_BLOCKS, ReceiptRenderer
from gateway.receipts.reported import SMALL_REPLY, note_usage
from gateway.receipts.retention import tidy_receipts
from gateway.redaction import Redactor
from gateway.settings import ReceiptSettings
from gateway.stores.memory_receipts import MemoryReceiptStore

ANY = ReceiptFilter()
MAX_MICROSECONDS = 60.0


class BrokenStore(MemoryReceiptStore):
    """Fails as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = False
        self.batches: list[list[str]] = []

    async def write(self, receipts: Any, boot: str) -> None:
        if self.broken:
            raise StoreError("broken")
        self.batches.append([receipt.status for receipt in receipts])
        await super().write(ReceiptBatch(receipts), boot)


def make_recorder(store: MemoryReceiptStore, **settings: Any) -> ReceiptRecorder:
    return ReceiptRecorder(store, ReceiptSettings(**settings), ReceiptRenderer(PriceTable({}), lambda text: text))


def make_exchange() -> Exchange:
    return Exchange(make_id(), ANONYMOUS, EMPTY_SNAPSHOT)


def end(recorder: ReceiptRecorder, exchange: Exchange, http_status: int = 200) -> None:
    exchange.http_status, exchange.seconds = http_status, 0.1
    recorder.finish([exchange])


@asynccontextmanager
async def running(recorder: ReceiptRecorder) -> AsyncIterator[None]:
    task = asyncio.create_task(recorder.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def wait_until(check: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not check():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.001)


async def wait_until_written(recorder: ReceiptRecorder) -> None:
    await wait_until(lambda: not recorder.waiting)


async def list_statuses(store: MemoryReceiptStore) -> list[str]:
    return [one.status for one in (await store.list_page("default", ANY, None, 1000)).receipts]


async def test_recording_costs_a_request_next_to_nothing() -> None:
    recorder = make_recorder(MemoryReceiptStore(), queue=100_000)
    exchanges = [make_exchange() for _ in range(5000)]
    body, reply = b"{}", Reply(200, {}, b"{}")
    costs = []
    for start in range(0, len(exchanges), 500):
        began = time.process_time()
        for exchange in exchanges[start : start + 500]:
            recorder.start(exchange, body)
            note_usage(exchange, reply)
            recorder.watch(exchange, reply)
            end(recorder, exchange)
        costs.append((time.process_time() - began) / 500 * 1e6)
    assert min(costs) <= MAX_MICROSECONDS


async def test_what_starts_and_finishes_soon_is_written_once() -> None:
    store = BrokenStore()
    recorder, exchange = make_recorder(store), make_exchange()
    recorder.start(exchange, b"{}")
    end(recorder, exchange)
    async with running(recorder):
        await wait_until_written(recorder)
    assert store.batches == [["ok"]]


async def test_what_is_young_waits_for_the_next_batch_and_no_longer() -> None:
    store = BrokenStore()
    recorder, old = make_recorder(store), make_exchange()
    recorder.start(old, b"{}")
    await asyncio.sleep(module.YOUNG_SECONDS + 0.005)
    young = make_exchange()
    recorder.start(young, b"{}")
    await recorder._flush()
    assert store.batches == [["started"]]
    end(recorder, old)
    end(recorder, young)
    await recorder._flush()
    assert store.batches == [["started"], ["ok", "ok"]]


async def test_the_oldest_exchange_decides_when_the_next_batch_is_written() -> None:
    """All that wait began within 50 ms before, the write included; what is over alone need not wait as long."""
    recorder, old, young = make_recorder(MemoryReceiptStore()), make_exchange(), make_exchange()
    assert recorder._measure_wait() == module.ENDED_SECONDS
    recorder.start(old, b"{}")
    recorder._begun[old.id].since -= 0.025
    recorder.start(young, b"{}")
    assert 0 < recorder._measure_wait() <= module.GATHER_SECONDS - 0.025
    end(recorder, old)
    assert 0 < recorder._measure_wait() <= module.GATHER_SECONDS <= 0.045
    end(recorder, young)
    assert recorder._measure_wait() == module.ENDED_SECONDS


async def test_exchanges_that_were_long_prepared_are_written_in_batches() -> None:
    """A slow upload or a search comes before an exchange is queued."""
    store = BrokenStore()
    recorder = make_recorder(store)
    async with running(recorder):
        for _ in range(40):
            exchange = make_exchange()
            exchange.began -= 0.05
            recorder.start(exchange, b"{}")
            await asyncio.sleep(0.004)
        await wait_until(lambda: len(store._receipts) == 40)
    assert len(store.batches) <= 20


async def test_a_write_that_fails_after_who_asked_left_tells_nobody() -> None:
    begun, go_on, heard = asyncio.Event(), asyncio.Event(), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))

    class SlowStore(BrokenStore):
        async def write(self, receipts: ReceiptBatch, boot: str) -> None:
            begun.set()
            await go_on.wait()
            raise StoreError("down")

    recorder, exchange = make_recorder(SlowStore()), make_exchange()
    end(recorder, exchange)
    asking = asyncio.create_task(recorder.write_now("default", exchange.id))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    go_on.set()
    write, recorder._write = recorder._write, None
    assert write is not None
    await asyncio.wait([write])
    del asking, write
    gc.collect()
    assert heard == []


async def test_a_receipt_that_somebody_asks_for_does_not_wait_for_its_batch() -> None:
    store = BrokenStore()
    recorder, exchange = make_recorder(store), make_exchange()
    recorder.start(exchange, b"{}")
    end(recorder, exchange)
    await recorder.write_now("another", exchange.id)
    assert store.batches == []
    await recorder.write_now("default", exchange.id)
    assert store.batches == [["ok"]]
    await recorder.write_now("default", exchange.id)
    assert store.batches == [["ok"]]


async def test_a_write_goes_on_although_who_asked_for_a_receipt_has_left() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    class SlowStore(BrokenStore):
        async def write(self, receipts: Any, boot: str) -> None:
            begun.set()
            await go_on.wait()
            await super().write(receipts, boot)

    store = SlowStore()
    recorder, exchange = make_recorder(store), make_exchange()
    end(recorder, exchange)
    asking = asyncio.create_task(recorder.write_now("default", exchange.id))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    go_on.set()
    await wait_until_written(recorder)
    assert store.batches == [["ok"]]


async def test_a_busy_gateway_stores_what_has_started_within_50_ms() -> None:
    store = BrokenStore()
    recorder, exchanges = make_recorder(store), [make_exchange() for _ in range(40)]
    waits: dict[str, float] = {}
    async with running(recorder):
        began = {}
        for exchange in exchanges:
            began[exchange.id] = time.monotonic()
            recorder.start(exchange, b"{}")
            await asyncio.sleep(0.004)
            for id in store._receipts.keys() - waits.keys():
                waits[id] = time.monotonic() - began[id]
        await wait_until(lambda: len(store._receipts) == len(exchanges))
    assert sorted(waits.values())[len(waits) // 2] < 0.05


async def test_receipts_are_rendered_where_that_takes_no_time_from_others() -> None:
    threads: dict[str, int] = {}

    class Watcher(ReceiptRenderer):
        def render(self, pending: Any, finished: bool) -> Receipt:
            threads[pending.exchange.id] = threading.get_ident()
            return super().render(pending, finished)

    recorder = ReceiptRecorder(BrokenStore(), ReceiptSettings(), Watcher(PriceTable({}), lambda text: text))
    plain, large, first, second = (make_exchange() for _ in range(4))
    first.injection = second.injection = Injection(Selection())
    recorder.start(large, b"{}")
    recorder.watch(large, Reply(200, {}, b"x" * 100_000))
    for exchange in (plain, large, first):
        end(recorder, exchange)
    await recorder._flush()
    end(recorder, second)
    await recorder._flush()
    here = [one for one in (plain, large, first, second) if threads[one.id] == threading.get_ident()]
    assert here == [plain, second]


async def test_an_injection_is_stored_once_from_its_second_use_on() -> None:
    written: list[Receipt] = []

    class Keeper(BrokenStore):
        async def write(self, receipts: Any, boot: str) -> None:
            written.extend(receipts)
            await super().write(ReceiptBatch(receipts), boot)

    store = Keeper()
    recorder, injection = make_recorder(store), Injection(Selection())
    for _ in range(3):
        exchange = make_exchange()
        exchange.injection = injection
        end(recorder, exchange)
        await recorder._flush()
    assert [one.shared is None for one in written] == [True, False, False]
    assert written[1].shared is written[2].shared
    whole = [orjson.loads(one.details) for one in (await store.list_page("default", ANY, None, 10, True)).receipts]
    assert [list(one) for one in whole] == [
        ["selection", "sources", "collectors", "tokens", "warnings", "scope", "turns", "tools", "timings"],
    ] * 3


async def test_what_is_finished_while_its_batch_is_rendered_is_finished_once() -> None:
    store = BrokenStore()
    recorder = make_recorder(store)
    exchanges = [make_exchange() for _ in range(module.SLICE * 3)]
    for exchange in exchanges:
        recorder.start(exchange, b"{}")
    await asyncio.sleep(module.YOUNG_SECONDS + 0.005)
    flushing = asyncio.create_task(recorder._flush())
    for _ in range(2):  # until it is under way
        await asyncio.sleep(0)
    assert recorder._unwritten
    for exchange in exchanges:
        end(recorder, exchange)
    await flushing
    await recorder.close()
    assert (recorder.waiting, recorder._held, recorder.lost) == (0, 0, 0)
    assert await list_statuses(store) == ["ok"] * len(exchanges)
    assert sum(batch.count("ok") for batch in store.batches) == len(exchanges)


async def test_many_that_have_started_let_others_have_their_turn_while_they_are_noted() -> None:
    store = BrokenStore()
    recorder = make_recorder(store)
    exchanges = [make_exchange() for _ in range(module.NOTED_SLICE * 3)]
    for exchange in exchanges:
        recorder.start(exchange, b"{}")
    flushing = asyncio.create_task(recorder._flush(everything=True))
    for _ in range(2):  # until it is under way
        await asyncio.sleep(0)
    assert len(recorder._begun) == module.NOTED_SLICE * 2
    for exchange in exchanges[module.NOTED_SLICE :]:
        end(recorder, exchange)
    await flushing
    await recorder.close()
    assert sorted(await list_statuses(store)) == ["ok"] * 2 * module.NOTED_SLICE + ["started"] * module.NOTED_SLICE
    assert (recorder.waiting, recorder.lost) == (module.NOTED_SLICE, 0)


async def test_a_started_receipt_is_stored_within_50_ms() -> None:
    store = BrokenStore()
    recorder = make_recorder(store)
    async with running(recorder):
        await asyncio.sleep(0)
        waits = []
        for number in range(1, 6):
            began = time.monotonic()
            recorder.start(make_exchange(), b"{}")
            await wait_until(lambda expected=number: len(store.batches) == expected)  # type: ignore[misc]
            waits.append(time.monotonic() - began)
    assert min(waits) < 0.05


async def test_what_has_started_can_always_be_finished() -> None:
    store = BrokenStore()
    store.broken = True
    recorder, exchanges = make_recorder(store, queue=3), [make_exchange() for _ in range(5)]
    async with running(recorder):
        for exchange in exchanges:
            recorder.start(exchange, b"{}")
        assert [bool(exchange.degraded) for exchange in exchanges] == [False] * 3 + [True] * 2
        await asyncio.sleep(0.1)
        for exchange in exchanges:
            end(recorder, exchange)
        assert (recorder.waiting, recorder.lost) == (3, 2)
        await asyncio.sleep(0.1)
        assert recorder.waiting == 3
        store.broken = False
        await wait_until_written(recorder)
    assert await list_statuses(store) == ["ok"] * 3
    assert {one.id for one in (await store.list_page("default", ANY, None, 10)).receipts} == {
        exchange.id for exchange in exchanges[:3]
    }


async def test_an_exchange_that_fails_before_it_starts_has_a_receipt() -> None:
    store = BrokenStore()
    recorder, exchange = make_recorder(store), make_exchange()
    exchange.status, exchange.failure = ExchangeStatus.ERROR, "invalid_json"
    end(recorder, exchange, 400)
    await recorder.close()
    (receipt,) = (await store.list_page("default", ANY, None, 10)).receipts
    summary = orjson.loads(receipt.summary)
    assert (receipt.status, summary["error"], summary["http_status"]) == ("error", "invalid_json", 400)


async def test_a_receipt_that_cannot_be_rendered_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    store = BrokenStore()
    recorder, good, bad = make_recorder(store), make_exchange(), make_exchange()
    bad.usage = {"total_tokens": object()}
    for exchange in (bad, good):
        end(recorder, exchange)
    async with running(recorder):
        await wait_until_written(recorder)
    assert (await list_statuses(store), recorder.lost) == (["ok"], 1)
    assert "cannot be rendered" in caplog.text


@pytest.mark.parametrize(("ends_well", "lost"), [(True, 0), (False, 1)])
async def test_an_exchange_whose_start_cannot_be_rendered_is_lost_only_if_its_end_cannot(
    ends_well: bool, lost: int
) -> None:
    store = BrokenStore()
    recorder, exchange = make_recorder(store), make_exchange()
    exchange.usage = {"total_tokens": object()}
    recorder.start(exchange, b"{}")
    await recorder._flush(everything=True)
    if ends_well:
        exchange.usage = None
    end(recorder, exchange)
    await recorder.close()
    assert (await list_statuses(store), recorder.lost) == (["ok"] * ends_well, lost)
    assert (recorder.waiting, recorder._held) == (0, 0)


class NoteCounter(MemoryReceiptStore):
    """Tells how many finished receipts of each batch were only noted."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[int] = []

    async def write(self, receipts: ReceiptBatch, boot: str) -> None:
        self.noted.append(len(receipts.list_noted()))
        await super().write(receipts, boot)


@pytest.mark.parametrize("text", [False, True])
async def test_of_what_has_text_or_stands_by_itself_as_started_nothing_is_noted(text: bool) -> None:
    store, injection = NoteCounter(), Injection(Selection())
    recorder = make_recorder(store, text=text)

    def begin() -> Exchange:
        exchange = make_exchange()
        exchange.scope, exchange.injection, exchange.replies = SCOPE, injection, [TurnReply("up", 200, 0.1)]
        exchange.upstream = "up"
        recorder.start(exchange, b"{}")
        return exchange

    first, second = begin(), begin()
    await recorder._flush(everything=True)  # both are rendered, and make the template
    third = begin()
    for exchange in (first, second, third):
        recorder.watch(exchange, Reply(200, {}, b'{"usage":{"total_tokens":1},"x":"' + b"x" * SMALL_REPLY + b'"}'))
        end(recorder, exchange)
    assert recorder._held > 3 * SMALL_REPLY
    await recorder._flush()
    assert store.noted == [0, 0 if text else 1]
    assert await list_statuses(store) == ["ok"] * 3
    assert recorder._held == 0


async def test_each_receipt_of_a_mixed_batch_says_what_its_own_exchange_did() -> None:
    store = NoteCounter()
    recorder = make_recorder(store)
    callers = [Principal("shop", workspace="one"), Principal("shop", workspace="two"), Principal("desk")]
    injections = [Injection(Selection()), Injection(Selection())]
    for _ in range(3):  # the first two make the templates
        exchanges = []
        for number in range(180):
            exchange = Exchange(make_id(), callers[number % 3], EMPTY_SNAPSHOT, model="m" if number % 5 else "n")
            exchange.scope, exchange.injection = SCOPE, injections[number % 2]
            exchange.times = [exchange.began + 0.001 * step for step in range(1, 5)]
            recorder.start(exchange, b"{}")
            exchange.upstream, exchange.turns, exchange.replies = "up", 1, [TurnReply("up", 200, 0.001 * number)]
            exchange.usage = ODD_USAGES[number % len(ODD_USAGES)]
            change_course(exchange, number % 17)
            exchanges.append(exchange)
        recorder.finish(exchanges)
        await recorder._flush()
        for exchange in exchanges:
            found = await store.find(exchange.principal.workspace, exchange.id)
            renderer = ReceiptRenderer(PriceTable({}), lambda text: text)
            said = renderer.render(PendingReceipt(exchange, finished=True), finished=True)
            assert found is not None
            assert found.merge_shared() == said.merge_shared()
    assert sum(store.noted) > 100
    assert recorder.waiting == 0


SCOPE = Scope(ContextRequest(), None, None, None, None, True, frozenset(), False)
ODD_USAGES: list[Any] = [
    {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
    None,
    {"prompt_tokens": 10**30, "completion_tokens": -2},
    {"note": "x" * 5000},
    {"prompt_tokens": 10, "completion_tokens": 2, "note": "\ud800"},
    {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4},
]


def change_course(exchange: Exchange, number: int) -> None:
    """Let an exchange end in an unusual way, most of the numbers none."""
    exchange.http_status, exchange.seconds = 200, 0.1
    if number == 1:
        exchange.status, exchange.http_status = ExchangeStatus.ABORTED, 0
    elif number == 2:
        exchange.status, exchange.http_status, exchange.failure = ExchangeStatus.ERROR, 502, "upstream_error"
    elif number == 3:
        exchange.tool_runs, exchange.tools_run = [ToolRun("get", "{}", 5, False, 0.01)], ["get"]
    elif number == 4:
        exchange.degraded = {"store"}
    elif number == 5:
        exchange.replies = [TurnReply("up", 500, 0.1), TurnReply("other", 200, 0.2)]
    elif number == 6:
        exchange.replies, exchange.upstream = [TurnReply("other", 200, 0.1)], "up"
    elif number == 7:
        exchange.omitted_tools = ("search",)
    elif number == 8:
        exchange.http_status = 0


async def test_large_batches_are_written_in_pieces() -> None:
    store = BrokenStore()
    recorder = make_recorder(store)
    for _ in range(450):
        end(recorder, make_exchange())
    async with running(recorder):
        await wait_until_written(recorder)
    assert [len(batch) for batch in store.batches] == [200, 200, 50]


async def test_the_bytes_that_are_held_are_bounded_and_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HELD", 100)
    store = BrokenStore()
    monkeypatch.setattr(module, "SMALL_REPLY", 0)  # which are read at once and not held
    recorder, first, second = make_recorder(store, text=True), make_exchange(), make_exchange()
    recorder.start(first, b"r" * 60)
    recorder.start(second, b"r" * 60)
    recorder.watch(first, Reply(200, {}, b"b" * 15))
    recorder.watch(second, Reply(200, {}, b"b" * 200))
    assert recorder._held == 60 + 15 + 15
    for exchange in (first, second):
        end(recorder, exchange)
    await recorder.close()
    assert recorder._held == 0
    found = (await store.list_page("default", ANY, None, 10, whole=True)).receipts
    assert ["text" in orjson.loads(one.details) for one in found] == [False, True]


async def test_a_process_that_ends_leaves_nothing_to_sweep_but_what_it_did_not_finish() -> None:
    store = MemoryReceiptStore()
    recorder, open_, done = make_recorder(store), make_exchange(), make_exchange()
    recorder.start(open_, b"{}")
    recorder.start(done, b"{}")
    end(recorder, done)
    await recorder.close()
    assert sorted(await list_statuses(store)) == ["ok", "started"]
    await tidy_receipts(store, ReceiptSettings(), time.time())
    assert sorted(await list_statuses(store)) == ["aborted", "ok"]


async def test_a_living_process_is_not_swept_by_another() -> None:
    store = BrokenStore()
    ours, theirs = make_recorder(store), make_recorder(store)
    async with running(ours), running(theirs):
        ours.start(make_exchange(), b"{}")
        await wait_until(lambda: bool(store.batches))
        await tidy_receipts(store, ReceiptSettings(), time.time())
        assert await list_statuses(store) == ["started"]


async def test_a_lease_is_renewed_while_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.3)
    store = MemoryReceiptStore()
    recorder = make_recorder(store)
    async with running(recorder):
        recorder.start(make_exchange(), b"{}")
        await asyncio.sleep(1.0)
        assert await store.sweep() == 0


async def test_receipts_are_pruned_by_age() -> None:
    store = MemoryReceiptStore()
    await store.write(ReceiptBatch([Receipt(make_id(), "default", "ok")]), "boot")
    await tidy_receipts(store, ReceiptSettings(days=1), time.time() + 86_000)
    assert await list_statuses(store) == ["ok"]
    await tidy_receipts(store, ReceiptSettings(days=1), time.time() + 87_000)
    assert await list_statuses(store) == []


def make_exchange_of(workspace: str) -> Exchange:
    return Exchange(make_id(), replace(ANONYMOUS, workspace=workspace), EMPTY_SNAPSHOT)


async def test_a_workspace_that_floods_the_queue_loses_its_own_receipts() -> None:
    store = BrokenStore()
    recorder = make_recorder(store, queue=90)
    flood = [make_exchange_of("loud") for _ in range(200)]
    for exchange in flood:
        recorder.start(exchange, b"")
    assert sum("receipt" in one.degraded for one in flood) == 120  # it got 80 of the 90 places
    others = [make_exchange_of(f"quiet-{number}") for number in range(4)]
    for exchange in others:
        recorder.start(exchange, b"")
    assert not any(one.degraded for one in others)
    for exchange in (*flood[:80], *others):
        end(recorder, exchange)
    await recorder.close()
    assert (recorder.lost, recorder.waiting) == (0, 0)
    again = [make_exchange_of("loud") for _ in range(80)]
    for exchange in again:
        recorder.start(exchange, b"")
    assert not any(one.degraded for one in again)  # every place was given back


async def test_a_batch_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritten, "SINGLE_BYTES", 300_000)
    store = BrokenStore()
    recorder = make_recorder(store, text=True)
    for _ in range(6):
        exchange = make_exchange()
        recorder.start(exchange, b"x" * 100_000)
        end(recorder, exchange)
    await recorder.close()
    assert [len(batch) for batch in store.batches] == [2, 2, 2]


KNOWN = "our known secret, with spaces"
SECRET = "sk-test-0123456789abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("before", range(1, len(SECRET), 6))
async def test_no_half_of_a_secret_is_left_where_a_text_is_cut(before: int) -> None:
    """The cut goes through the secret: neither half looks like one."""
    store = MemoryReceiptStore()
    redactor = Redactor([KNOWN, SECRET])
    settings = ReceiptSettings(text=True)
    recorder = ReceiptRecorder(store, settings, ReceiptRenderer(PriceTable({}), redactor.redact))
    for secret in (SECRET, KNOWN):
        inside = min(before, len(secret) - 1)
        exchange = make_exchange()
        exchange.tool_runs = [ToolRun("t", "y" * (MAX_ARGUMENTS - inside) + " " + secret + "y" * 9000, 1, False, 0.1)]
        exchange.injection = Injection(Selection(), "b" * (MAX_BLOCKS + LONGEST_SECRET - inside) + secret + "b" * 9000)
        request = b"x" * (module.MAX_TEXT - inside) + secret.encode() + b"x" * 1000
        recorder.start(exchange, request)
        answer = {"choices": [{"delta": {"content": "a" * 1000 + " " + secret[:inside]}}]}
        pieces = [b"data: " + orjson.dumps(answer) + b"\n\n", b"z" * module.MAX_TEXT]
        pending = recorder._begun[exchange.id]
        assert pending.text is not None
        for piece in pieces:
            recorder._keep_piece(pending.text, piece)
        end(recorder, exchange)
    await recorder.close()
    for receipt in (await store.list_page("default", ANY, None, 10, whole=True)).receipts:
        details = orjson.loads(receipt.details)
        assert details["text"]["truncated"]
        for text in (*map(str, details["text"].values()), details["tools"][0]["arguments"]):
            halves = {secret[:size] for secret in (SECRET, KNOWN) for size in range(3, len(secret))}
            assert not any(half in text for half in halves)


async def test_a_receipt_is_bounded_whatever_an_upstream_or_a_model_writes() -> None:
    store = MemoryReceiptStore()
    recorder = make_recorder(store, text=True)
    exchange = make_exchange()
    exchange.usage = {"prompt_tokens": 3, "noise": ["n" * 100_000], "completion_tokens": 4, "total_tokens": 7}
    exchange.usages = [exchange.usage] * 2
    exchange.replies = [TurnReply("up", 200)] * 2
    exchange.tool_runs = [ToolRun("t", "a" * 50_000, 1, False, 0.1)] * 500
    exchange.injection = Injection(Selection(), "b" * 3_000_000)
    recorder.start(exchange, b"x" * 1000)
    end(recorder, exchange)
    await recorder.close()
    (receipt,) = (await store.list_page("default", ANY, None, 10, whole=True)).receipts
    assert len(receipt.summary) < 4000
    assert len(receipt.details) < 1_300_000
    summary = orjson.loads(receipt.summary)
    assert summary["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert orjson.loads(receipt.details)["text"]["truncated"]


async def test_a_small_reply_is_read_at_once_and_not_held() -> None:
    recorder, small, large = make_recorder(MemoryReceiptStore()), make_exchange(), make_exchange()
    body = orjson.dumps({"usage": {"total_tokens": 7}})
    for exchange, data in ((small, body), (large, body + b" " * SMALL_REPLY)):
        reply = Reply(200, {}, data)
        recorder.start(exchange, b"{}")
        note_usage(exchange, reply)
        recorder.watch(exchange, reply)
    assert (small.usage, large.usage) == ({"total_tokens": 7}, None)
    assert recorder._held == len(body) + SMALL_REPLY


async def test_a_busy_workspace_has_few_answers_compared_in_a_second() -> None:
    renderer = ReceiptRenderer(PriceTable({}), lambda text: text)
    recorder = ReceiptRecorder(MemoryReceiptStore(), ReceiptSettings(), renderer, sample=1.0)
    exchanges = [make_exchange() for _ in range(5 * sampling.MAX_SAMPLES)]
    for exchange in exchanges:
        exchange.tokens = 1
        recorder.start(exchange, b"{}")
    sampled = sum(recorder._begun[exchange.id].text is not None for exchange in exchanges)
    assert sampling.MAX_SAMPLES <= sampled <= 2 * sampling.MAX_SAMPLES  # a second may have ended meanwhile


async def test_long_requests_are_compared_within_a_number_of_bytes() -> None:
    renderer = ReceiptRenderer(PriceTable({}), lambda text: text)
    recorder = ReceiptRecorder(MemoryReceiptStore(), ReceiptSettings(), renderer, sample=1.0)
    exchanges = [make_exchange() for _ in range(8)]
    for exchange in exchanges:
        exchange.tokens = 1
        recorder.start(exchange, b"x" * (sampling.MAX_SAMPLED_BYTES // 2))
    sampled = sum(recorder._begun[exchange.id].text is not None for exchange in exchanges)
    assert 2 <= sampled <= 4  # a second may have ended meanwhile
