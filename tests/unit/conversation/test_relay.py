"""What a relay lets pass, and how it ends."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gateway import sse
from gateway.conversation.dialects.chat.relay import ChatRelayView, contains_error, is_done
from gateway.conversation.relay import check_reply, relay_events
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.domain.upstream import UpstreamReply
from gateway.errors import UpstreamAuth, UpstreamInvalid, UpstreamTimeout, UpstreamTruncated
from tests.support.client_requests import ListWriter

TEXT = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n'
FINISH = b'data: {"choices":[{"delta":{},"finish_reason": "stop"}]}\n\n'
ERROR = b'data: {"id":"x","error":{"message":"busy"}}\n\n'
DONE = sse.DONE_EVENT


class Scripted(UpstreamReply):
    """A reply that gives these pieces; an exception is raised in its place."""

    def __init__(self, *pieces: Any, status: int = 200, media: str = "text/event-stream") -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": media}
        self.pieces = list(pieces)
        self.closed = False

    async def read(self) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return bytes(piece)

    async def read_all(self) -> bytes:
        return b"".join(self.pieces)

    async def close(self) -> None:
        self.closed = True


def exchange() -> Exchange:
    return Exchange("x", ANONYMOUS, EMPTY_SNAPSHOT, ())


async def relayed(reply: Scripted, noted: Exchange | None = None, after_error: float = 1.0) -> list[bytes]:
    client = ListWriter()
    try:
        await relay_events(reply, await reply.read(), ChatRelayView(), noted or exchange(), after_error, client)
    finally:
        assert reply.closed
    return client.pieces


async def passed(*pieces: Any) -> list[bytes]:
    return await relayed(Scripted(*pieces))


async def test_a_complete_stream_passes_as_it_comes() -> None:
    assert await passed(TEXT, FINISH + DONE) == [TEXT, FINISH + DONE]


async def test_an_unfinished_event_waits_for_its_end() -> None:
    assert await passed(TEXT[:9], TEXT[9:] + FINISH[:4], FINISH[4:], DONE) == [TEXT, FINISH, DONE]


@pytest.mark.parametrize("last", [b"", b"data: [DONE]", b"data: [DO"])
async def test_a_finished_stream_without_done_gets_one(last: bytes) -> None:
    assert await passed(TEXT, FINISH, last) == [TEXT, FINISH, DONE]


async def test_done_without_its_blank_line_is_given_whole() -> None:
    assert await passed(TEXT, b"data: [DONE]\n") == [TEXT, DONE]


@pytest.mark.parametrize("end", [b"", UpstreamTruncated("reset")])
async def test_a_stream_that_ends_early_is_truncated(end: Any) -> None:
    with pytest.raises(UpstreamTruncated):
        await passed(TEXT, end)


async def test_a_break_after_done_takes_nothing_away() -> None:
    assert await passed(TEXT + FINISH + DONE, UpstreamTruncated("reset")) == [TEXT + FINISH + DONE]


async def test_a_reset_after_the_finish_is_still_a_break() -> None:
    with pytest.raises(UpstreamTruncated):
        await passed(TEXT, FINISH, UpstreamTruncated("reset"))


async def test_silence_is_passed_on_as_a_timeout() -> None:
    with pytest.raises(UpstreamTimeout):
        await passed(TEXT, UpstreamTimeout("silent"))


@pytest.mark.parametrize("end", [b"", UpstreamTruncated("reset"), UpstreamTimeout("silent")])
async def test_after_the_upstream_s_own_error_nothing_is_added(end: Any) -> None:
    assert await passed(TEXT, ERROR, end) == [TEXT, ERROR]


async def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 100)
    with pytest.raises(UpstreamInvalid, match="never ends"):
        await passed(TEXT, b"data: " + b"x" * 95)


async def test_a_client_that_leaves_closes_the_reply() -> None:
    class Waiting(Scripted):
        async def read(self) -> bytes:
            return await super().read() if self.pieces else await asyncio.sleep(30, b"")

    client = asyncio.ensure_future(relayed(Waiting(TEXT, TEXT)))
    await asyncio.sleep(0.01)
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client


async def test_an_upstream_that_stays_open_after_done_is_left() -> None:
    class Hanging(Scripted):
        async def read(self) -> bytes:
            if not self.pieces:
                await asyncio.sleep(30)
            return await super().read()

    assert await relayed(Hanging(DONE)) == [DONE]


@pytest.mark.parametrize(
    ("data", "done"),
    [
        (b"data: [DONE]", True),
        (b"data:[DONE]\n\n", True),
        (b"data: {}\r\n\r\ndata: [DONE]\r\n", True),
        (b'data: {"content":"data: [DONE]"}\n\n', False),
        (b"data: [DO", False),
    ],
)
def test_done_is_a_line_of_its_own(data: bytes, done: bool) -> None:
    assert is_done(data) is done


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (ERROR, True),
        (b'data:{"error":"down"}\n\n', True),
        (b'event: error\ndata: {"error":{}}\n\n', True),
        (TEXT + ERROR, True),
        (b'data: {"error":null}\n\n', False),
        (b'data: {"content_filter_result":{"error":{"code":"x"}}}\n\n', False),
        (b'data: {"content":"\\"error\\":{}"}\n\n', False),
        (b'data: "error"\n\n', False),
        (b'data: {"error": \xff}\n\n', False),
    ],
)
def test_only_an_error_of_the_event_itself_is_one(data: bytes, error: bool) -> None:
    assert contains_error(data) is error


class Named:
    name = "one"

    def __init__(self, passes_bearer: bool) -> None:
        self.passes_bearer = passes_bearer


@pytest.mark.parametrize(
    "media", ["application/json", "application/problem+json; charset=utf-8", "TEXT/event-stream;x=y"]
)
def test_json_and_events_are_answers(media: str) -> None:
    check_reply(Named(False), Scripted(media=media))  # type: ignore[arg-type]


@pytest.mark.parametrize("media", ["text/html", "", "text/plain"])
def test_anything_else_is_no_answer(media: str) -> None:
    with pytest.raises(UpstreamInvalid):
        check_reply(Named(False), Scripted(media=media))  # type: ignore[arg-type]


@pytest.mark.parametrize(("status", "media"), [(401, "application/json"), (403, "text/event-stream")])
def test_refused_credentials_are_ours_unless_the_client_brought_them(status: int, media: str) -> None:
    reply = Scripted(status=status, media=media)
    with pytest.raises(UpstreamAuth):
        check_reply(Named(False), reply)  # type: ignore[arg-type]
    check_reply(Named(True), reply)  # type: ignore[arg-type]


async def test_an_error_that_the_upstream_tells_is_an_error_in_the_account() -> None:
    noted = exchange()
    assert await relayed(Scripted(TEXT, ERROR), noted) == [TEXT, ERROR]
    assert noted.status == "error"
