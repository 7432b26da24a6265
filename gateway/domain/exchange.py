"""One client request and its reply."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.domain.principal import Principal
from gateway.domain.snapshot import Snapshot

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ForwardedHeaders:
    """Headers of the client that go upstream, on the first turn and on later ones."""

    first: Pairs = ()
    later: Pairs = ()
    bearer: str | None = None  # the client's own, for upstreams that pass it through


@dataclass(slots=True)
class Exchange:
    """What comes in, and the account of what was done about it."""

    id: str
    principal: Principal
    snapshot: Snapshot
    headers: Sequence[tuple[bytes, bytes]]
    forwarded: ForwardedHeaders = ForwardedHeaders()
    agent: str | None = None
    model: str | None = None
    upstream: str | None = None
    injected: int = 0
    tokens: int = 0
    degraded: set[str] = field(default_factory=set)
    turns: int = 0
    replies: list[tuple[str, int]] = field(default_factory=list)  # upstream and status of each turn that got one
    tools_run: list[str] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    complete: bool = False  # the client had its whole reply before it left
    status: str = "ok"  # ok, error, aborted, upstream_truncated, loop_limit


@dataclass(slots=True)
class Reply:
    """What the client gets: a whole body, or a stream of complete events."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: AsyncGenerator[bytes] | None = None
    close: Callable[[], Awaitable[None]] | None = None  # lets go of the upstream, even if `stream` was never begun
