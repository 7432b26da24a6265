"""litellm's answers in OpenAI's wire format."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from gateway import sse
from gateway.domain.upstream import UpstreamReply
from gateway.errors import UpstreamTimeout, UpstreamTruncated
from gateway.upstreams.litellm.library import LitellmLibrary
from gateway.upstreams.replies import EVENT_STREAM_HEADERS, encode_json_event


class LitellmStream(UpstreamReply):
    """litellm's chunks as server-sent events."""

    def __init__(self, library: LitellmLibrary, chunks: Any, idle: float) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = EVENT_STREAM_HEADERS
        self._library = library
        self._chunks = chunks
        self._idle = idle
        self._first: bytes | None = None
        self._ended = False

    async def wait_for_first_chunk(self) -> None:
        """Until it is there; for some providers litellm makes the call only when it is read."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            self._first = await self._read_next()
            undo.pop_all()

    async def read(self) -> bytes:
        if self._ended:
            return b""
        self._ended = True  # until a piece comes: after a failure litellm would still end as if all were well
        piece, self._first = self._first or await self._read_in_time(), None
        self._ended = piece == sse.DONE_EVENT
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

    async def _read_in_time(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle):
                return await self._read_next()
        except TimeoutError as fault:
            raise UpstreamTimeout("The provider fell silent in the middle of its answer.") from fault
        except self._library.error as fault:
            raise self._library.translate_interruption(fault) from fault

    async def _read_next(self) -> bytes:
        chunk = await anext(self._chunks, None)
        if chunk is None:
            return sse.DONE_EVENT
        document = convert_chunk(chunk)
        # Where the provider's stream ended early litellm invents a "stop" and leaves these two empty.
        ended = self._chunks.received_finish_reason or self._chunks.intermittent_finish_reason
        if not ended and any(choice["finish_reason"] for choice in document["choices"]):
            raise UpstreamTruncated("The provider's stream ended before its answer was complete.")
        return encode_json_event(document)


def convert_completion(answer: Any) -> dict[str, Any]:
    """A whole answer in OpenAI's shape; the provider's own fields (thinking blocks …) stay on the message."""
    document: dict[str, Any] = answer.model_dump(exclude_none=True)
    for choice in document["choices"]:
        choice["message"].setdefault("content", None)
    return document


def convert_chunk(chunk: Any) -> dict[str, Any]:
    """One chunk in OpenAI's shape."""
    document: dict[str, Any] = chunk.model_dump(exclude_none=True)
    for choice in document["choices"]:
        choice.setdefault("finish_reason", None)
        # A second copy of them, in fragments that could not be put together again.
        choice["delta"].get("provider_specific_fields", {}).pop("thinking_blocks", None)
    if "usage" in document and not any(choice["delta"] or choice["finish_reason"] for choice in document["choices"]):
        document["choices"] = []
    return document
