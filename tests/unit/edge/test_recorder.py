"""The account of requests: complete, in batches, and bounded whatever happens."""

import asyncio
import tracemalloc
from typing import Any

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from gateway.domain.exchange import Exchange, ExchangeStatus, ForwardedHeaders, TurnReply
from gateway.domain.principal import Principal
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.edge.logs import MAX_VALUE, RequestLog, encode_line
from gateway.edge.metrics import Metrics
from gateway.edge.recorder import (
    MAX_TOOLS,
    MAX_USAGE_BYTES,
    RequestOutcome,
    RequestRecorder,
    cut_usage,
    describe_exchange,
    describe_outcome,
    encode_exchanges,
)
from gateway.ids import make_id
from gateway.receipts.prices import PriceTable
from gateway.receipts.recorder import ReceiptRecorder
from gateway.receipts.rendering import ReceiptRenderer
from gateway.settings import ReceiptSettings
from gateway.stores.memory_receipts import MemoryReceiptStore

CALLER = Principal("shop", key="key-1")


def exchange(**said: Any) -> Exchange:
    return Exchange("x", CALLER, EMPTY_SNAPSHOT, [], replies=[TurnReply("up", 200)], **said)


def read_counts(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    return dict(metrics.collect().counts[name])


def test_a_scrape_sees_what_has_ended_a_moment_before() -> None:
    metrics = Metrics()
    recorder = RequestRecorder(metrics, None)
    recorder.record_exchange(exchange(injected=2, tokens=30, tools_run=["get"], degraded={"store"}), 200, 0.02)
    recorder.record_exchange(exchange(), 429, 0.01)
    recorder.record_outcome(RequestOutcome("models", 401))
    assert read_counts(metrics, "requests") == {("chat", "200"): 1, ("chat", "429"): 1, ("models", "401"): 1}
    assert read_counts(metrics, "turns") == {("up", "200"): 2}
    assert read_counts(metrics, "tools") == {("get",): 1}
    assert read_counts(metrics, "degraded") == {("store",): 1}
    assert (read_counts(metrics, "injected"), read_counts(metrics, "tokens")) == ({(): 2}, {(): 30})
    assert read_counts(metrics, "requests")["chat", "200"] == 1, "and counts it once"


def test_if_nothing_is_written_any_more_the_counts_stay_right_and_the_memory_bounded() -> None:
    metrics, log = Metrics(), RequestLog(capacity=500)
    recorder = RequestRecorder(metrics, log, capacity=100)
    recorder.record_exchange(exchange(), 200, 0.1)
    tracemalloc.start()
    for _ in range(20_000):
        recorder.record_exchange(exchange(model="m" * 5000, usage={"x": "y" * 1000}), 200, 0.1)
        recorder.record_outcome(RequestOutcome("passthrough", 200, model="m" * 5000))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 3_000_000
    assert read_counts(metrics, "requests") == {("chat", "200"): 20_001, ("passthrough", "200"): 20_000}
    assert log.lost == 40_001 - 500


def test_what_the_account_does_not_need_is_let_go_at_once() -> None:
    ended = exchange(forwarded=ForwardedHeaders((("user-agent", "x" * 60_000),)), model="m" * 1_000_000)
    ended.context_headers = [(b"x-context-task", b"x" * 60_000)]
    RequestRecorder(Metrics(), None).record_exchange(ended, 200, 0.1)
    assert (ended.context_headers, ended.forwarded) == ((), ForwardedHeaders())
    assert ended.model is not None
    assert len(ended.model) == MAX_VALUE + 1


def test_every_value_of_a_line_is_bounded() -> None:
    long = "é" * 100_000
    caller = Principal(long, workspace=long, key=long)
    ended = Exchange(
        "x",
        caller,
        EMPTY_SNAPSHOT,
        agent=long,
        upstream=long,
        tools_run=[long] * 1000,
        usage={"a": long, "total_tokens": 5},
    )
    RequestRecorder(Metrics(), None).record_exchange(ended, 200, 0.1)
    (line,) = encode_exchanges([ended])
    assert len(line) < 2 * (MAX_VALUE + 10) * (MAX_TOOLS + 6) + MAX_USAGE_BYTES
    assert orjson.loads(line)["usage"] == {"total_tokens": 5}
    outcome = RequestOutcome("passthrough", principal=caller, model=long, upstream=long)
    RequestRecorder(Metrics(), None).record_outcome(outcome)
    assert len(orjson.dumps(describe_outcome(outcome))) < 2 * (MAX_VALUE + 10) * 7


@pytest.mark.parametrize(
    ("usage", "shown"),
    [
        (None, None),
        ({"total_tokens": 5, "details": {"cached": 1}}, {"total_tokens": 5, "details": {"cached": 1}}),
        ({"total_tokens": 10**30, "prompt_tokens": 3}, {"prompt_tokens": 3}),
        ({"total_tokens": 5, "note": "\ud800"}, {"total_tokens": 5}),
        ({"total_tokens": 5, "note": "x" * 5000}, {"total_tokens": 5}),
        ({"total_tokens": "x" * 5000}, {}),
        ({"total_tokens": 5, "note": msgspec.json.decode("[" * 253 + "0" + "]" * 253)}, {"total_tokens": 5}),
    ],
)
def test_usage_is_shown_as_far_as_it_is_reasonable(usage: Any, shown: Any) -> None:
    assert cut_usage(usage) == shown


async def test_the_job_writes_by_itself_and_once_more_at_the_end() -> None:
    written: list[bytes] = []
    loop, first = asyncio.get_running_loop(), asyncio.Event()

    def write(data: bytes) -> None:
        written.append(data)
        loop.call_soon_threadsafe(first.set)

    recorder = RequestRecorder(Metrics(), RequestLog(write))
    job = asyncio.create_task(recorder.run())
    recorder.record_exchange(exchange(), 200, 0.1)
    await asyncio.wait_for(first.wait(), 10)
    recorder.record_outcome(RequestOutcome("models", 200))
    job.cancel()
    await asyncio.gather(job, return_exceptions=True)
    assert [orjson.loads(line)["event"] for line in b"".join(written).splitlines()] == ["exchange", "request"]


def make_receipts(store: MemoryReceiptStore) -> ReceiptRecorder:
    return ReceiptRecorder(store, ReceiptSettings(), ReceiptRenderer(PriceTable({}), lambda text: text))


def make_started(receipts: ReceiptRecorder) -> Exchange:
    started = replace(exchange(), id=make_id())
    receipts.start(started, b"{}")
    receipts._begun[started.id].since -= 1
    return started


async def find_status(store: MemoryReceiptStore, one: Exchange) -> str | None:
    receipt = await store.find(CALLER.workspace, one.id)
    return receipt.status if receipt is not None else None


async def test_what_is_over_is_never_written_as_started_although_nobody_has_gathered_it_yet() -> None:
    store = MemoryReceiptStore()
    receipts = make_receipts(store)
    recorder = RequestRecorder(Metrics(), None, receipts)
    ended, going_on = make_started(receipts), make_started(receipts)
    recorder.record_exchange(ended, 200, 0.1)
    await receipts._flush()
    assert (await find_status(store, ended), await find_status(store, going_on)) == ("ok", "started")


async def test_what_is_over_is_written_for_whoever_asks_and_when_the_gateway_stops() -> None:
    store = MemoryReceiptStore()
    receipts = make_receipts(store)
    recorder = RequestRecorder(Metrics(), None, receipts)
    asked, last = make_started(receipts), make_started(receipts)
    recorder.record_exchange(asked, 200, 0.1)
    await receipts.write_now(CALLER.workspace, asked.id)
    assert await find_status(store, asked) == "ok"
    recorder.record_exchange(last, 200, 0.1)
    await receipts.close()
    assert await find_status(store, last) == "ok"


async def test_one_that_was_refused_before_it_began_is_written_for_whoever_asks() -> None:
    store = MemoryReceiptStore()
    receipts = make_receipts(store)
    recorder, refused = RequestRecorder(Metrics(), None, receipts), replace(exchange(), id=make_id())
    recorder.record_exchange(refused, 400, 0.1)
    await receipts.write_now(CALLER.workspace, refused.id)
    assert await find_status(store, refused) == "ok"


async def test_receipts_and_log_lines_are_made_in_the_same_pass() -> None:
    receipts, written = make_receipts(MemoryReceiptStore()), list[bytes]()
    log = RequestLog(written.append)
    recorder = RequestRecorder(Metrics(), log, receipts)
    recorder.record_exchange(exchange(), 200, 0.1)
    assert (receipts.waiting, written) == (0, [])
    await receipts.close()
    log.flush()
    assert [orjson.loads(line)["receipt"] for line in b"".join(written).splitlines()] == ["x"]


def test_health_is_not_logged() -> None:
    written: list[bytes] = []
    recorder = RequestRecorder(Metrics(), RequestLog(written.append))
    recorder.record_outcome(RequestOutcome("health", 200))
    recorder.flush()
    assert written == []


UNUSUAL_USAGES = [
    None,
    {"total_tokens": 5},
    {"note": "x" * MAX_USAGE_BYTES},
    {"a": 10**30},
    {"a": -(2**63)},
    {"a": "\ud800"},
    {"a": 5.0, "b": {"c": [None, True]}},
]


@pytest.mark.parametrize("usage", UNUSUAL_USAGES)
@pytest.mark.parametrize("model", ["m", "m" * 2000, "\ud800", '100 %d "%s" \\', None])
def test_a_line_says_what_each_of_its_values_would_say(usage: Any, model: str | None) -> None:
    ended = exchange(usage=usage, model=model, tokens=10**9, tools_run=["get", "get"], degraded={"store", "receipt"})
    line = describe_exchange(ended) | {"usage": cut_usage(usage)}
    assert [orjson.loads(encoded) for encoded in encode_exchanges([ended])] == [orjson.loads(encode_line(line))]


def test_a_line_that_cannot_be_encoded_says_of_nothing_that_it_is_an_empty_list() -> None:
    (line,) = encode_exchanges([exchange(model="\ud800")])
    read = orjson.loads(line)
    assert (read["model"], read["tools_run"], read["degraded"]) == ("?", "[]", "[]")


def test_each_line_of_a_batch_tells_of_its_own_exchange_in_the_order_in_which_they_ended() -> None:
    callers = [CALLER, Principal("shop", "another", key="key-1"), Principal("shop"), Principal("\ud800")]
    ended = [
        Exchange(
            f"{number:026x}",
            callers[number % len(callers)],
            EMPTY_SNAPSHOT,
            agent=None if number % 3 else "editor",
            model="m",
            upstream="up" if number % 2 else "down",
            injected=number % 4,
            turns=1 + number % 2,
            tools_run=["get"] * (number % 30),
            degraded={"store"} if number % 11 == 0 else set(),
            usage=UNUSUAL_USAGES[number % len(UNUSUAL_USAGES)],
            status=ExchangeStatus.ABORTED if number % 5 == 0 else ExchangeStatus.OK,
            http_status=0 if number % 5 == 0 else 200,
            seconds=number / 7,
            ended=1.7e9 + number / 3,
        )
        for number in range(200)
    ]
    expected = [encode_line(describe_exchange(one) | {"usage": cut_usage(one.usage)}) for one in ended]
    assert [list(orjson.loads(line).items()) for line in encode_exchanges(ended)] == [
        list(orjson.loads(line).items()) for line in expected
    ]


def test_a_batch_is_counted_as_its_requests_one_by_one() -> None:
    ended = [
        exchange(
            dialect="responses" if number % 3 == 0 else "chat",
            injected=number % 4,
            tokens=number,
            tools_run=["get", "search"][: number % 3],
            degraded={"store"} if number % 5 == 0 else set(),
        )
        for number in range(60)
    ]
    for one in ended[::7]:
        one.replies = [TurnReply("up", 500), TurnReply("other", 200)]
    ended[3].replies = []
    together, by_one = Metrics(), Metrics()
    batches, single = RequestRecorder(together, None), RequestRecorder(by_one, None)
    for number, one in enumerate(ended):
        for recorder in (batches, single):
            recorder.record_exchange(one, 0 if number % 8 == 0 else 200, number / 8)
            recorder.record_outcome(RequestOutcome("models", 404, seconds=number / 16))
        single.drain()
    assert sort_numbers(together) == sort_numbers(by_one)
    assert read_counts(together, "requests")["models", "404"] == 60
    assert read_counts(together, "turns") == {("up", "200"): 50, ("up", "500"): 9, ("other", "200"): 9}
    assert together.collect().seconds["models"] == sum(range(60)) / 16


def sort_numbers(metrics: Metrics) -> Any:
    numbers = metrics.collect()
    counts = {name: sorted(values) for name, values in numbers.counts.items()}
    return counts, sorted(numbers.buckets.items()), sorted(numbers.seconds.items())
