"""The tokens of one exchange: as upstreams report them, or estimated if they do not."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gateway import sse
from gateway.domain.exchange import Exchange, Reply

BYTES_PER_TOKEN = 4


class _Usage(msgspec.Struct):
    usage: dict[str, Any] | None = None


_decode = msgspec.json.Decoder(_Usage).decode


@dataclass(slots=True)
class Meter:
    """Watches one exchange of a key whose tokens are limited."""

    exchange: Exchange
    asked: int = 0  # bytes of the request
    pieces: int = 0  # events of a stream, about one token each
    reported: dict[str, Any] | None = None

    def watch(self, reply: Reply, asked: int) -> Reply:
        """The reply to a request of `asked` bytes, watched: nobody else looks for the usage of what is relayed."""
        self.asked = asked
        if reply.stream is not None:
            return replace(reply, stream=self._watch_stream(reply.stream))
        self._look(reply.body)
        self.pieces += 0 if self.reported else len(reply.body) // BYTES_PER_TOKEN
        return reply

    def count_spent(self) -> int:
        """Tokens to charge; estimated if the client did not request usage, or disconnected early."""
        exchange = self.exchange
        if not any(reply.status < 400 for reply in exchange.replies):
            return 0
        usage = exchange.usage or self.reported
        return count_total(usage) or self.asked // BYTES_PER_TOKEN + self.pieces

    async def _watch_stream(self, stream: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                self.pieces += chunk.count(b"\n\n")
                if b'"usage"' in chunk:
                    for event in sse.split_events(chunk):
                        self._look(sse.read_payload(event) or b"{}")
                yield chunk

    def _look(self, document: bytes) -> None:
        try:
            usage = _decode(document).usage
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        self.reported = usage or self.reported


def count_total(usage: dict[str, Any] | None) -> int:
    """Tokens of a usage object; 0 where it has none."""
    said = usage or {}
    whole = _number(said.get("total_tokens"))
    return whole or _number(said.get("prompt_tokens")) + _number(said.get("completion_tokens"))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
