"""Streams of responses cut at every byte: nothing is truncated in silence, and no end is invented."""

from typing import Any

import orjson
import pytest
from msgspec import Raw

from gateway.conversation.conversation import Conversation
from gateway.conversation.dialects.responses.dialect import RESPONSES as DIALECT
from gateway.conversation.dialects.responses.stream import ResponsesStreamView
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import FunctionCall, LoopPlan
from gateway.domain.chat import OutgoingBody
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.domain.tool_result import ToolResult
from gateway.domain.upstream import UpstreamAnswer, UpstreamReply
from gateway.errors import GatewayError, UpstreamTruncated
from tests.support.client_requests import ListWriter
from tests.support.responses_answers import respond_with_response
from tests.support.spoken import RESPONSES, Understood
from tests.support.upstream import Answer, mixed, say, tool_call

GET = "get_context_resource"
OWN, OSLO = tool_call(GET, "own", resource_id="x"), tool_call("get_weather", "oslo", city="Røm")
TEXT = say("Ünï 日本 🎉\u2028.", reasoning_content="Größe")


def record(answer: Answer, number: int = 1) -> bytes:
    pieces = respond_with_response(answer.but(pieces=9), {"stream": True, "model": "m"}, number).pieces
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


STREAMS = {
    "text": [record(TEXT)],
    "crlf": [record(say("é").but(newline=b"\r\n"))],
    "client call": [record(mixed(OSLO, text="Hm."))],
    "mixed": [record(mixed(OWN, OSLO, text="Hm."))],
    "own call": [record(mixed(OWN, text="Hm.")), record(say("Done."), 2)],
}


class CutReply(UpstreamReply):
    """A stream that ends where it was cut."""

    status = 200

    def __init__(self, data: bytes, broken: bool, size: int) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._pieces = [data[at : at + size] for at in range(0, len(data), size)]
        self._broken = broken

    async def read(self) -> bytes:
        if self._pieces:
            return self._pieces.pop(0)
        if self._broken:
            raise UpstreamTruncated("broken")
        return b""

    async def read_all(self) -> bytes:
        raise AssertionError("a stream is never read whole")

    async def close(self) -> None: ...


class AnyUpstream:
    name, passes_bearer = "any", False


async def run(replies: list[CutReply], relayed: bool) -> bytes | None:
    """What the client gets; None: an error before anything else."""

    async def send(body: bytes, first: bool) -> Any:
        return UpstreamAnswer(AnyUpstream(), replies.pop(0))  # type: ignore[arg-type]

    async def keep(hidden: Any) -> None: ...

    async def run_tool(call: FunctionCall) -> ToolResult:
        return ToolResult("result")

    conversation = Conversation(Exchange("x", ANONYMOUS, EMPTY_SNAPSHOT, ()), DIALECT, send, run_tool, keep)
    client = ListWriter()
    try:
        if relayed:
            request = DIALECT.decode(b'{"input":"x"}')
            answer = await conversation.relay(b"{}", request, OutgoingBody({}, [], False))
        else:
            plan = LoopPlan(DIALECT, {"stream": True}, [], (Raw(b"{}"),), frozenset({GET}), (Raw(b"{}"),))
            answer = await conversation.stream(StreamLoop(plan))
    except GatewayError:
        return None
    assert answer.stream is not None
    assert answer.render_failure is not None
    try:
        await answer.stream(client)
    except GatewayError as error:  # as the edge does
        client.write(answer.render_failure(error))
    return client.data


async def cut_everywhere(name: str, relayed: bool, step: int) -> None:
    streams = STREAMS[name][:1] if relayed else STREAMS[name]
    whole = understand(await run([CutReply(one, False, 10_000) for one in streams], relayed))
    assert whole.complete
    last = streams[-1]
    for at in {*range(0, len(last), step), *range(len(last) - 200, len(last))}:
        replies = [CutReply(one, False, 7_000) for one in streams[:-1]]
        told = await run([*replies, CutReply(last[:at], at % 2 == 0, 900)], relayed)
        if told is not None:
            check(understand(told), whole, name, at)


def understand(told: bytes | None) -> Understood:
    return RESPONSES.read_stream(told or b"")


def check(known: Understood, whole: Understood, name: str, at: int) -> None:
    assert not known.complete, f"{name} cut at {at}: an end was invented"
    assert len(known.errors) == 1, f"{name} cut at {at}: nothing was said"
    assert known.errors[0]["error"]["code"] == known.errors[0]["code"]


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("relayed", [False, True], ids=["loop", "relay"])
async def test_no_stream_is_truncated_in_silence(name: str, relayed: bool) -> None:
    await cut_everywhere(name, relayed, step=9 if relayed else 7)


async def test_an_invented_end_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = ResponsesStreamView.end_turn

    def inventing(self: ResponsesStreamView, tail: bytes) -> Any:
        if not self.done:
            self.done, self._end = True, {"type": Raw(b'"response.completed"'), "sequence_number": Raw(b"0")}
            self._response = {**(self._first or {}), "status": Raw(b'"completed"')}
        return honest(self, tail)

    monkeypatch.setattr(ResponsesStreamView, "end_turn", inventing)
    with pytest.raises(AssertionError):
        await cut_everywhere("client call", relayed=False, step=50)


async def test_a_late_error_has_the_next_number() -> None:
    first = record(say("Hi"))
    told = await run([CutReply(first[: first.index(b"event: response.output_text.done")], True, 50)], False)
    events = [orjson.loads(line[6:]) for line in (told or b"").split(b"\n") if line.startswith(b"data: ")]
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    assert events[-1]["type"] == "error"
