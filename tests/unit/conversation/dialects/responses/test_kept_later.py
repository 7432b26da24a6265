"""What waits for its batch without its request is kept as if it were described at once."""

import sys
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.conversation.dialects.responses.keeping import ResponseKeeper
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.reply_loop import ReplyLoop
from gateway.conversation.response_record import ResponseRecord
from gateway.conversation.stored_responses import StoredResponses
from gateway.conversation.turn import LoopPlan
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.exchange import ClientWriter, Reply
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from tests.support.client_requests import ListWriter
from tests.support.kept_replies import keep_reply, make_exchange

ME = ConversationOwner("w", "me")
GET = "get_context_resource"
odd: Any = st.sampled_from([None, 1, "x", "é\n", [], {}])
items = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "function_call", "code_interpreter_call"])},
    optional={"id": st.sampled_from(["msg", "é", "", None]), "container_id": odd, "name": st.sampled_from([GET, "x"])},
)
responses = st.fixed_dictionaries(
    {"output": st.lists(items, max_size=3)},
    optional={
        "id": st.one_of(st.sampled_from(["r", "é", '"']), odd),
        "status": st.sampled_from(["completed", "incomplete", "failed"]),
    },
)
requests = st.fixed_dictionaries(
    {"input": st.sampled_from(["Hi", [{"role": "user", "content": "é"}, {"role": "user", "content": "x"}]])},
    optional={"instructions": st.text(max_size=5), "tools": odd, "tool_choice": odd, "metadata": odd},
)


def make_keeper(asked: ChatRequest, changes: str) -> ResponseKeeper:
    """One of a request that is relayed, got context, or whose items are others."""
    sent = [Raw(b'{"role":"developer","content":"Ours"}')] if changes == "items" else list(asked.messages)
    outgoing = OutgoingBody({}, sent, changes == "none")
    stored = StoredResponses(MemoryEphemeralStore())
    return ResponseKeeper(stored, ME, asked, asked, outgoing, "m\té", True, make_exchange())


def open_loop(body: bytes) -> ReplyLoop:
    """A loop that took this reply, calls of ours among it or not."""
    loop = ReplyLoop(LoopPlan(RESPONSES, {}, [], (Raw(b"{}"),), frozenset({GET})))
    loop.build_request()
    loop.take(body)
    return loop


class KeptResponse(NamedTuple):
    """What is known of a response once it is kept."""

    record: ResponseRecord | None
    items: dict[str, Raw | None]
    number: int
    degraded: set[str]


async def keep(keeper: ResponseKeeper, body: bytes, streams: bool, loop: ReplyLoop | None) -> KeptResponse:
    if streams:
        event = b'event: response.completed\ndata: {"type":"response.completed","response":%b}\n\n' % body

        async def stream(writer: ClientWriter) -> None:
            writer.end(b": working\n\n" + event)

        reply = await keep_reply(keeper, Reply(200, {}, stream=stream), loop)
        assert reply.stream is not None
        await reply.stream(ListWriter())
    else:
        await keep_reply(keeper, Reply(200, {}, body), loop)
    stored, told = keeper.stored, orjson.loads(body)
    number, identity = len(stored.queue), told.get("id")
    named = [item[name] for item in told["output"] for name in ("id", "container_id") if name in item]
    names = [name for name in named if isinstance(name, str)]
    record = (await stored.find_many(ME, [identity]))[0] if isinstance(identity, str) else None
    items = (await stored.find_items(ME, names)) if record is not None else {}
    return KeptResponse(record, items, number, keeper.exchange.degraded)


@given(requests, responses, st.sampled_from(["none", "context", "items"]), st.booleans(), st.booleans())
async def test_it_is_kept_as_if_it_were_described_at_once(
    asked: dict[str, Any], told: dict[str, Any], changes: str, streams: bool, has_loop: bool
) -> None:
    request, body = RESPONSES.decode(orjson.dumps({"model": "m", **asked})), orjson.dumps(told)
    loop = open_loop(body) if has_loop else None
    later, now = make_keeper(request, changes), make_keeper(request, changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(now.stored.queue, "reserve", lambda *_, **__: None)
        expected = await keep(now, body, streams, loop)
    assert await keep(later, body, streams, loop) == expected


async def test_a_response_is_continued_under_the_id_that_its_upstream_told_last() -> None:
    body = b'{"id":"%b","status":"completed","output":[]}'
    keeper = make_keeper(RESPONSES.decode(b'{"model":"m","input":"x"}'), "context")
    await keep_reply(keeper, Reply(200, {}, body % b"first"), open_loop(body % b"last"))
    record = await keeper.stored.find(ME, "first")
    assert record is not None
    assert record.native == "last"


async def test_a_response_that_waits_does_not_hold_its_request() -> None:
    body = orjson.dumps({"model": "m", "instructions": "Be kind.", "input": "Hi"})
    held = sys.getrefcount(body)
    keeper = make_keeper(RESPONSES.decode(body), "context")
    queue = keeper.stored.queue
    await keep_reply(keeper, Reply(200, {}, b'{"id":"r","status":"completed","output":[]}'))
    del keeper
    assert len(queue._later) == 1
    assert sys.getrefcount(body) == held
    queue.settle()
    [one] = queue._waiting.values()
    assert b'{"instructions":"Be kind."}' in one.shared[0].value


async def find_spare(keeper: ResponseKeeper, body: bytes) -> int:
    """By how much what is promised for a response that is described later exceeds what it weighs."""
    queue = keeper.stored.queue
    await keep_reply(keeper, Reply(200, {}, body))
    [later] = queue._later.values()
    assert (later.number, later.size) == (1, queue._later_bytes)
    queue.settle()
    assert (len(queue), queue._later_bytes) == (1, 0)
    return later.size - queue._bytes


@pytest.mark.parametrize("native", [True, False], ids=["kept by the upstream", "kept here"])
@pytest.mark.parametrize("container", [b"", b',"container_id":"c%d"', b',"environment":{"container_id":"c%d"}'])
@pytest.mark.parametrize("count", [0, 1, 5, 30, 250])
async def test_no_response_weighs_more_than_was_promised(native: bool, container: bytes, count: int) -> None:
    item = b'{"type":"","id":"%d"' if not native else b'{"id":"%d"'
    named = b",".join(item % at + (container % at if container else b"") + b"}" for at in range(count))
    keeper = make_keeper(RESPONSES.decode(b'{"model":"m","input":"x"}'), "none")
    keeper.native = native
    assert await find_spare(keeper, b'{"id":"r","status":"completed","output":[%b]}' % named) >= 0


async def test_items_that_a_request_refers_to_count_too() -> None:
    """They stand in place of their references, as `resolve_references` puts them."""
    asked = RESPONSES.decode(b'{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]}')
    whole = Raw(b'{"type":"message","role":"assistant","content":"%b"}' % (b"x" * 100_000))
    keeper = make_keeper(replace(asked, messages=[whole], replaced={}), "none")
    keeper.native = False
    assert await find_spare(keeper, b'{"id":"r","status":"completed","output":[]}') >= 0
