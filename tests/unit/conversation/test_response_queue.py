"""Responses are written behind the client's back, found at once, and never more of them wait than may."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import pytest

from gateway.conversation import response_queue, response_quota
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_queue import LATE_SECONDS, ResponseQueue
from gateway.conversation.response_quota import ResponseQuota
from gateway.conversation.response_record import ResponseRecord
from gateway.conversation.stored_responses import LOOK_AGAIN, StoredResponses
from gateway.conversation.waiting_responses import WaitingResponse
from gateway.errors import StoreError, StoreUnavailable
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.protocols import CommonValue

ME = ConversationOwner("default", "key")
RECORD = ResponseRecord("m", "resp_1")


class WatchedStore(MemoryEphemeralStore):
    """Counts what it is told, and fails or waits when it should."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[int] = []
        self.bookings: list[dict[str, int]] = []
        self.down = False
        self.gate: asyncio.Event | None = None

    async def append_many(self, values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.down:
            raise StoreError("down")
        self.writes.append(len(values))
        await super().append_many(values, ttl, shared)

    async def add_many(self, amounts: Mapping[str, int], ttl: float) -> dict[str, int]:
        if any(amounts.values()):
            self.bookings.append(dict(amounts))
        return await super().add_many(amounts, ttl)


@pytest.fixture
def store() -> WatchedStore:
    return WatchedStore()


@pytest.fixture
def stored(store: WatchedStore) -> StoredResponses:
    return StoredResponses(store, 3600.0, lambda _: 10**9)


async def keep(stored: StoredResponses, *ids: str) -> None:
    for identity in ids:
        assert await stored.keep(ME, identity, RECORD, [f"msg_{identity}"])


async def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it never became true")


async def test_responses_are_written_and_booked_together(stored: StoredResponses, store: WatchedStore) -> None:
    await keep(stored, "a", "b", "c")
    assert (store.writes, store.bookings, len(stored.queue)) == ([], [], 3)
    await stored.queue.close()
    assert (store.writes, len(store.bookings), len(stored.queue)) == ([6], 1, 0)


async def test_what_waits_is_found_by_its_id_and_by_its_items(stored: StoredResponses, store: WatchedStore) -> None:
    await keep(stored, "a")
    for _ in range(2):
        assert await stored.find(ME, "a") == RECORD
        assert await stored.find(ConversationOwner("default", "other"), "a") is None
        assert await stored.find_items(ME, ["msg_a"]) == {"msg_a": None}
        await stored.queue.flush()


async def test_another_process_finds_what_is_written_a_moment_later(
    stored: StoredResponses, store: WatchedStore
) -> None:
    elsewhere = StoredResponses(store)
    await keep(stored, "a")
    looking = [asyncio.create_task(elsewhere.find(ME, "a")), asyncio.create_task(elsewhere.find(ME, "b"))]
    await asyncio.sleep(0)
    await stored.queue.flush()
    assert await asyncio.gather(*looking) == [RECORD, None]
    assert sum(LOOK_AGAIN) > LATE_SECONDS


async def test_a_deleted_response_does_not_come_back(stored: StoredResponses, store: WatchedStore) -> None:
    await keep(stored, "a")
    await stored.delete(ME, "a")
    await stored.queue.flush()
    assert await stored.find(ME, "a") is None


async def test_the_job_writes_what_is_queued_and_tries_again(
    stored: StoredResponses, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_queue, "FIRST_RETRY", 0.001)
    store.down = True
    job = asyncio.create_task(stored.queue.run())
    await keep(stored, "a")
    await wait_until(lambda: stored.queue._late)
    assert await stored.find(ME, "a") == RECORD
    with pytest.raises(StoreError):
        await stored.keep(ME, "b", RECORD)  # whoever comes now hears of it
    store.down = False
    await wait_until(lambda: not len(stored.queue))
    job.cancel()
    assert [await StoredResponses(store).find(ME, one) for one in "ab"] == [RECORD, RECORD]
    await keep(stored, "c")
    assert len(stored.queue) == 1  # the store works again: nobody waits


async def test_who_waits_while_another_tries_in_vain_does_not_try_the_same_again(
    stored: StoredResponses, store: WatchedStore
) -> None:
    tries = 0

    async def fail(*_: object) -> None:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0.001)
        raise StoreError("down")

    store.append_many = fail  # type: ignore[method-assign, assignment]
    await keep(stored, "first")
    with pytest.raises(StoreError):
        await stored.queue.flush()
    waiting = [stored.keep(ME, f"r{number}", RECORD) for number in range(40)]
    failures = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(one) for one in failures} == {StoreError}
    assert (tries, len(stored.queue)) == (3, 41)
    del store.append_many
    await stored.queue.flush()
    assert len(stored.queue) == 0


async def test_nobody_is_told_of_an_end_before_a_late_store_has_it(
    stored: StoredResponses, store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_queue, "LATE_SECONDS", -1.0)  # every batch is late
    await keep(stored, "a")
    await stored.queue.flush()
    store.gate = asyncio.Event()
    waiting = asyncio.create_task(stored.keep(ME, "b", RECORD))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    store.gate.set()
    assert await waiting
    assert len(stored.queue) == 0


def build(key: str, size: int, workspace: str = "default") -> WaitingResponse:
    return WaitingResponse(key, workspace, {key: b"x" * size}, size)


async def test_no_more_waits_than_may(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_queue, "MAX_WAITING", 4000)
    monkeypatch.setattr(response_queue, "MAX_SHARE", 2500)
    queue = ResponseQueue(store, 60.0, ResponseQuota(store, 60.0))
    store.gate = asyncio.Event()
    assert await queue.add(build("a", 1000))
    one_too_many = asyncio.create_task(queue.add(build("b", 1500)))
    assert await queue.add(build("c", 1000, "another"))
    await asyncio.sleep(0)
    assert (one_too_many.done(), len(queue)) == (False, 2)
    store.gate.set()
    assert await one_too_many
    await queue.flush()
    assert (len(await store.get_many(["a", "b", "c"])), queue._bytes, queue._held) == (3, 0, {})


async def test_a_queue_that_is_full_and_a_store_that_is_down_refuse_a_response(
    store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_queue, "MAX_WAITING", 2000)
    queue = ResponseQueue(store, 60.0, ResponseQuota(store, 60.0))
    await queue.add(build("a", 1000))
    store.down = True
    with pytest.raises(StoreError):
        await queue.add(build("b", 1000))
    assert list(queue.find(["a", "b"])) == ["a"]


async def test_the_same_response_twice_is_kept_once(store: WatchedStore) -> None:
    queue = ResponseQueue(store, 60.0, ResponseQuota(store, 60.0))
    for size in (100, 200):
        await queue.add(build("a", size))
    assert (len(queue), len(queue.find(["a"])["a"])) == (1, 200)
    await queue.close()
    assert (queue._bytes, queue._held) == (0, {})


async def test_large_batches_are_written_in_parts(store: WatchedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_queue, "BATCH_BYTES", 2500)
    queue = ResponseQueue(store, 60.0, ResponseQuota(store, 60.0))
    for key in "abcde":
        await queue.add(build(key, 1000))
    await queue.flush()
    assert store.writes == [2, 2, 1]


async def test_quotas_are_booked_once_a_second_and_what_others_keep_is_heard_then(
    store: WatchedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(response_quota, "BOOK_SECONDS", 0.001)
    ours, theirs = (ResponseQuota(store, 3600.0, lambda _: 1000) for _ in range(2))
    assert await ours.add("w", 600)
    assert not await ours.add("w", 600)  # known before it is booked
    assert await theirs.add("w", 600)  # which others do not know yet
    job = asyncio.create_task(ours.run())
    await wait_until(lambda: bool(store.bookings))
    job.cancel()
    assert await theirs.count_bytes("w") == 1200
    assert not await theirs.add("w", 1)
    assert [list(one.values()) for one in store.bookings] == [[600], [600]]


async def test_a_store_that_cannot_be_read_says_so(store: WatchedStore) -> None:
    class Unreadable(WatchedStore):
        async def find_appended(self, keys: Sequence[str]) -> dict[str, bytes]:
            raise StoreError("down")

    with pytest.raises(StoreUnavailable):
        await StoredResponses(Unreadable()).find(ME, "a")
