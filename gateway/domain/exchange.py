"""One client request and its reply."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from time import perf_counter
from typing import Any, Protocol

import msgspec

from gateway.domain.dialect import DialectName
from gateway.domain.injection import Injection
from gateway.domain.principal import Principal
from gateway.domain.resource import Resource
from gateway.domain.scope import Scope
from gateway.domain.selection import PlacedResource
from gateway.domain.snapshot import Snapshot
from gateway.domain.tool_result import ToolResult

HeaderPairs = tuple[tuple[str, str], ...]
HeaderBytes = Sequence[tuple[bytes, bytes]]


class ExchangeStatus(StrEnum):
    """How an exchange ended."""

    OK = "ok"
    ERROR = "error"
    ABORTED = "aborted"  # the client left
    UPSTREAM_TRUNCATED = "upstream_truncated"
    LOOP_LIMIT = "loop_limit"


class ForwardedHeaders(msgspec.Struct, frozen=True):
    """Headers of the client that go upstream, on the first turn and on later ones."""

    first: HeaderPairs = ()
    later: HeaderPairs = ()  # without the Idempotency-Key, which stands for one call only
    bearer: str | None = None  # the client's own, for upstreams that pass it through
    query: str = ""  # of the request's target


NOTHING_FORWARDED = ForwardedHeaders()
STAGES = ("decode", "scope", "build", "compose")  # of preparing a request, in this order


class TurnReply(msgspec.Struct):
    """That an upstream answered a turn, and how."""

    upstream: str
    status: int
    seconds: float = 0.0  # until the head of the reply was there


class ToolRun(msgspec.Struct, frozen=True):
    """That the gateway ran one of its tools, and what came of it."""

    name: str
    arguments: str  # as the model wrote them
    characters: int
    failed: bool
    seconds: float
    resource: Resource | None = None  # of a tool of a server or endpoint


class Exchange(msgspec.Struct):
    """What comes in, and the account of what was done about it."""

    id: str
    principal: Principal
    snapshot: Snapshot
    context_headers: HeaderBytes = ()  # the request's `x-context-*`
    forwarded: ForwardedHeaders = NOTHING_FORWARDED
    dialect: DialectName = "chat"
    agent: str | None = None
    model: str | None = None
    upstream: str | None = None
    injected: int = 0
    tokens: int = 0
    degraded: set[str] = msgspec.field(default_factory=set)
    turns: int = 0
    replies: list[TurnReply] = msgspec.field(default_factory=list)
    tools_run: list[str] = msgspec.field(default_factory=list)
    usage: dict[str, Any] | None = None
    usages: Sequence[dict[str, Any]] = ()  # what each turn of a loop used, as upstreams report it
    usage_event: bytes | None = None  # of a relayed stream: the last events that may report it
    tool_runs: Sequence[ToolRun] = ()
    expansions: Sequence[PlacedResource] = ()  # what results of tools brought
    omitted_tools: tuple[str, ...] = ()  # the client's own that were not sent
    scope: Scope | None = None
    asked_model: str | None = None
    suggested: str | None = None  # path of other content that the user named
    injection: Injection | None = None
    failure: str | None = None  # code of the error that the client got
    began: float = msgspec.field(default_factory=perf_counter)
    times: list[float] = msgspec.field(default_factory=list)  # when each of STAGES was done
    complete: bool = False  # the client had its whole reply before it left
    status: ExchangeStatus = ExchangeStatus.OK
    http_status: int = 0  # of the reply; 0: the client left before it began
    seconds: float = 0.0  # from the request's head to the end of the reply
    ended: float = 0.0  # seconds since 1970

    def note_scope(self, scope: Scope, model: str, asked: str | None = None) -> None:
        """Note who answers, with which model, and which one was asked for."""
        self.scope, self.asked_model = scope, asked
        self.agent = scope.agent.alias if scope.agent is not None else None
        self.model = model

    def note_tool(
        self, name: str, arguments: str, result: ToolResult, seconds: float, placed: PlacedResource | None = None
    ) -> None:
        """Note that a tool was run; `placed`: it is one of a server or an endpoint."""
        resource = placed.candidate.resource if placed is not None else None
        run = ToolRun(name, arguments, len(result.text), result.failed, seconds, resource)
        self.tool_runs = (*self.tool_runs, run)

    def note_injection(self, injection: Injection) -> None:
        """Note what was placed, at what cost, and what was missing for it."""
        self.injection, selection = injection, injection.selection
        self.injected, self.tokens = len(selection.stable) + len(selection.volatile), injection.tokens
        if selection.degraded:
            self.degraded |= selection.degraded


class ClientWriter(Protocol):
    """The client's end of a stream."""

    def write(self, data: bytes) -> bool:
        """Send bytes; False: the client has not taken what it was sent, so wait in `drain` before sending more."""
        ...

    async def drain(self) -> None:
        """Return once there is room for more."""
        ...

    def end(self, data: bytes) -> None:
        """Send the last bytes: the response is complete."""
        ...


ReplyStream = Callable[[ClientWriter], Awaitable[None]]  # sends complete events; raises what ends them early


class WatchedWriter:
    """The client's end of a stream, with somebody who sees what passes."""

    __slots__ = ("_see", "_writer", "drain")

    def __init__(self, see: Callable[[bytes], None], writer: ClientWriter) -> None:
        self._see, self._writer = see, writer
        self.drain = writer.drain

    def write(self, data: bytes) -> bool:
        self._see(data)
        return self._writer.write(data)

    def end(self, data: bytes) -> None:
        self._see(data)
        self._writer.end(data)


def watch_stream(stream: ReplyStream, see: Callable[[bytes], None]) -> ReplyStream:
    """The same stream, shown to `see` piece by piece on its way to the client."""
    return lambda writer: stream(WatchedWriter(see, writer))


class Reply(msgspec.Struct):
    """What the client gets: a whole body, or a stream of complete events."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    read: Any = None  # what the dialect knows of the body, if it had to look at it
    usage: dict[str, Any] | None = None  # that it reports, if that is known
    stream: ReplyStream | None = None
    close: Callable[[], Awaitable[None]] | None = None  # lets go of the upstream, even if `stream` was never begun
    render_failure: Callable[[Any], bytes] | None = None  # a GatewayError as the last event of the stream
