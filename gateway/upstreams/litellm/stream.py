"""litellm's answers in OpenAI's wire format."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from gateway.errors import UpstreamTimeout, UpstreamTruncated
from gateway.upstreams.litellm.failures import LitellmFailures
from gateway.upstreams.replies import DONE, EVENTS, event


class LitellmStream:
    """litellm's chunks as server-sent events."""

    def __init__(self, library: LitellmFailures, chunks: Any, idle: float) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = EVENTS
        self._library = library
        self._chunks = chunks
        self._idle = idle
        self._first: bytes | None = None
        self._ended = False

    async def started(self) -> "LitellmStream":
        """Wait for the first chunk: for some providers litellm calls only then."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            self._first = await self._next()
            undo.pop_all()
        return self

    async def read(self) -> bytes:
        if self._ended:
            return b""
        self._ended = True  # unless a further piece comes: after a failure litellm would still end as if all were well
        piece, self._first = self._first or await self._next_in_time(), None
        self._ended = piece == DONE
        return piece

    async def read_all(self) -> bytes:
        pieces = []
        while piece := await self.read():
            pieces.append(piece)
        return b"".join(pieces)

    async def close(self) -> None:
        self._ended = True
        self._first = None
        # litellm's own close stops short of the connection for most providers (all but OpenAI's).
        lines: Any = getattr(self._chunks.completion_stream, "streaming_response", None)
        await self._chunks.aclose()
        if hasattr(lines, "aclose"):
            await lines.aclose()

    async def _next_in_time(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle):
                return await self._next()
        except TimeoutError as fault:
            raise UpstreamTimeout("The provider fell silent in the middle of its answer.") from fault
        except self._library.failure as fault:
            raise self._library.broken(fault) from fault

    async def _next(self) -> bytes:
        chunk = await anext(self._chunks, None)
        if chunk is None:
            return DONE
        document = chunk_document(chunk)
        # Where the provider's stream ended early litellm invents a "stop" and keeps these two empty.
        ended = self._chunks.received_finish_reason or self._chunks.intermittent_finish_reason
        if not ended and any(choice["finish_reason"] for choice in document["choices"]):
            raise UpstreamTruncated("The provider's stream ended before its answer was complete.")
        return event(document)


def completion_document(answer: Any) -> dict[str, Any]:
    """A whole answer in OpenAI's shape; fields of the provider (thinking blocks …) stay on the message."""
    document: dict[str, Any] = answer.model_dump(exclude_none=True)
    for choice in document["choices"]:
        choice["message"].setdefault("content", None)
    return document


def chunk_document(chunk: Any) -> dict[str, Any]:
    """One chunk in OpenAI's shape."""
    document: dict[str, Any] = chunk.model_dump(exclude_none=True)
    for choice in document["choices"]:
        choice.setdefault("finish_reason", None)
        # Said a second time here, in fragments that nobody could put together again.
        choice["delta"].get("provider_specific_fields", {}).pop("thinking_blocks", None)
    if "usage" in document and not any(choice["delta"] or choice["finish_reason"] for choice in document["choices"]):
        document["choices"] = []
    return document
