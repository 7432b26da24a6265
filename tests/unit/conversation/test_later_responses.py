"""Responses that are described when they are written or looked for: found at once, counted exactly, bounded."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from itertools import product
from time import monotonic

import pytest
from msgspec import Raw
from msgspec.structs import replace

from gateway.conversation import response_queue
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_keys import MAX_PLAIN_ID, PREFIX, get_key_start
from gateway.conversation.response_queue import (
    LATE_SECONDS,
    MAX_LATER,
    TOGETHER,
    ResponseQueue,
)
from gateway.conversation.response_quota import ResponseQuota
from gateway.conversation.response_record import SAME_ID, ResponseRecord, encode_record
from gateway.conversation.stored_responses import StoredResponses
from gateway.conversation.waiting_responses import OVERHEAD, Describe, WaitingResponse
from gateway.errors import StoreError
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.protocols import CommonValue
from tests.support.growth import measure_growth

ME = ConversationOwner("default", "key")


class FallibleStore(MemoryEphemeralStore):
    down = False

    async def append_many(self, values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        if self.down:
            raise StoreError("down")
        await super().append_many(values, ttl, shared)


@pytest.fixture
def store() -> FallibleStore:
    return FallibleStore()


@pytest.fixture
def stored(store: FallibleStore) -> StoredResponses:
    return StoredResponses(store)


@pytest.fixture
def queue(store: FallibleStore) -> ResponseQueue:
    return ResponseQueue(store, 60.0, ResponseQuota(store, 60.0))


def later(key: str, size: int = 100, made: list[str] | None = None) -> Describe:
    def describe(joined: WaitingResponse) -> None:
        if made is not None:
            made.append(key)
        joined.values[key] = b"x" * size
        joined.counted += size
        joined.number += 1

    return describe


def note(
    stored: StoredResponses,
    identity: str,
    model: str = "m",
    owner: ConversationOwner = ME,
    echoed: dict[str, Raw] | None = None,
) -> None:
    later = stored.queue.reserve(owner.workspace, 1000, noted=True)
    assert later is not None
    alike = later.open_group(owner, model, echoed)
    alike.ids.append(identity)
    alike.names += f"msg_{identity}", f"msg_{model}"


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
    note(stored, "a")
    assert await stored.find_items(ME, ["msg_a"]) == {"msg_a": None}
    await stored.delete(ME, "a")
    await stored.queue.flush()
    assert await stored.find(ME, "a") is None


async def test_those_that_differ_by_their_ids_alone_have_one_record(store: FallibleStore) -> None:
    stored, other = StoredResponses(store), ConversationOwner("default", "other")
    for number in range(TOGETHER - 3):
        note(stored, f"r{number}")
    note(stored, "r0", "n")  # the upstream repeats an id: the last one counts
    note(stored, "résumé")
    note(stored, "x", owner=other)
    assert (len(stored.queue), stored.queue._waiting) == (TOGETHER, {})
    stored.queue.settle()
    [joined] = stored.queue._waiting.values()
    assert len(joined.shared) == 5  # two records and their items, of another owner one
    assert (len(stored.queue), stored.queue._values) == (TOGETHER - 1, joined.values)
    for _ in range(2):
        found = await stored.find_many(ME, ["r0", "r1", "résumé", "x", "r"])
        assert found == [
            ResponseRecord("n", "r0"),
            ResponseRecord("m", "r1"),
            ResponseRecord("m", "résumé"),
            None,
            None,
        ]
        assert await stored.find_many(other, ["x", "r0"]) == [ResponseRecord("m", "x"), None]
        items = ["msg_r0", "msg_m", "msg_n", "msg_résumé", "msg_x", "r0", "msg_r0 msg_r1"]
        own = ["msg_r0", "msg_m", "msg_n", "msg_résumé"]  # of the former r0 too
        assert await stored.find_items(ME, items) == dict.fromkeys(own)
        await stored.queue.flush()
        assert (len(stored.queue), stored.queue._bytes, stored.queue._sharing) == (0, 0, {})


async def test_the_fields_of_a_request_stay_with_its_response(stored: StoredResponses) -> None:
    mine, other = {"instructions": Raw(b'"a"')}, {"instructions": Raw(b'"b"')}
    tools = {"tools": Raw(b'"a"')}
    asked = [None, mine, mine, other, None, tools, {**mine, **tools}, {}, mine]
    for number, echoed in enumerate(asked):
        note(stored, f"r{number}", echoed=echoed)
    found = await stored.find_many(ME, [f"r{number}" for number in range(len(asked))])
    assert [one and one.echoed for one in found] == asked


@pytest.mark.parametrize("flushes", [False, True])
async def test_whatever_is_repeated_each_owner_has_the_last_of_its_own(stored: StoredResponses, flushes: bool) -> None:
    """Ids, models and fields come again in any order; owners are told apart by what they say."""
    chance, last = random.Random(5), dict[tuple[int, str], ResponseRecord]()
    ids = [*(f"r{number}" for number in range(20)), "é", "a b", "r1 r2", "x" * MAX_PLAIN_ID, "x" * (MAX_PLAIN_ID + 1)]
    names = product(("default", "other"), ("key", 'key","u'), ("", "u"))
    owners = [ConversationOwner(*whose, session="s") for whose in names]
    echoes = [None, {}, *({"instructions": Raw(b"%d" % number), "tools": Raw(b"[]")} for number in range(2))]
    for number in range(1000):
        place, id, echoed = chance.randrange(1 + number % len(owners)), chance.choice(ids), chance.choice(echoes)
        owner = replace(owners[place]) if number % 7 == 0 else owners[place]
        told = echoed and dict(reversed(echoed.items())) if number % 2 else echoed
        record = last[place, id] = ResponseRecord(chance.choice("mn"), id, echoed=echoed)
        note(stored, id, record.model, owner, told)
        if flushes and number % 90 == 0:
            await stored.queue.flush()
    for place, owner in enumerate(owners):
        assert await stored.find_many(owner, ids) == [last.get((place, id)) for id in ids]


async def test_one_with_an_odd_id_says_it_itself(stored: StoredResponses, store: FallibleStore) -> None:
    """A process of an earlier release finds it too, and takes what it says for the upstream's id."""
    note(stored, "r:1")
    await stored.queue.flush()
    key = get_key_start(ME).finish("r:1", PREFIX)
    assert (await store.find_appended([key])) == {key: encode_record(ResponseRecord("m", "r:1"))}


async def test_many_of_a_workspace_are_described_at_once(stored: StoredResponses) -> None:
    for number in range(TOGETHER + 1):
        note(stored, f"r{number}")
    queue = stored.queue
    assert (len(queue._waiting), queue._later["default"].number, len(queue)) == (1, 1, TOGETHER + 1)
    assert queue._later_bytes == queue._later["default"].size
    await queue.flush()
    assert (len(queue), queue._bytes, queue._later_bytes, dict(queue._held)) == (0, 0, 0, {})
    assert None not in await stored.find_many(ME, [f"r{number}" for number in range(TOGETHER + 1)])


async def test_a_noted_response_counts_that_comes_after_one_that_is_described_later(stored: StoredResponses) -> None:
    def describe(joined: WaitingResponse) -> None:
        joined.values[get_key_start(ME).finish("a", PREFIX)] = encode_record(ResponseRecord("first", ""))
        joined.number += 1

    assert stored.queue.add_later("default", 100, describe)
    note(stored, "a", "second")
    for _ in range(2):
        assert await stored.find(ME, "a") == ResponseRecord("second", "a")
        await stored.queue.flush()


@pytest.mark.parametrize("looks", [True, False])
async def test_of_a_noted_and_another_response_the_later_one_counts(stored: StoredResponses, looks: bool) -> None:
    """Whether or not somebody has looked for one meanwhile."""
    note(stored, "a", "first")
    note(stored, "b", "first")
    for identity in "ac":
        assert await stored.keep(ME, identity, ResponseRecord("second", ""))
        if looks:
            assert await stored.find(ME, "a") == ResponseRecord("second", "")
    note(stored, "c", "third")
    note(stored, "d", "third")
    for _ in range(2):
        found = await stored.find_many(ME, "abcd")
        assert [one and one.model for one in found] == ["second", "first", "third", "third"]
        await stored.queue.flush()
    assert (len(stored.queue), stored.queue._bytes, dict(stored.queue._held)) == (0, 0, {})


async def test_one_that_is_replaced_while_it_is_written_stays(stored: StoredResponses, store: FallibleStore) -> None:
    append_many = store.append_many

    async def look_meanwhile(values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        store.append_many = append_many  # type: ignore[method-assign]
        note(stored, "a", "second")
        assert await stored.find(ME, "a") == ResponseRecord("second", "a")
        await append_many(values, ttl, shared)

    store.append_many = look_meanwhile  # type: ignore[method-assign]
    note(stored, "a", "first")
    await stored.queue.flush()
    assert (await stored.find(ME, "a"), len(stored.queue)) == (ResponseRecord("second", "a"), 1)
    await stored.queue.flush()
    assert (await stored.find(ME, "a"), len(stored.queue)) == (ResponseRecord("second", "a"), 0)
    assert (stored.queue._bytes, stored.queue._values, stored.queue._sharing) == (0, {}, {})


def test_what_waits_of_many_workspaces_is_found_in_linear_time() -> None:
    def find(workspaces: int) -> None:
        stored = StoredResponses(MemoryEphemeralStore())
        for number in range(workspaces):
            note(stored, "r", owner=ConversationOwner(f"w{number}", "key"))
        stored.queue.settle()
        assert len(stored.queue._sharing) == workspaces
        stored.queue.find(["x"])

    assert not measure_growth(find, int, 1000).is_steep


async def test_what_is_shared_counts_once(store: FallibleStore) -> None:
    stored = StoredResponses(store, 3600.0, lambda _: 10_000)
    assert await stored.quota.add("default", 0)
    for number in range(9):
        note(stored, f"r{number}")
    stored.queue.settle()
    record = len(encode_record(ResponseRecord("m", SAME_ID)))
    assert await stored.count_bytes("default") == record + 9 * len("r0" + "msg_r0" + "msg_m")


async def test_one_that_nobody_could_continue_is_dropped(queue: ResponseQueue) -> None:
    assert queue.add_later("w", 100, lambda _: None)
    await queue.flush()
    assert len(queue) == 0


async def test_one_that_cannot_be_described_does_not_keep_the_others(
    queue: ResponseQueue, store: FallibleStore
) -> None:
    def fail(joined: WaitingResponse) -> None:
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
    queue._later["w"].since = monotonic() - 2 * LATE_SECONDS
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
    assert made == ["a", "b"]


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

    async def add_meanwhile(values: Mapping[str, bytes], ttl: float, shared: Sequence[CommonValue] = ()) -> None:
        store.append_many = append_many  # type: ignore[method-assign]
        assert queue.add_now(now("b", 2))
        assert queue.add_later("w", 100, later("c"))
        await append_many(values, ttl, shared)

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
