"""The seam every upstream stands behind: OpenAI's wire format in, OpenAI's wire format out."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an upstream can do; the gateway adapts to what it cannot."""

    tools: bool = True
    system_anywhere: bool = True  # takes system messages in the middle of a conversation
    developer: bool = True  # knows the developer role
    stream_usage: bool = True  # knows stream_options.include_usage
    cache_marker: bool = False  # takes Anthropic's cache_control


@lru_cache(maxsize=256)
def common_capabilities(upstreams: "tuple[Upstream, ...]") -> Capabilities:
    """What all of them can do: a request may go to any."""
    can = [upstream.can for upstream in upstreams]
    return Capabilities(
        tools=all(one.tools for one in can),
        system_anywhere=all(one.system_anywhere for one in can),
        developer=all(one.developer for one in can),
        stream_usage=all(one.stream_usage for one in can),
        cache_marker=all(one.cache_marker for one in can),
    )


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """One call as it goes out; `headers` holds only what may be forwarded."""

    path: str  # "/chat/completions"
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    stream: bool = False
    model: str = ""
    method: str = "POST"
    bearer: str | None = None  # the client's own, for upstreams that pass it through


class UpstreamReply(Protocol):
    """A reply whose head has arrived. It is closed on every path."""

    status: int
    headers: Mapping[str, str]  # names in lower case

    async def read(self) -> bytes:
        """The next bytes of the body as they came, b"" at its clean end.

        Raises UpstreamTruncated when the connection broke, UpstreamTimeout after `idle` seconds of silence.
        """
        ...

    async def read_all(self) -> bytes:
        """The rest of the body, bounded by the reply limit (UpstreamInvalid beyond it)."""
        ...

    async def close(self) -> None:
        """Give the connection back or drop it; may be called twice."""
        ...


class Upstream(Protocol):
    """A configured model endpoint."""

    name: str
    can: Capabilities
    passes_bearer: bool  # forwards the client's own bearer instead of a configured key

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Send one call and return once the reply's head is there.

        Raises UpstreamUnreachable (nothing was sent or nobody answered) or UpstreamTimeout (no first byte in time). An
        HTTP error status is a reply, not an exception.
        """
        ...

    async def models(self) -> list[dict[str, Any]]:
        """The model cards it lists; raises UpstreamError when it cannot say."""
        ...

    async def close(self) -> None:
        """Close pooled connections."""
        ...
