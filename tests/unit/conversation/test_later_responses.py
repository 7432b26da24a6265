"""Responses that are described when they are written or looked for: found at once, counted exactly, bounded."""

import asyncio
import random
from collections.abc import Mapping
from time import monotonic

import pytest

from gateway.conversation import response_queue
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_queue import (
    LATE_SECONDS,
    MAX_LATER,
    OVERHEAD,
    Describe,
    ResponseQueue,
    WaitingResponse,
)
from gateway.conversation.response_quota import ResponseQuota
from gateway.conversation.stored_responses import StoredResponses, UpstreamResponse
from gateway.errors import StoreError
from gateway.stores.memory_ephemeral import MemoryEphemeralStore

ME = ConversationOwner("default", "key")


class FallibleStore(MemoryEphemeralStore):
    down = False

    async def append_many(self, values: Mapping[str, bytes], ttl: float) -> None:
        if self.down:
            raise StoreError("down")
        await super().append_many(values, ttl)


@pytest.fixture
def store() -> FallibleStore:
    return FallibleStore()


@pytest.fixture
def queue(store: FallibleStore) -> ResponseQueue:
    return ResponseQueue(store, 60.0, ResponseQuota(store, 60.0))


def later(key: str, size: int = 100, made: list[str] | None = None) -> Describe:
    def describe(values: dict[str, bytes]) -> int:
        if made is not None:
            made.append(key)
        values[key] = b"x" * size
        return size

    return describe


def now(key: str, size: int) -> WaitingResponse:
    return WaitingResponse(key, "w", {key: b"x" * size}, size)


async def test_it_is_described_once_when_somebody_looks_for_one(queue: ResponseQueue, store: FallibleStore) -> None:
    made: list[str] = []
    for key in "ab":
        assert queue.add_later("w", 100, later(key, made=made))
    assert (made, len(queue)) == ([], 2)
    assert list(queue.find("bc")) == ["b"]
    assert made == ["a", "b"]
    await queue.flush()
    assert (made, len(queue), queue._bytes) == (["a", "b"], 0, 0)
    assert len(await store.find_appended(["a", "b"])) == 2


async def test_what_comes_later_replaces_what_came_before(queue: ResponseQueue, store: FallibleStore) -> None:
    assert queue.add_later("w", 100, later("a", 1))
    assert queue.add_now(now("a", 2))
    assert queue.add_later("w", 100, later("a", 3))
    await queue.flush()
    assert await store.find_appended(["a"]) == {"a": b"xxx"}


async def test_one_that_was_deleted_at_once_does_not_come_back(store: FallibleStore) -> None:
    stored = StoredResponses(store)
    response = UpstreamResponse(ME, "m", "resp_1", "a", ["msg_a"], None)
    assert stored.queue.add_later("default", response.measure(), response.describe)
    assert await stored.find_items(ME, ["msg_a"]) == {"msg_a": None}
    await stored.delete(ME, "a")
    await stored.queue.flush()
    assert await stored.find(ME, "a") is None


async def test_one_that_nobody_could_continue_is_dropped(queue: ResponseQueue) -> None:
    assert queue.add_later("w", 100, lambda _: 0)
    await queue.flush()
    assert len(queue) == 0


async def test_one_that_cannot_be_described_does_not_keep_the_others(
    queue: ResponseQueue, store: FallibleStore
) -> None:
    def fail(values: dict[str, bytes]) -> int:
        raise ZeroDivisionError

    for describe in (later("a"), fail, later("b")):
        assert queue.add_later("w", 100, describe)
    with pytest.raises(ZeroDivisionError):
        await queue.flush()
    await queue.flush()
    assert len(await store.find_appended(["a", "b"])) == 2


async def test_a_quota_is_kept_to_the_byte(store: FallibleStore) -> None:
    limit, chance = 5000, random.Random(3)
    quota = ResponseQuota(store, 3600.0, lambda _: limit)
    queue, kept, refused = ResponseQueue(store, 3600.0, quota), 0, 0
    assert not queue.add_later("w", 1, later("a"))  # the store has to be asked first
    assert await quota.add("w", 0)
    for number in range(200):
        size = chance.randint(1, 100)
        accepted = queue.add_later("w", size + chance.choice((0, 300)), later(str(number), size))
        accepted = accepted or queue.add_now(now(str(number), size)) is True
        assert accepted == (kept + size <= limit)
        kept += size if accepted else 0
        refused += not accepted
    await queue.flush()
    assert await quota.count_bytes("w") == kept
    assert limit - 100 < kept <= limit
    assert refused > 10


async def test_nothing_is_left_for_later_while_the_store_is_late(queue: ResponseQueue, store: FallibleStore) -> None:
    store.down = True
    assert queue.add_later("w", 100, later("a"))
    with pytest.raises(StoreError):
        await queue.flush()
    assert not queue.add_later("w", 100, later("b"))
    store.down = False
    await queue.flush()
    assert queue.add_later("w", 100, later("b"))


async def test_it_waits_since_it_was_queued(queue: ResponseQueue) -> None:
    assert queue.add_later("w", 100, later("a"))
    queue._later_since = monotonic() - 2 * LATE_SECONDS
    await queue.flush()
    assert not queue.add_later("w", 100, later("b"))  # that batch was late


async def test_what_is_large_is_described_now_and_much_of_it_soon(
    queue: ResponseQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not queue.add_later("w", MAX_LATER + 1, later("a"))
    monkeypatch.setattr(response_queue, "ALL_LATER", 250)
    made: list[str] = []
    for key in "abc":
        assert queue.add_later("w", 100, later(key, made=made))
    assert made == ["a", "b", "c"]


async def test_a_workspace_does_not_fill_the_queue(queue: ResponseQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_queue, "MAX_SHARE", 250)
    assert [queue.add_later("w", 100, later(key)) for key in "abc"] == [True, True, False]
    assert queue.add_later("another", 100, later("d"))


async def test_the_job_writes_what_was_left_for_later(queue: ResponseQueue, store: FallibleStore) -> None:
    job = asyncio.create_task(queue.run())
    assert queue.add_later("w", 100, later("a"))
    for _ in range(1000):
        await asyncio.sleep(0.01)
        if not len(queue):
            break
    job.cancel()
    assert len(await store.find_appended(["a"])) == 1


async def test_what_is_joined_is_no_larger_than_a_batch(
    queue: ResponseQueue, store: FallibleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_queue, "BATCH_BYTES", 3 * (100 + OVERHEAD))
    sizes = [100, 100, 100, 1, 100, 5000, 100]
    for number, size in enumerate(sizes):
        assert queue.add_later("w", size + OVERHEAD, later(str(number), size))
    queue.settle()
    assert [list(one.values) for one in queue._waiting.values()] == [["0", "1", "2"], ["3", "4"], ["5"], ["6"]]
    assert (len(queue), queue._held["w"]) == (7, sum(sizes) + 7 * OVERHEAD)
    await queue.flush()
    assert len(await store.find_appended([str(number) for number in range(7)])) == 7
    assert (len(queue), queue._bytes, queue._values, dict(queue._held)) == (0, 0, {}, {})


async def test_of_two_in_different_batches_the_later_one_stays(
    queue: ResponseQueue, store: FallibleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_queue, "BATCH_BYTES", 1)
    for size in (1, 2, 3):
        assert queue.add_later("w", 100, later("a", size))
    assert queue.find("a") == {"a": b"xxx"}
    await queue.flush()
    assert await store.find_appended(["a"]) == {"a": b"xxx"}


async def test_one_that_replaces_a_joined_one_leaves_the_others(queue: ResponseQueue, store: FallibleStore) -> None:
    for key in "abc":
        assert queue.add_later("w", 100, later(key, 1))
    queue.settle()
    assert (len(queue._waiting), len(queue)) == (1, 3)
    for key in "ab":
        assert queue.add_now(now(key, 2))
    assert queue.find("abc") == {"a": b"xx", "b": b"xx", "c": b"x"}
    await queue.flush()
    assert await store.find_appended(["a", "b", "c"]) == {"a": b"xx", "b": b"xx", "c": b"x"}
    assert (len(queue), queue._bytes, queue._values, dict(queue._held)) == (0, 0, {}, {})


async def test_what_is_queued_while_a_joined_batch_is_written_stays(queue: ResponseQueue, store: FallibleStore) -> None:
    append_many = store.append_many

    async def add_meanwhile(values: Mapping[str, bytes], ttl: float) -> None:
        store.append_many = append_many  # type: ignore[method-assign]
        assert queue.add_now(now("b", 2))
        assert queue.add_later("w", 100, later("c"))
        await append_many(values, ttl)

    store.append_many = add_meanwhile  # type: ignore[method-assign]
    for key in "ab":
        assert queue.add_later("w", 100, later(key, 1))
    await queue.flush()
    assert (list(queue._values), len(queue)) == (["b"], 2)
    await queue.flush()
    assert (await store.find_appended(["b"]), len(queue), queue._bytes) == ({"b": b"xx"}, 0, 0)


async def test_workspaces_are_joined_and_charged_each_for_itself(store: FallibleStore) -> None:
    quota = ResponseQuota(store, 60.0, lambda _: 10_000)
    queue = ResponseQueue(store, 60.0, quota)

    for workspace in "vw":
        assert await quota.add(workspace, 0)
    for key, workspace in ("a", "v"), ("b", "w"), ("c", "v"):
        assert queue.add_later(workspace, 100, later(key, 10))
    queue.settle()
    assert [(one.workspace, list(one.values)) for one in queue._waiting.values()] == [("v", ["a", "c"]), ("w", ["b"])]
    await queue.flush()
    assert [await quota.count_bytes(one) for one in "vw"] == [20, 10]
