"""What one workspace keeps in a memory store does not displace what others need."""

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_record import ResponseRecord
from gateway.conversation.stored_responses import StoredResponses
from gateway.stores.memory_ephemeral import MemoryEphemeralStore


async def test_the_group_that_holds_the_most_gives_something_up_first() -> None:
    store = MemoryEphemeralStore(max_bytes=20_000)
    await store.put("sign-in", b"x" * 100, 10)
    await store.put("ours/1", b"x" * 1000, 10)
    for number in range(50):
        await store.put(f"theirs/{number}", b"x" * 1000, 1000)
    kept = await store.get_many(["sign-in", "ours/1", "theirs/0", "theirs/49"])
    assert list(kept) == ["sign-in", "ours/1", "theirs/49"]


async def test_what_never_expires_is_never_dropped_whatever_its_key() -> None:
    store = MemoryEphemeralStore(max_bytes=20_000)
    await store.put("link:http://a/b", b"x" * 5000)
    for number in range(50):
        await store.put(f"theirs/{number}", b"x" * 1000, 1000)
    assert "link:http://a/b" in await store.get_many(["link:http://a/b"])


async def test_without_groups_what_expires_first_is_dropped_first() -> None:
    store = MemoryEphemeralStore(max_bytes=3000)
    for number, ttl in enumerate((30, 10, 20)):
        await store.put(f"{number}", b"x" * 1000, ttl)
    assert list(await store.get_many(["0", "1", "2"])) == ["0", "2"]


async def test_a_workspace_keeps_no_more_responses_than_its_quota() -> None:
    now = [1000.0]
    stored = StoredResponses(
        MemoryEphemeralStore(clock=lambda: now[0]), 2400.0, {"a": 900, "b": 900}.__getitem__, lambda: now[0]
    )
    record = ResponseRecord("m" * 380, "")
    ours, theirs = ConversationOwner("a", "key"), ConversationOwner("b", "key")
    assert [await stored.keep(ours, f"r{number}", record) for number in range(4)] == [True, True, False, False]
    assert await stored.keep(theirs, "r0", record)
    assert 700 < await stored.count_bytes("a") <= 900
    await stored.queue.flush()
    now[0] += 2600.0  # they have expired
    assert (await stored.count_bytes("a"), await stored.find(ours, "r0")) == (0, None)
    assert await stored.keep(ours, "r9", record)
