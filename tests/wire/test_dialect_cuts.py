"""Streams of every dialect from every kind of upstream, cut anywhere: an error, or all of it.

The gateway's part runs in-process (tests/support/cut_streams.py). An oracle that knows only the upstream's bytes says
whether a cut stream is complete; the client must see exactly that. Mutants show that the suite can fail.
`--hypothesis-profile=long` cuts at every byte.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import orjson
import pytest
from msgspec import Raw

from gateway.conversation.conversation import Conversation
from gateway.conversation.dialects.messages.relay import MessagesRelayView
from gateway.conversation.dialects.messages.stream import MessagesStreamView
from gateway.conversation.dialects.registry import DIALECTS
from gateway.conversation.dialects.responses.relay import ResponsesRelayView
from gateway.conversation.dialects.responses.stream import ResponsesStreamView
from gateway.conversation.loop import REWRITTEN
from gateway.conversation.stream_loop import StreamLoop
from gateway.conversation.turn import LoopPlan
from gateway.domain.chat import OutgoingBody
from gateway.domain.dialect import DialectName
from gateway.domain.exchange import Reply
from gateway.errors import UpstreamTruncated
from gateway.upstreams.translation import translated
from gateway.upstreams.translation.chat_to_messages_stream import ChatToMessagesStream
from gateway.upstreams.translation.chat_to_responses import ChatToResponsesStream
from gateway.upstreams.translation.messages_to_chat_stream import MessagesToChatStream
from tests.support import dialect_streams, spoken
from tests.support.anthropic_upstream import respond_with_message
from tests.support.cut_places import list_cuts
from tests.support.cut_streams import CutReply, End, Run, Way, run
from tests.support.gateway import STYLE, Start
from tests.support.management_client import manage
from tests.support.responses_answers import respond_with_response
from tests.support.spoken import Entry, Understood
from tests.support.upstream import Answer, Upstream, mixed, reply, say, tool_call
from tests.wire.test_receipts import recording, wait_finished

GET = "get_context_resource"
OWN = tool_call(GET, "own_1", resource_id=STYLE)
OSLO = tool_call("get_weather", "oslo", city="Øslo")
OWN_SCHEMA = {"type": "function", "function": {"name": GET, "parameters": {"type": "object"}}}
ENDS = {"chat": b"[DONE]", "responses": b"response.completed", "messages": b"message_stop"}


@dataclass(frozen=True)
class Shape:
    """The turns of an exchange: one of them is cut, those before and behind it are whole."""

    turns: tuple[Answer, ...]
    cut: int = 0
    relayed: bool = False  # no tools of ours are registered
    structured: bool = False


TEXT = say("Plain – é.")
OWN_TURN = mixed(OWN)
SHAPES = {
    "relayed": Shape((mixed(OSLO, text="Hm.", reasoning_content="Why?"),), relayed=True),
    "text": Shape((TEXT,)),
    "own call": Shape((mixed(OWN, text="Hm."), TEXT)),
    "text after an own call": Shape((OWN_TURN, TEXT), cut=1),
    "mixed": Shape((mixed(OWN, OSLO, text="Hm."),)),
    "thoughts": Shape((say("So.", reasoning_content="Größe"),)),
    "structured": Shape((OWN_TURN, say('{"ok":true}')), cut=1, structured=True),
}
PAIRS: list[tuple[DialectName, DialectName]] = [
    ("chat", "chat"), ("chat", "messages"),
    ("responses", "responses"), ("responses", "chat"), ("responses", "messages"),
    ("messages", "messages"), ("messages", "chat"),
]  # fmt: skip


PIECE = 24  # characters of a delta
KEPT = frozenset({"id", "status", "output", "usage", "model", "type", "role", "content", "stop_reason"})


def record(answer: Answer, speaks: DialectName, number: int, piece: int = PIECE) -> bytes:
    """A turn as the bytes of an upstream's stream, without what no rule depends on: every byte is a cut."""
    asked = {"stream": True, "stream_options": {"include_usage": True}, "model": "m"}
    write = {"responses": respond_with_response, "messages": respond_with_message}.get(speaks)
    answer = answer.but(pieces=piece)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dialect_streams, "PIECE", piece)
        response = write(answer, asked, number) if write else answer.respond(asked, number)
    whole = b"".join(piece for piece in response.pieces if isinstance(piece, bytes))
    return b"".join(b"\n".join(map(shorten_line, event.split(b"\n"))) + b"\n\n" for event in whole.split(b"\n\n")[:-1])


def shorten_line(line: bytes) -> bytes:
    if not line.startswith(b"data: {"):
        return line
    event = orjson.loads(line[6:])
    for name in ("response", "message"):
        if name in event:
            event[name] = {key: value for key, value in event[name].items() if key in KEPT}
    for name in ("created", "object", "logprobs"):
        event.pop(name, None)
    for choice in event.get("choices", ()):
        del choice["logprobs"]
    return b"data: " + orjson.dumps(event)


def is_complete(data: bytes, speaks: DialectName, end: End) -> bool:
    """Whether an upstream's bytes come to their end, found without the gateway's code.

    What says why the model stopped is an end if the connection is closed in order behind it (CONTRACT §9).
    """
    whole = data[: data.rfind(b"\n\n") + 2]
    if speaks == "responses":
        return b"event: response.completed\n" in whole
    last, finish = (b"data: [DONE]", b'"finish_reason":"') if speaks == "chat" else (b"message_stop", b"message_delta")
    return last in whole or (end == "close" and finish in whole)


class CutExchange:
    """One exchange in one dialect with one kind of upstream, as often as it is cut."""

    def __init__(self, dialect: DialectName, speaks: DialectName, shape: Shape) -> None:
        self.dialect, self.speaks, self.shape = DIALECTS[dialect], speaks, shape
        self.spoken = spoken.DIALECTS[dialect] if dialect == speaks else spoken.TRANSLATED[f"{dialect} over {speaks}"]
        self.streams = [record(turn, speaks, number) for number, turn in enumerate(shape.turns, 1)]
        options = {"stream": True, "tools": ["get_weather"], "json": shape.structured}
        self._body = orjson.dumps(self.spoken.write([Entry("user", "Hi")], **options))
        self._request = self.dialect.decode(self._body)
        self._way: Way = self._relay if shape.relayed else self._loop

    async def _relay(self, conversation: Conversation) -> Reply:
        return await conversation.relay(self._body, self._request, OutgoingBody({}, [], True))

    @property
    def plan(self) -> LoopPlan:
        request = self._request
        return LoopPlan(
            self.dialect,
            {name: value for name, value in request.fields.items() if name not in REWRITTEN},
            request.messages,
            self.dialect.write_tools([Raw(orjson.dumps(OWN_SCHEMA))]),
            frozenset({GET}),
            self.dialect.read_client_tools(request).tools,
            client_fields=request.fields,
            last_text_only=self.dialect.wants_json(request),
        )

    async def _loop(self, conversation: Conversation) -> Reply:
        return await conversation.stream(StreamLoop(self.plan))

    async def hold_with(self, replies: list[CutReply]) -> Run:
        """The exchange with other replies; not all of them have to be needed."""
        return await run(self._way, replies, self.dialect, self.speaks, all_are_used=False)

    async def hold(self, at: int, end: End = "close", *, in_events: bool = False) -> Run:
        """The exchange with one stream cut at a byte."""
        cut, data = self.shape.cut, self.streams[self.shape.cut][:at]
        pieces = re.findall(rb".*?\n\n|.+$", data, re.DOTALL) if in_events else [data]
        replies = [CutReply([one], "close") for one in self.streams[:cut]]
        replies.append(CutReply(pieces, end))
        if is_complete(data, self.speaks, end):
            replies += [CutReply([one], "close") for one in self.streams[cut + 1 :]]
        return await run(self._way, replies, self.dialect, self.speaks)

    async def cut_everywhere(self) -> int:
        """Judge every cut; returns how many there were. Some are resets, the others close in order."""
        stream = self.streams[self.shape.cut]
        got = await self.hold(len(stream))
        whole = self.spoken.read_stream(got.raw)
        assert whole.complete
        judged: tuple[Run, bool] | None = None
        cuts = list_cuts(stream)
        for number, at in enumerate(cuts):
            ends: tuple[End, ...] = ("close", "reset") if number % 7 == 0 or at > len(stream) - 40 else ("close",)
            for end in ends:
                complete = is_complete(stream[:at], self.speaks, end)
                cut = await self.hold(at, end, in_events=number % 5 == 0)
                if (cut, complete) != judged:  # most cuts inside one event come to the same
                    self._judge(cut, whole, complete, got.kept)
                    judged = (cut, complete)
        return len(cuts)

    def _judge(self, got: Run, whole: Understood, complete: bool, kept: int) -> None:
        assert GET.encode() not in got.raw, "a call of ours was shown"
        if complete:
            known = self.spoken.read_stream(got.raw)
            assert (known.entries, known.complete, known.errors) == (whole.entries, True, [])
            assert (got.kept, got.error) == (kept, None)
            return
        assert got.error is UpstreamTruncated
        assert got.kept == 0
        assert ENDS[self.dialect.name] not in got.raw, "an end was invented"
        if got.refused:
            return
        known = self.spoken.read_stream(got.raw)
        assert [one["code"] for one in known.errors] == ["upstream_invalid"]
        assert b"upstream_invalid" in got.raw.rstrip().split(b"\n\n")[-1], "something follows the error"


@pytest.fixture(autouse=True)
def remembered_translations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are the same however their replies are cut; to translate them takes a good part of the time."""
    monkeypatch.setattr(translated, "translate_call", lru_cache(16)(translated.translate_call))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dialect", "speaks"), PAIRS)
async def test_a_stream_cut_anywhere_is_complete_or_an_error(dialect: DialectName, speaks: DialectName, shape: str):
    assert await CutExchange(dialect, speaks, SHAPES[shape]).cut_everywhere() > 100


def end_response_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: whatever breaks off is a response that is complete."""
    honest = ResponsesStreamView.end_turn

    def end_turn(self: ResponsesStreamView, tail: bytes) -> Any:
        if not self.done:
            ended = {"type": Raw(b'"response.completed"'), "response": Raw(b'{"id":"resp_1","status":"completed"}')}
            self._take_end("response.completed", ended, b"")
        return honest(self, tail)

    monkeypatch.setattr(ResponsesStreamView, "end_turn", end_turn)


def end_message_early(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = MessagesStreamView.end_turn

    def end_turn(self: MessagesStreamView, tail: bytes) -> Any:
        self._now.done = True
        return honest(self, tail)

    monkeypatch.setattr(MessagesStreamView, "end_turn", end_turn)


def end_relay_early(monkeypatch: pytest.MonkeyPatch) -> None:
    for view, end in ((ResponsesRelayView, b"response.completed"), (MessagesRelayView, b"message_stop")):
        monkeypatch.setattr(view, "end", lambda self, end=end: b"event: %b\ndata: {}\n\n" % end)


def end_translation_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChatToMessagesStream, "end", ChatToMessagesStream._end_message)
    monkeypatch.setattr(ChatToResponsesStream, "end", ChatToResponsesStream._end_response)
    monkeypatch.setattr(MessagesToChatStream, "end", MessagesToChatStream._stop_message)


def hide_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for view in (MessagesStreamView, MessagesRelayView, ResponsesStreamView, ResponsesRelayView):
        monkeypatch.setattr(view, "render_error", lambda self, error: b"")


@pytest.mark.parametrize(
    ("dialect", "speaks", "shape", "mutate"),
    [
        ("responses", "responses", "text", end_response_early),
        ("messages", "messages", "text", end_message_early),
        ("responses", "responses", "relayed", end_relay_early),
        ("messages", "messages", "relayed", end_relay_early),
        ("chat", "messages", "relayed", end_translation_early),
        ("responses", "chat", "text", end_translation_early),
        ("messages", "chat", "text", end_translation_early),
        ("messages", "messages", "text", hide_the_error),
        ("responses", "responses", "relayed", hide_the_error),
    ],
)
async def test_a_dialect_that_invents_an_end_or_hides_an_error_is_caught(
    monkeypatch: pytest.MonkeyPatch, dialect: DialectName, speaks: DialectName, shape: str, mutate: Any
):
    exchange = CutExchange(dialect, speaks, SHAPES[shape])
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        await exchange.cut_everywhere()


async def test_a_comment_before_the_cut_does_not_reset_the_numbers():
    """Pings of another dialect become comments, which have no numbers."""
    exchange = CutExchange("responses", "messages", SHAPES["relayed"])
    ping, finish = b'event: ping\ndata: {"type":"ping"}\n\n', b"event: message_delta"
    stream = exchange.streams[0].replace(finish, ping + finish)
    exchange.streams[0] = stream
    got = await exchange.hold(stream.index(finish), in_events=True)
    assert exchange.spoken.read_stream(got.raw).errors  # it checks the numbers


ADMIN = "an admin's key"
KEYS = [{"name": "admin", "sha256": sha256(ADMIN.encode()).hexdigest(), "role": "admin"}]
ACCOUNTS: dict[DialectName, dict[str, Any]] = {
    "chat": {},
    "responses": {"responses": True},
    "messages": {"kind": "anthropic"},
}


@pytest.mark.parametrize(("dialect", "speaks"), PAIRS)
async def test_receipts_of_cut_streams_say_so(
    start: Start, upstream: Upstream, dialect: DialectName, speaks: DialectName
):
    client = start(auth={"keys": KEYS}, upstream_settings=ACCOUNTS[speaks])
    known = spoken.DIALECTS[dialect]
    body = orjson.dumps(known.write([Entry("user", "Hi")], stream=True) | {"model": "m"})
    whole, own = record(TEXT, speaks, 1), record(OWN_TURN, speaks, 1)
    told: list[str] = []
    with recording(client):
        for agent, turns in (("bare", [whole[:-60]]), ("editor", [whole[:-60]]), ("editor", [own, whole[:-60]])):
            # The end of every stream says why the model stopped, which counts if the stream is closed in order.
            upstream.will(*(reply(one, "text/event-stream", end="close" if one == own else "reset") for one in turns))
            got = await client.post(body, known.path, authorization=f"Bearer {ADMIN}", x_context_agent=agent)
            assert (got.status, got.broken) == (200, False)
            assert ENDS[dialect] not in got.raw
            wait_finished(client, len(told) + 1)
            path = f"/receipts/{got.headers['x-context-receipt']}"
            told.append((await manage(client, "GET", path, authorization=f"Bearer {ADMIN}")).json["status"])
    assert told == ["upstream_truncated"] * 3
