"""The interface of every upstream: a request in a dialect that it speaks in, a reply in the same dialect out."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from gateway.domain.dialect import DialectName

CHAT_ONLY: frozenset[DialectName] = frozenset({"chat"})


class Capabilities(msgspec.Struct, frozen=True):
    """What an upstream can do; the gateway adapts to what it cannot."""

    tools: bool = True
    system_anywhere: bool = True  # accepts system messages in the middle of a conversation
    developer: bool = True  # knows the developer role
    stream_usage: bool = True  # knows stream_options.include_usage
    cache_marker: bool = False  # accepts Anthropic's cache_control
    dialects: frozenset[DialectName] = CHAT_ONLY  # that it speaks itself
    max_tokens: int = 8192  # of an answer, where its dialect needs a limit and a request of another one sets none


@lru_cache(maxsize=256)
def intersect_capabilities(upstreams: "tuple[Upstream, ...]") -> Capabilities:
    """What all of them can do: a request may go to any."""
    every = [upstream.capabilities for upstream in upstreams]
    return Capabilities(
        tools=all(one.tools for one in every),
        system_anywhere=all(one.system_anywhere for one in every),
        developer=all(one.developer for one in every),
        stream_usage=all(one.stream_usage for one in every),
        cache_marker=all(one.cache_marker for one in every),
        dialects=frozenset.intersection(*(one.dialects for one in every)),
    )


class UpstreamRequest(msgspec.Struct, frozen=True):
    """One call as it goes out; `headers` holds only what may be forwarded."""

    path: str  # "/chat/completions"
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    stream: bool = False
    model: str = ""
    method: str = "POST"
    bearer: str | None = None  # the client's own, for upstreams that pass it through
    repeatable: bool = True  # whether the client can repeat what failed: it has nothing of the answer yet
    dialect: DialectName = "chat"  # of the body and of the reply


TakeBytes = Callable[[bytes], bool]  # False: nothing more for now


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

    def take_all(self) -> bytes | None:
        """What `read_all` returns, if it is all here and nothing is left to close; None: read it."""
        return None

    async def forward(self, take: TakeBytes) -> bool:
        """Call `take` with the body as it comes; True at its clean end, False once `take` wants no more for now.

        Raises what `read` raises, and the GatewayErrors of `take`. A reply that comes over a connection calls `take` as
        bytes arrive, without waking the task that waits here; others are read.
        """
        while data := await self.read():
            if not take(data):
                return False
        return True

    async def finish(self) -> None:
        """Nothing more is needed: the connection may be used again if the body ends by itself in a moment.

        It does not wait for that, and `close` has nothing more to do afterwards.
        """
        await self.close()

    async def close(self) -> None:
        """Return the connection to the pool or drop it; may be called twice."""
        ...


class Upstream(Protocol):
    """A configured model endpoint."""

    name: str
    capabilities: Capabilities
    passes_bearer: bool  # forwards the client's own bearer instead of a configured key

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Send one call and return once the reply's head is there.

        Raises UpstreamUnreachable (nothing was sent or nothing came back) or UpstreamTimeout (no first byte in time).
        An HTTP error status is a reply, not an exception.
        """
        ...

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        """The model cards it lists, to the client's own bearer if it passes that; raises UpstreamError if it cannot."""
        ...

    async def close(self) -> None:
        """Close pooled connections."""
        ...


class UpstreamAnswer(msgspec.Struct):
    """A reply and the upstream that gave it."""

    upstream: Upstream
    reply: UpstreamReply


SendTurn = Callable[[bytes, bool], Awaitable[UpstreamAnswer]]  # body, whether it is the first turn of an exchange


def read_media_type(reply: UpstreamReply) -> str:
    return parse_media_type(reply.headers.get("content-type", ""))


@lru_cache(maxsize=64)
def parse_media_type(content_type: str) -> str:
    """The type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def is_event_stream(reply: UpstreamReply) -> bool:
    return parse_media_type(reply.headers.get("content-type", "")) == "text/event-stream"


def is_json_reply(reply: UpstreamReply) -> bool:
    media = parse_media_type(reply.headers.get("content-type", ""))
    return media == "application/json" or media.endswith("+json")


def refuses_key(upstream: Upstream, reply: UpstreamReply) -> bool:
    """Whether a reply is about the gateway's own key; a 403 that says why is about the request."""
    if reply.status not in (401, 403) or upstream.passes_bearer:
        return False
    return reply.status == 401 or not is_json_reply(reply)
