"""Summaries of a process: kept, shared with replicas, retried and given up."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.summary import SummaryOrder
from gateway.errors import StoreError
from gateway.settings_sections import SummarySettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.protocols import EphemeralStore
from gateway.summaries.service import Summaries, SummaryTimings, make_key
from gateway.summaries.writer import SummaryError, WrittenSummary, read_answer

ORDER = SummaryOrder("a long text", 64)
QUICK = SummaryTimings(poll=0.01, pause=0.0)


class FakeWriter:
    """Writes what it is told to, or fails."""

    def __init__(self, *outcomes: str | BaseException) -> None:
        self.outcomes, self.calls = list(outcomes), list[tuple[str, int]]()
        self.on_call: Callable[[], object] = lambda: None
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, text: str, tokens: int) -> WrittenSummary:
        self.calls.append((text, tokens))
        self.on_call()
        await self.gate.wait()
        outcome = self.outcomes.pop(0) if self.outcomes else f"summary of {text}"
        if isinstance(outcome, BaseException):
            raise outcome
        return WrittenSummary(outcome, 100, 10)


class BrokenStore(MemoryEphemeralStore):
    """A store that answers nothing."""

    async def get_many(self, keys: object) -> dict[str, bytes]:
        raise StoreError("The store is down.")

    async def lease(self, key: str, owner: str, ttl: float) -> bool:
        raise StoreError("The store is down.")

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        raise StoreError("The store is down.")


def make(writer: FakeWriter, store: EphemeralStore | None = None, **changes: object) -> Summaries:
    settings = SummarySettings.model_validate({"model": "m", "retry_seconds": 0.01, "attempts": 3, **changes})
    return Summaries(settings, writer, store or MemoryEphemeralStore(), timings=QUICK)


@asynccontextmanager
async def running(summaries: Summaries) -> AsyncGenerator[list[str]]:
    changed: list[str] = []
    job = asyncio.create_task(summaries.run(changed.append))
    try:
        yield changed
    finally:
        job.cancel()
        await asyncio.gather(job, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (what is waited for is the job's own doing)
            await asyncio.sleep(0.001)


async def test_what_is_asked_for_is_made_once_and_told() -> None:
    writer = FakeWriter()
    summaries = make(writer)
    async with running(summaries) as changed:
        for _ in range(3):
            assert await summaries.load("one", [ORDER], queue=True) == {}
        await until(lambda: changed == ["one"])
    assert summaries.open("one").find(ORDER) == "summary of a long text"
    assert writer.calls == [("a long text", 64)]
    assert (summaries.outcomes["made",], summaries.tokens["input",], summaries.tokens["output",]) == (1, 100, 10)


async def test_nobody_calls_a_model_for_what_is_not_served() -> None:
    summaries = make(FakeWriter())
    assert await summaries.load("one", [ORDER], queue=False) == {}
    assert summaries.waiting == 0


async def test_another_process_finds_it_in_the_store() -> None:
    store = MemoryEphemeralStore()
    first, second, writer = make(FakeWriter(), store), make(FakeWriter(), store), FakeWriter()
    async with running(first) as changed:
        await first.load("one", [ORDER], queue=True)
        await until(lambda: bool(changed))
    assert await second.load("one", [ORDER], queue=True) == {ORDER: "summary of a long text"}
    assert await make(writer, store).load("two", [ORDER], queue=False) == {}
    assert await make(writer, store, model="other").load("one", [ORDER], queue=False) == {}


async def test_of_two_replicas_one_calls_and_the_other_adopts() -> None:
    store, slow, idle = MemoryEphemeralStore(), FakeWriter(), FakeWriter()
    slow.gate.clear()
    first, second = make(slow, store), make(idle, store)
    async with running(first) as told, running(second) as adopted:
        await first.load("one", [ORDER], queue=True)
        await until(lambda: len(slow.calls) == 1)
        await second.load("one", [ORDER], queue=True)
        await asyncio.sleep(0.05)
        slow.gate.set()
        await until(lambda: bool(told and adopted))
    assert idle.calls == []
    assert second.outcomes["adopted",] == 1
    assert second.open("one").find(ORDER) == "summary of a long text"


async def test_a_failure_is_told_and_retried() -> None:
    writer = FakeWriter(SummaryError("the answer is empty"), ValueError("quotes a text"))
    summaries = make(writer)
    seen: list[str | None] = []
    writer.on_call = lambda: seen.append(summaries.find_failure("one", ORDER.text))
    async with running(summaries) as changed:
        await summaries.load("one", [ORDER], queue=True)
        await until(lambda: bool(changed))
    assert seen == [None, "the answer is empty; again in 0.01 s", "ValueError; again in 0.02 s"]
    assert summaries.find_failure("one", ORDER.text) is None


async def test_a_text_is_given_up_after_some_attempts_until_it_changes() -> None:
    writer = FakeWriter(*[SummaryError("no")] * 3)
    summaries = make(writer)
    async with running(summaries) as changed:
        await summaries.load("one", [ORDER], queue=True)
        await until(lambda: summaries.waiting == 0)
        await summaries.load("one", [ORDER], queue=True)
        assert summaries.waiting == 0
        await summaries.load("one", [SummaryOrder("another text", 64)], queue=True)
        await until(lambda: bool(changed))
    assert [text for text, _ in writer.calls] == [*["a long text"] * 3, "another text"]
    assert (summaries.find_failure("one", ORDER.text) or "").startswith("no; given up")
    assert summaries.find_failure("two", ORDER.text) is None


async def test_a_call_that_takes_too_long_is_a_failure() -> None:
    writer = FakeWriter()
    writer.gate.clear()
    summaries = make(writer, seconds=0.01, attempts=1)
    async with running(summaries):
        await summaries.load("one", [ORDER], queue=True)
        await until(lambda: summaries.waiting == 0)
    assert (summaries.find_failure("one", ORDER.text) or "").startswith("no answer within 0.01 s")


async def test_a_job_that_is_started_again_makes_what_was_waiting() -> None:
    writer = FakeWriter()
    writer.gate.clear()
    summaries = make(writer)
    async with running(summaries):
        await summaries.load("one", [ORDER], queue=True)
        await until(lambda: len(writer.calls) == 1)
    writer.gate.set()
    async with running(summaries) as changed:
        await until(lambda: changed == ["one"])
    assert len(writer.calls) == 2


async def test_without_the_store_it_is_kept_in_memory() -> None:
    summaries = make(FakeWriter(), BrokenStore())
    async with running(summaries) as changed:
        assert await summaries.load("one", [ORDER], queue=True) == {}
        await until(lambda: bool(changed))
    assert summaries.open("one").find(ORDER) == "summary of a long text"


async def test_with_no_memory_at_all_it_comes_from_the_store() -> None:
    store = MemoryEphemeralStore()
    settings = SummarySettings(model="m")
    summaries = Summaries(settings, FakeWriter(), store, MemoryBudget(0), QUICK)
    async with running(summaries) as changed:
        await summaries.load("one", [ORDER], queue=True)
        await until(lambda: bool(changed))
    assert summaries.open("one").find(ORDER) is None
    assert await summaries.load("one", [ORDER], queue=True) == {ORDER: "summary of a long text"}


async def test_one_workspace_does_not_hold_up_another() -> None:
    writer = FakeWriter()
    writer.gate.clear()
    summaries = make(writer, calls=2)
    async with running(summaries):
        await summaries.load("one", [SummaryOrder(f"text {number}", 64) for number in range(20)], queue=True)
        await until(lambda: len(writer.calls) == 1)  # of two places, one is kept free for whoever comes next
        await summaries.load("two", [SummaryOrder("theirs", 64)], queue=True)
        await until(lambda: len(writer.calls) == 2)
        assert writer.calls[1] == ("theirs", 64)


async def test_no_more_of_a_text_waits_than_is_sent() -> None:
    writer = FakeWriter()
    summaries = make(writer, max_characters=1000)
    async with running(summaries) as changed:
        await summaries.load("one", [SummaryOrder("x" * 5000, 64)], queue=True)
        await until(lambda: bool(changed))
    assert [len(text) for text, _ in writer.calls] == [1001]


def test_a_key_differs_by_workspace_model_size_and_text() -> None:
    settings = SummarySettings(model="m")
    keys = {
        make_key("one", settings, ORDER),
        make_key("two", settings, ORDER),
        make_key("one", SummarySettings(model="n"), ORDER),
        make_key("one", SummarySettings(model="m", parameters={"temperature": 0}), ORDER),
        make_key("one", settings, SummaryOrder("a long text", 96)),
        make_key("one", settings, SummaryOrder("a long text.", 64)),
        make_key("onea", settings, SummaryOrder(" long text", 64)),
    }
    assert len(keys) == 7
    assert make_key("one", settings, ORDER) in keys
    assert not any("long text" in key for key in keys)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"content": " \\n"}}]}',
        b'{"choices": [{"message": {"content": ["a"]}}]}',
        b"[" * 100_000,
    ],
)
def test_an_answer_without_a_text_is_a_failure(body: bytes) -> None:
    with pytest.raises(SummaryError):
        read_answer(body, 64)


def test_an_answer_is_stripped_and_bounded_and_its_usage_read() -> None:
    body = b'{"choices": [{"message": {"content": " %b "}}], "usage": {"prompt_tokens": 7, "completion_tokens": null}}'
    assert read_answer(body % b"It says so.", 64) == WrittenSummary("It says so.", 7, 0)
    assert len(read_answer(body % (b"x" * 10_000), 64).text) == 1024
