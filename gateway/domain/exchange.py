"""One client request and its reply."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from gateway.domain.injection import Injection
from gateway.domain.principal import Principal
from gateway.domain.scope import Scope
from gateway.domain.snapshot import Snapshot

HeaderPairs = tuple[tuple[str, str], ...]


class ExchangeStatus(StrEnum):
    """How an exchange ended."""

    OK = "ok"
    ERROR = "error"
    ABORTED = "aborted"  # the client left
    UPSTREAM_TRUNCATED = "upstream_truncated"
    LOOP_LIMIT = "loop_limit"


@dataclass(frozen=True, slots=True)
class ForwardedHeaders:
    """Headers of the client that go upstream, on the first turn and on later ones."""

    first: HeaderPairs = ()
    later: HeaderPairs = ()  # without the Idempotency-Key, which stands for one call only
    bearer: str | None = None  # the client's own, for upstreams that pass it through


@dataclass(frozen=True, slots=True)
class TurnReply:
    """That an upstream answered a turn, and how."""

    upstream: str
    status: int


@dataclass(slots=True)
class Exchange:
    """What comes in, and the account of what was done about it."""

    id: str
    principal: Principal
    snapshot: Snapshot
    context_headers: Sequence[tuple[bytes, bytes]] = ()  # the request's `x-context-*`
    forwarded: ForwardedHeaders = ForwardedHeaders()
    agent: str | None = None
    model: str | None = None
    upstream: str | None = None
    injected: int = 0
    tokens: int = 0
    degraded: set[str] = field(default_factory=set)
    turns: int = 0
    replies: list[TurnReply] = field(default_factory=list)
    tools_run: list[str] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    complete: bool = False  # the client had its whole reply before it left
    status: ExchangeStatus = ExchangeStatus.OK
    http_status: int = 0  # of the reply; 0: the client left before it began
    seconds: float = 0.0  # from the request's head to the end of the reply
    ended: float = 0.0  # seconds since 1970

    def note_scope(self, scope: Scope, model: str) -> None:
        """Note who answers, with which model."""
        self.agent = scope.agent.alias if scope.agent is not None else None
        self.model = model

    def note_injection(self, injection: Injection) -> None:
        """Note what was placed, at what cost, and what was missing for it."""
        self.injected, self.tokens = injection.injected, injection.tokens
        self.degraded |= injection.selection.degraded


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


@dataclass(slots=True)
class Reply:
    """What the client gets: a whole body, or a stream of complete events."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: ReplyStream | None = None
    close: Callable[[], Awaitable[None]] | None = None  # lets go of the upstream, even if `stream` was never begun
