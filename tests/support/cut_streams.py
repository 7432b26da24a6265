"""Exchanges in-process whose upstream's streams are cut: what a client gets of them, in any dialect."""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from gateway.conversation.conversation import Conversation
from gateway.conversation.dialect import Dialect
from gateway.conversation.turn import FunctionCall
from gateway.domain.dialect import DialectName
from gateway.domain.exchange import Exchange, Reply
from gateway.domain.principal import ANONYMOUS
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.domain.tool_result import ToolResult
from gateway.domain.upstream import Capabilities, UpstreamAnswer, UpstreamReply, UpstreamRequest
from gateway.errors import GatewayError, UpstreamTruncated, UpstreamUnreachable
from gateway.upstreams.dialect_calls import send_in_dialect
from tests.support.client_requests import ListWriter

End = Literal["close", "reset"]
Way = Callable[[Conversation], Awaitable[Reply]]


class CutReply(UpstreamReply):
    """A stream of events that ends where it was cut."""

    status = 200

    def __init__(self, pieces: Iterable[bytes], end: End) -> None:
        self.headers = {"content-type": "text/event-stream"}
        self._pieces = deque(filter(None, pieces))
        self._end = end
        self.closed = False

    async def read(self) -> bytes:
        if self._pieces:
            return self._pieces.popleft()
        if self._end == "reset":
            raise UpstreamTruncated("broken")
        return b""

    async def read_all(self) -> bytes:
        raise AssertionError("a stream is never read whole")

    async def close(self) -> None:
        self.closed = True


class CutUpstream:
    """Speaks one dialect and gives these replies, one after the other."""

    name, passes_bearer = "any", False

    def __init__(self, replies: list[CutReply], speaks: DialectName) -> None:
        self.capabilities = Capabilities(dialects=frozenset({speaks}))
        self._left = list(replies)
        self.given: list[CutReply] = []

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        assert request.dialect in self.capabilities.dialects
        if not self._left:
            raise UpstreamUnreachable("The script is over.")
        reply = self._left.pop(0)
        self.given.append(reply)
        return reply


@dataclass
class Run:
    """One exchange in-process: what the client got, and whether hidden turns were kept."""

    raw: bytes
    refused: bool  # it failed before anything was sent
    kept: int
    error: type[GatewayError] | None = None


async def run(
    way: Way, replies: list[CutReply], dialect: Dialect, speaks: DialectName, *, all_are_used: bool = True
) -> Run:
    """Hold one exchange; the edge's part of it is done here."""
    kept: list[Any] = []
    upstream: Any = CutUpstream(replies, speaks)

    async def send(body: bytes, first: bool) -> UpstreamAnswer:
        call = UpstreamRequest(dialect.upstream_path, body, stream=True, dialect=dialect.name)
        return UpstreamAnswer(upstream, await send_in_dialect(upstream, call))

    async def keep(hidden: Any) -> None:
        kept.append(hidden)

    async def run_tool(call: FunctionCall) -> ToolResult:
        return ToolResult("result")

    conversation = Conversation(Exchange("x", ANONYMOUS, EMPTY_SNAPSHOT, ()), dialect, send, run_tool, keep)
    client = ListWriter()
    try:
        answer = await way(conversation)
    except GatewayError as error:
        assert all(one.closed for one in upstream.given)
        return Run(b"", True, len(kept), type(error))
    assert answer.stream is not None
    failure = None
    try:
        await answer.stream(client)
    except GatewayError as error:  # as the edge does
        assert answer.render_failure is not None
        client.write(answer.render_failure(error))
        failure = type(error)
    assert all(one.closed for one in upstream.given), "every reply is closed"
    assert not all_are_used or len(upstream.given) == len(replies)
    return Run(client.data, False, len(kept), failure)
