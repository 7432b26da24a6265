"""Continuing and keeping responses where the gateway itself keeps them."""

import asyncio
import hashlib
from typing import Any

import msgspec
import orjson
import pytest
from msgspec import Raw

from gateway.conversation.dialects.responses import continuation, keeping
from gateway.conversation.dialects.responses.continuation import resume
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.dialects.responses.keeping import ResponseKeeper
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_quota import hash_name
from gateway.conversation.response_record import ResponseRecord, encode_record
from gateway.conversation.stored_responses import MAX_RESPONSE_BYTES, StoredResponses
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.exchange import ClientWriter, Reply
from gateway.domain.upstream import Capabilities
from gateway.errors import InvalidRequest, PreviousResponseNotFound, StoreError, StoreUnavailable
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from tests.support.client_requests import ListWriter
from tests.support.kept_replies import keep_reply, make_exchange

ME, OTHER = ConversationOwner("w", "me"), ConversationOwner("w", "other")


class ChatUpstream:
    name, passes_bearer, capabilities = "chat", False, Capabilities()


class NativeUpstream(ChatUpstream):
    capabilities = Capabilities(dialects=frozenset({"chat", "responses"}))


CHAT_ONLY: Any = (ChatUpstream(),)
NATIVE: Any = (NativeUpstream(),)


def ask(text: str, **fields: Any) -> ChatRequest:
    return RESPONSES.decode(orjson.dumps({"model": "m", "input": text, **fields}))


def answer(identity: str, text: str, **fields: Any) -> bytes:
    message = {"id": "msg", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return orjson.dumps({"id": identity, "status": "completed", "output": [message], **fields})


def make_keeper(stored: StoredResponses, asked: ChatRequest, request: ChatRequest | None = None) -> ResponseKeeper:
    return ResponseKeeper(stored, ME, asked, request or asked, OutgoingBody({}, [], False), "m", False, make_exchange())


def read_texts(request: ChatRequest) -> list[str]:
    items = [orjson.loads(bytes(item)) for item in request.messages]
    return [one["content"] if isinstance(one["content"], str) else one["content"][0]["text"] for one in items]


@pytest.fixture
def stored() -> StoredResponses:
    return StoredResponses(MemoryEphemeralStore())


async def test_a_chain_of_responses_is_one_conversation(stored: StoredResponses) -> None:
    asked = request = ask("one")
    for number, text in ((1, "two"), (2, "three")):
        await keep_reply(make_keeper(stored, asked, request), Reply(200, {}, answer(f"r{number}", f"answer {number}")))
        asked = ask(text, previous_response_id=f"r{number}")
        request = await resume(stored, ME, asked, CHAT_ONLY)
    assert read_texts(request) == ["one", "answer 1", "two", "answer 2", "three"]
    assert request.replaced == {"previous_response_id": None}


async def test_nobody_continues_what_is_another_s_or_deleted(stored: StoredResponses) -> None:
    await keep_reply(make_keeper(stored, ask("one")), Reply(200, {}, answer("r1", "a")))
    with pytest.raises(PreviousResponseNotFound):
        await resume(stored, OTHER, ask("x", previous_response_id="r1"), CHAT_ONLY)
    asked = ask("two", previous_response_id="r1")
    later = make_keeper(stored, asked, await resume(stored, ME, asked, CHAT_ONLY))
    await keep_reply(later, Reply(200, {}, answer("r2", "b")))
    await stored.delete(ME, "r1")
    for gone in ("r1", "r2"):
        with pytest.raises(PreviousResponseNotFound):
            await resume(stored, ME, ask("x", previous_response_id=gone), CHAT_ONLY)


async def test_only_a_response_that_begins_a_conversation_is_described_later(stored: StoredResponses) -> None:
    await keep_reply(make_keeper(stored, ask("one")), Reply(200, {}, answer("r1", "a")))
    assert (len(stored.queue), len(stored.queue._waiting)) == (1, 0)
    asked = ask("two", previous_response_id="r1")
    request = await resume(stored, ME, asked, CHAT_ONLY)
    await keep_reply(make_keeper(stored, asked, request), Reply(200, {}, answer("r2", "b")))
    assert (len(stored.queue), len(stored.queue._waiting)) == (2, 2)


@pytest.mark.parametrize("native", [True, False])
async def test_a_record_is_never_larger_than_what_was_foreseen(
    native: bool, stored: StoredResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreseen: list[int] = []
    monkeypatch.setattr(stored.queue, "reserve", lambda workspace, size, **_: foreseen.append(size))
    for text in ("", "é🧭" * 2000):
        for unchanged in (True, False):
            keeper = make_keeper(stored, ask(text, instructions=text, tools=[]))
            keeper.native, keeper.outgoing.unchanged = native, unchanged
            await keep_reply(keeper, Reply(200, {}, answer("r" + text[:500], text)))
    kept = [waiting.counted for waiting in stored.queue._waiting.values()]
    assert len(foreseen) == 4
    assert max(kept) <= foreseen[-1]
    assert min(kept) <= min(foreseen)


async def test_what_another_upstream_keeps_cannot_be_continued_here(stored: StoredResponses) -> None:
    keeper = make_keeper(stored, ask("one"))
    keeper.native = True
    await keep_reply(keeper, Reply(200, {}, answer("r1", "a")))
    with pytest.raises(InvalidRequest, match="another upstream"):
        await resume(stored, ME, ask("x", previous_response_id="r1"), CHAT_ONLY)
    resumed = await resume(stored, ME, ask("x", previous_response_id="r1"), NATIVE)
    assert resumed.replaced is not None
    assert bytes(resumed.replaced["previous_response_id"] or b"") == b'"r1"'


@pytest.mark.parametrize("body", [b"no json", b"{}", answer("r1", "a", status="failed"), answer("r1", "a", output=3)])
async def test_what_is_no_response_is_not_kept(stored: StoredResponses, body: bytes) -> None:
    keeper = make_keeper(stored, ask("one"))
    reply = await keep_reply(keeper, Reply(200, {}, body))
    assert (reply.body, await stored.find(ME, "r1"), keeper.exchange.degraded) == (body, None, set())


async def test_a_response_that_is_too_large_is_shown_and_not_kept(stored: StoredResponses) -> None:
    keeper = make_keeper(stored, ask("x" * MAX_RESPONSE_BYTES))
    await keep_reply(keeper, Reply(200, {}, answer("r1", "a")))
    assert (await stored.find(ME, "r1"), keeper.exchange.degraded) == (None, {"store"})


class BrokenStore(MemoryEphemeralStore):
    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        raise StoreError("down")

    async def get_many(self, keys: Any) -> dict[str, bytes]:
        raise StoreError("down")


async def test_a_store_that_is_down_keeps_nothing_and_continues_nothing() -> None:
    stored = StoredResponses(BrokenStore())
    assert await stored.keep(ME, "r0", ResponseRecord("m", ""))
    with pytest.raises(StoreError):
        await stored.queue.flush()
    keeper = make_keeper(stored, ask("one"))
    assert (await keep_reply(keeper, Reply(200, {}, answer("r1", "a")))).body == answer("r1", "a")
    assert keeper.exchange.degraded == {"store"}
    with pytest.raises(StoreUnavailable):
        await resume(stored, ME, ask("x", previous_response_id="r2"), CHAT_ONLY)
    with pytest.raises(StoreUnavailable):
        await stored.delete(ME, "r1")


async def test_a_stream_is_kept_before_the_client_sees_its_end(stored: StoredResponses) -> None:
    end = b'event: response.completed\ndata: {"type":"response.completed","response":' + answer("r1", "a") + b"}\n\n"
    known: list[bool] = []

    class Watching(ListWriter):
        def end(self, data: bytes) -> None:
            known.append(len(stored.queue) == 1)
            super().end(data)

    async def stream(writer: ClientWriter) -> None:
        writer.write(b"data: {}\n\n")
        writer.end(end)

    reply = await keep_reply(make_keeper(stored, ask("one")), Reply(200, {}, stream=stream))
    client = Watching()
    assert reply.stream is not None
    await reply.stream(client)
    assert client.data == b"data: {}\n\n" + end
    assert known == [True]
    assert await stored.find(ME, "r1") is not None


async def test_the_end_of_a_stream_does_not_wait_for_the_upstream_to_close(stored: StoredResponses) -> None:
    end = b'data: {"type":"response.completed","response":' + answer("r1", "a") + b"}\n\n"
    closing = asyncio.Event()

    async def stream(writer: ClientWriter) -> None:
        writer.end(b"data: {}\n\n" + end)
        await closing.wait()

    reply = await keep_reply(make_keeper(stored, ask("one")), Reply(200, {}, stream=stream))
    client = ListWriter()
    assert reply.stream is not None
    streaming = asyncio.ensure_future(reply.stream(client))
    await asyncio.sleep(0)
    assert (client.data, len(stored.queue), streaming.done()) == (b"data: {}\n\n" + end, 1, False)
    closing.set()
    await streaming


async def test_the_end_of_a_stream_waits_for_a_late_store() -> None:
    gate = asyncio.Event()

    class SlowStore(MemoryEphemeralStore):
        async def append_many(self, values: Any, ttl: float, shared: Any = ()) -> None:
            await gate.wait()
            await super().append_many(values, ttl, shared)

    stored = StoredResponses(SlowStore())
    stored.queue._late = True
    end = b'data: {"type":"response.completed","response":' + answer("r1", "a") + b"}\n\n"

    async def stream(writer: ClientWriter) -> None:
        writer.end(end)

    reply = await keep_reply(make_keeper(stored, ask("one")), Reply(200, {}, stream=stream))
    client = ListWriter()
    assert reply.stream is not None
    streaming = asyncio.ensure_future(reply.stream(client))
    await asyncio.sleep(0.01)
    assert (client.data, streaming.done()) == (b"", False)
    gate.set()
    await streaming
    assert (client.data, len(stored.queue)) == (end, 0)


async def test_a_quota_is_asked_for_once_and_then_counted_at_once() -> None:
    stored = StoredResponses(MemoryEphemeralStore(), get_quota=lambda _: 500)
    keeper = make_keeper(stored, ask("one"))
    first = stored.describe(ME, "r0", ResponseRecord("m", ""))
    assert first is not None
    assert stored.queue.add_now(first) is None  # nobody knows yet what the store has
    assert await stored.queue.add(first)
    for number in range(1, 20):
        await keep_reply(keeper, Reply(200, {}, answer(f"r{number}", "a")))
    assert keeper.exchange.degraded == {"store"}
    assert 0 < sum(one.counted for one in stored.queue._waiting.values()) <= 500


@pytest.mark.parametrize("owner", [ME, ConversationOwner("wörk", 'k"', "ü", "session")])
@pytest.mark.parametrize("identity", ["r1", 'r","x', "é\u2028", ""])
async def test_what_was_stored_under_the_keys_of_earlier_releases_is_found(
    stored: StoredResponses, owner: ConversationOwner, identity: str
) -> None:
    whose = msgspec.json.encode([owner.workspace, owner.principal, owner.user, identity])
    digest = hashlib.blake2b(whose, digest_size=20).hexdigest()
    response, item = (f"{prefix}:{hash_name(owner.workspace)}/{digest}" for prefix in ("response", "response_item"))
    record = ResponseRecord("m", "", shown=Raw(b'{"output":[{"id":"r1"}]}'))
    await stored._store.append_many({response: encode_record(record), item: response.encode()}, 60)
    assert await stored.find(owner, identity) == record
    assert set(await stored.find_items(owner, [identity])) == {identity}
    await stored.delete(owner, identity)
    assert await stored.find(owner, identity) is None
    assert await stored.find_items(owner, [identity]) == {}


async def test_an_id_of_the_upstream_s_cannot_write_json(stored: StoredResponses) -> None:
    keeper = make_keeper(stored, ask("one"))
    keeper.native = True
    await keep_reply(keeper, Reply(200, {}, answer('r","model":"x', "a")))
    resumed = await resume(stored, ME, ask("x", previous_response_id='r","model":"x'), NATIVE)
    assert resumed.replaced is not None
    assert orjson.loads(bytes(resumed.replaced["previous_response_id"] or b"")) == 'r","model":"x'


async def test_conversations_are_bounded(stored: StoredResponses, monkeypatch: pytest.MonkeyPatch) -> None:
    await keep_reply(make_keeper(stored, ask("one")), Reply(200, {}, answer("r1", "a")))
    monkeypatch.setattr(continuation, "MAX_CHAIN", 0)
    with pytest.raises(InvalidRequest, match="more than 0 responses"):
        await resume(stored, ME, ask("x", previous_response_id="r1"), CHAT_ONLY)
    monkeypatch.setattr(keeping, "MAX_CONVERSATION_BYTES", 100)
    keeper = make_keeper(stored, ask("x" * 100))
    await keep_reply(keeper, Reply(200, {}, answer("r2", "a")))
    assert (await stored.find(ME, "r2"), keeper.exchange.degraded) == (None, {"store"})


async def test_what_clients_see_again_counts_as_well(stored: StoredResponses, monkeypatch: pytest.MonkeyPatch) -> None:
    """A response repeats its instructions: whoever continues the last of many reads all of them."""
    monkeypatch.setattr(keeping, "MAX_CONVERSATION_BYTES", 5_000)
    asked, kept = ask("one"), []
    for number in range(6):
        keeper = make_keeper(stored, asked, await resume(stored, ME, asked, CHAT_ONLY))
        await keep_reply(keeper, Reply(200, {}, answer(f"r{number}", "a", instructions="x" * 1_300)))
        if await stored.find(ME, f"r{number}") is None:
            break
        kept.append(number)
        asked = ask("more", previous_response_id=f"r{number}")
    assert kept == [0, 1, 2]
    assert keeper.exchange.degraded == {"store"}


@pytest.mark.parametrize("payload", [b'{"type":"response.completed"}', b'{"type":"response.completed","response":3}'])
async def test_an_end_without_a_response_passes(stored: StoredResponses, payload: bytes) -> None:
    async def stream(writer: ClientWriter) -> None:
        writer.end(b"data: " + payload + b"\n\n")

    client = ListWriter()
    reply = await keep_reply(make_keeper(stored, ask("one")), Reply(200, {}, stream=stream))
    assert reply.stream is not None
    await reply.stream(client)
    assert client.data == b"data: " + payload + b"\n\n"
