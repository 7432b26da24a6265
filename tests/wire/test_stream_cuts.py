"""Recorded streams cut anywhere: nothing is truncated in silence and no stop is invented.

The gateway's part runs in-process with a reply that is cut; an oracle that knows only the bytes says what has to come
out. Some cuts are made again on real sockets. Mutants show that the oracle can fail.
`--hypothesis-profile=long` cuts at every byte.
"""

import re
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from msgspec import Raw

from gateway.conversation import conversation
from gateway.conversation.conversation import Conversation
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.chat.stream import ChatStreamView
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import LoopPlan
from gateway.domain.chat import OutgoingBody
from gateway.domain.exchange import Exchange, Reply
from gateway.errors import UpstreamTruncated
from tests.support import cut_streams
from tests.support.cut_places import list_cuts
from tests.support.cut_streams import CutReply, End, Run, Way
from tests.support.gateway import STYLE, WEATHER, Client, ClientReply
from tests.support.upstream import Answer, Upstream, mixed, reply, say, tool_call

GET = "get_context_resource"
OWN = tool_call(GET, "own_1", resource_id=STYLE)
OSLO, ROME = tool_call("get_weather", "oslo", city="Oslo"), tool_call("get_weather", "rome", city="Røm")
OWN_TURN = mixed(OWN, text="Hm.")


NO_RULE = re.compile(rb'"(created":\d+|object":"chat.completion.chunk"|logprobs":null),')


def recorded(answer: Answer, pieces: int = 24) -> bytes:
    """The bytes of a stream, without what no rule depends on: every byte is a cut."""
    answer, asked = answer.but(pieces=pieces), {"stream": True, "stream_options": {"include_usage": True}}
    return NO_RULE.sub(b"", b"".join(piece for piece in answer.respond(asked, 1).pieces if isinstance(piece, bytes)))


STREAMS = {
    "plain": recorded(say("Plain text."), pieces=6),
    "multi-byte": recorded(say("Ünïcödé – 日本語 🎉\u2028 end", reasoning_content="Größe")),
    "CRLF": recorded(say("Plain, é.").but(newline=b"\r\n")),
    "client calls": recorded(mixed(OSLO, ROME, text="Hm."), pieces=15),
    "mixed": recorded(mixed(OWN, OSLO, text="Hm."), pieces=15),
    "own call": recorded(OWN_TURN, pieces=15),
    "comments": b": hello\n\n" + recorded(say("Text.")).replace(b"data:", b": x\nevent: message\ndata:", 2),
}


async def relay(conversation: Conversation) -> Reply:
    return await conversation.relay(b"{}", CHAT.decode(b'{"messages":[]}'), OutgoingBody({}, [], True))


async def loop(conversation: Conversation) -> Reply:
    plan = LoopPlan(CHAT, {"stream": True}, [], (Raw(b"{}"),), frozenset({GET}), (Raw(b"{}"),), forces_usage=True)
    return await conversation.stream(StreamLoop(plan))


async def run(way: Way, replies: list[CutReply]) -> Run:
    return await cut_streams.run(way, replies, CHAT, "chat")


@dataclass(frozen=True)
class Facts:
    """What the bytes of a cut stream say, found without the gateway's code."""

    finished: bool  # a whole event with a finish_reason came
    done: bool  # [DONE] came with the blank line that ends it
    done_text: bool  # [DONE] came, perhaps without it
    whole: bytes  # the complete events

    @classmethod
    def of(cls, data: bytes) -> "Facts":
        end = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3) if b"\n\n" in data or b"\n\r\n" in data else 0
        whole = data[:end]
        return cls(b'"finish_reason":"' in whole, b"data: [DONE]" in whole, b"data: [DONE]" in data, whole)

    def complete(self, end: End) -> bool:
        return self.done or (end == "close" and (self.finished or self.done_text))


@dataclass(frozen=True)
class Whole:
    """What a client gets of the stream when nothing is cut."""

    text: str
    tool_calls: list[Any]
    finish_reasons: list[str]
    kept: int

    @classmethod
    def of(cls, run: Run) -> "Whole":
        seen = answered(run.raw)
        assert seen.done
        return cls(seen.text, seen.tool_calls, seen.finish_reasons, run.kept)


def judge(got: Run, whole: Whole, facts: Facts, end: End) -> None:
    """What must hold of any cut."""
    seen = answered(got.raw)
    if facts.complete(end):
        assert not got.refused
        assert seen.errors == []
        assert seen.payloads.count(b"[DONE]") == 1
        assert seen.done
        assert Whole.of(got) == whole
        return
    assert b"[DONE]" not in got.raw, "an end was invented"
    assert len(seen.errors) == (0 if got.refused else 1), "it broke off in silence, or complained twice"
    assert got.refused or "error" in seen.events[-1]
    assert len(seen.finish_reasons) <= int(facts.finished), "a finish was invented"
    assert whole.text.startswith(seen.text)
    assert got.kept == 0


def answered(raw: bytes) -> ClientReply:
    return ClientReply(200, {"content-type": "text/event-stream"}, raw)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


async def cut_everywhere(way: Way, stream: bytes, before: tuple[bytes, ...] = (), after: tuple[bytes, ...] = ()) -> int:
    """Judge every cut of `stream`; earlier and later turns are whole. Returns how many cuts there were."""

    def replies(data: bytes, end: End, size: int) -> list[CutReply]:
        ahead = [CutReply([one], "close") for one in before]
        complete = Facts.of(data).complete(end)
        return [*ahead, CutReply(cut(data, size), end), *(CutReply([one], "close") for one in after if complete)]

    whole = Whole.of(await run(way, replies(stream, "close", 4096)))
    ends: tuple[End, ...] = ("close", "reset")
    cuts = list_cuts(stream)
    for number, at in enumerate(cuts):
        for end in ends:
            data = stream[:at]
            got = await run(way, replies(data, end, 4096 if number % 2 else 300 + at % 61))
            judge(got, whole, Facts.of(data), end)
    return len(cuts)


@pytest.mark.parametrize("name", STREAMS)
async def test_a_relayed_stream_cut_anywhere_is_complete_or_an_error(name: str):
    assert await cut_everywhere(relay, STREAMS[name]) > 100


@pytest.mark.parametrize("name", [name for name in STREAMS if name != "own call"])
async def test_a_looped_stream_cut_anywhere_is_complete_or_an_error(name: str):
    assert await cut_everywhere(loop, STREAMS[name]) > 100


async def test_an_own_turn_cut_anywhere_is_complete_or_an_error():
    assert await cut_everywhere(loop, STREAMS["own call"], after=(STREAMS["plain"],)) > 100


@pytest.mark.parametrize("name", ["multi-byte", "mixed"])
async def test_a_second_turn_cut_anywhere_is_complete_or_an_error(name: str):
    assert await cut_everywhere(loop, STREAMS[name], before=(recorded(OWN_TURN, pieces=99),)) > 100


@pytest.mark.parametrize("name", STREAMS)
async def test_a_relay_passes_whole_events_byte_for_byte(name: str):
    stream = STREAMS[name]
    for at in list_cuts(stream)[1:]:
        facts = Facts.of(stream[:at])
        got = await run(relay, [CutReply(cut(stream[:at], 17), "close")])
        extra = got.raw.removeprefix(facts.whole)
        assert len(extra) + len(facts.whole) == len(got.raw), "other bytes than the upstream's"
        assert answered(extra).payloads in ([], [b"[DONE]"]) or answered(extra).errors


async def inventing_relay(
    reply: Any, first: bytes, view: Any, exchange: Exchange, after_error: float, client: Any
) -> None:
    """A mutant: ends whatever broke off as if it had been said."""
    await quiet_relay(reply, first, view, exchange, after_error, client)
    client.write(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')


async def quiet_relay(reply: Any, first: bytes, view: Any, _: Exchange, __: float, client: Any) -> None:
    """A mutant: a broken stream just ends."""
    chunk = first
    try:
        while chunk:
            client.write(chunk)
            chunk = await reply.read()
    except UpstreamTruncated:
        pass
    finally:
        await reply.close()


@pytest.mark.parametrize("mutant", [inventing_relay, quiet_relay])
async def test_a_relay_that_invents_or_hides_an_end_is_caught(monkeypatch: pytest.MonkeyPatch, mutant: Any):
    monkeypatch.setattr(conversation, "relay_events", mutant)
    with pytest.raises(AssertionError):
        await cut_everywhere(relay, STREAMS["plain"])


async def test_a_loop_that_invents_a_stop_is_caught(monkeypatch: pytest.MonkeyPatch):
    honest = ChatStreamView.end_turn

    def inventing(self: ChatStreamView, tail: bytes) -> Any:
        self._now.finish_reason = self._now.finish_reason or "stop"
        return honest(self, tail)

    monkeypatch.setattr(ChatStreamView, "end_turn", inventing)
    with pytest.raises(AssertionError, match="an end was invented"):
        await cut_everywhere(loop, STREAMS["plain"])


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("agent", ["bare", "editor"])
@pytest.mark.parametrize("name", ["plain", "CRLF", "multi-byte", "mixed"])
async def test_cuts_on_the_wire(gateway: Client, upstream: Upstream, name: str, agent: str, end: End):
    stream = STREAMS[name]
    whole = Whole.of(Run(await wire(gateway, upstream, agent, stream, "close"), False, 0))
    finish = stream.index(b'"finish_reason":"')
    offsets = {
        1,
        40,
        finish,
        stream.index(b"\n", finish) + 1,
        len(stream) - 30,
        *range(len(stream) - 4, len(stream) + 1),
    }
    for at in sorted(offsets | set(range(0, len(stream), len(stream) // 6))):
        raw = await wire(gateway, upstream, agent, stream[:at], end)
        refused = raw.startswith(b'{"error"')
        judge(Run(b"" if refused else raw, refused, 0), whole, Facts.of(stream[:at]), end)


async def wire(gateway: Client, upstream: Upstream, agent: str, data: bytes, end: End) -> bytes:
    upstream.will(reply(data, "text/event-stream", end=end))
    got = await gateway.chat(agent=agent, stream=True, tools=[WEATHER])
    assert not got.broken, "the client's connection ends in order"
    assert got.status == (502 if got.raw.startswith(b'{"error"') else 200)
    return got.raw


def test_the_oracle_reads_a_recorded_stream():
    stream = STREAMS["CRLF"]
    assert Facts.of(stream).done
    assert not Facts.of(stream[:-1]).done
    assert Facts.of(stream[:-1]).done_text
    assert orjson.loads(answered(stream).payloads[0])["choices"][0]["delta"]["role"] == "assistant"
