"""The tokens of a request: as upstreams report them, or estimated if they do not."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from gateway import sse
from gateway.domain.exchange import Exchange, Reply, watch_stream
from gateway.receipts.reported import read_usage

BYTES_PER_TOKEN = 4
MOST_TOKENS = 10**9  # that a reply is believed to have used; no counter of a store holds any number
BYTES_PER_MEDIA_TOKEN = 4096  # of images and sound: a minute of speech has some 200 words and 1 MB
SCANNED_BYTES = 4096  # at either end of a reply that is not kept whole
TEXT_TYPES = ("application/json", "text/")

ReadPiece = Callable[[], Awaitable[bytes]]

_BRACE = re.compile(rb"[{}]")


class Meter(msgspec.Struct):
    """Watches one exchange of a key whose tokens are limited."""

    exchange: Exchange
    asked: int = 0  # bytes of the request
    pieces: int = 0  # events of a stream, about one token each
    reported: dict[str, Any] | None = None  # by a whole reply

    def watch(self, reply: Reply) -> Reply:
        """The reply, watched; where it has no receipt, nobody else has looked for the usage of a whole one."""
        if reply.stream is not None:
            reply.stream = watch_stream(reply.stream, self.count_events)
            return reply
        self.reported = self.exchange.usage or read_usage(reply.body)
        self.pieces += 0 if self.reported else len(reply.body) // BYTES_PER_TOKEN
        return reply

    def count_events(self, events: bytes) -> None:
        """Count what a stream has sent, in case that it never reports its usage."""
        self.pieces += events.count(b"\n\n") or events.count(b"\n\r\n")  # a server ends all lines alike

    def count_spent(self) -> int:
        """Tokens to charge; estimated if the client did not request usage, or disconnected early."""
        exchange = self.exchange
        if not any(reply.status < 400 for reply in exchange.replies):
            return 0
        spent = count_total(exchange.usage or self.reported)
        if not spent:
            spent = count_total(read_usage(exchange.usage_event or b""))
            if not spent or not exchange.complete:  # one that was cut may have told only what its prompt used
                spent = max(spent, self.asked // BYTES_PER_TOKEN + self.pieces)
        # Turns of a loop that did not come to its end were used all the same.
        return max(spent, sum(map(count_total, exchange.usages)))


class PassthroughMeter:
    """Watches a reply that is passed through in pieces; only its beginning and its end are kept."""

    def __init__(self, asked: int, asked_type: str, reply_type: str) -> None:
        self._estimate = estimate_tokens(asked, asked_type)
        self._reply_type = reply_type
        self._size = 0
        self._head = self._tail = b""

    def watch(self, read: ReadPiece) -> ReadPiece:
        """`read` that notes every piece."""

        async def read_and_note() -> bytes:
            piece = await read()
            self.note(piece)
            return piece

        return read_and_note

    def note(self, piece: bytes) -> None:
        """Note a part of the reply, in order."""
        self._size += len(piece)
        if len(self._head) < SCANNED_BYTES:
            self._head += piece[: SCANNED_BYTES - len(self._head)]
        self._tail = (self._tail + piece[-SCANNED_BYTES:])[-SCANNED_BYTES:]

    def count_spent(self) -> int:
        """Tokens to charge: of the usage object, else an estimate by the size of request and reply."""
        reported = find_usage(self._tail) or find_usage(self._head)
        return count_total(reported) or self._estimate + estimate_tokens(self._size, self._reply_type)


def find_usage(text: bytes) -> dict[str, Any] | None:
    """The last usage object in a part of a JSON document or stream, if it is there as a whole."""
    for found in list(sse.USAGE_OBJECT.finditer(text))[:-9:-1]:
        end = _find_end(text, found.end())
        try:
            usage = msgspec.json.decode(text[found.end() : end], type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            continue
        if usage:
            return usage
    return None


def _find_end(text: bytes, start: int) -> int:
    """Where the object that begins at `start` ends; usage objects hold no braces in strings."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == b"{" else -1
        if not depth:
            return brace.end()
    return len(text)


def estimate_tokens(size: int, media_type: str) -> int:
    """About how many tokens a body stands for; at least one."""
    text = media_type.lower().startswith(TEXT_TYPES)
    return max(1, size // (BYTES_PER_TOKEN if text else BYTES_PER_MEDIA_TOKEN))


# Of a usage object without a total, in the words of OpenAI and Anthropic.
PARTS = (
    "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "cache_read_input_tokens",
    "cache_creation_input_tokens",
)  # fmt: skip


def count_total(usage: dict[str, Any] | None) -> int:
    """Tokens of a usage object; 0 where it has none."""
    said = usage or {}
    return _number(said.get("total_tokens")) or sum(_number(said.get(name)) for name in PARTS)


def _number(value: Any) -> int:
    return min(value, MOST_TOKENS) if isinstance(value, int) and value > 0 else 0
