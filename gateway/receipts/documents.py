"""What a receipt is made of: the exchange that waits for it, and the documents that are stored."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from gateway.domain.exchange import Exchange


@dataclass(slots=True)
class ExchangeText:
    """The text of a conversation, kept only if it is configured."""

    request: bytes
    bearer: str | None = None  # the client's own, to be redacted
    pieces: list[bytes] = field(default_factory=list)  # of the reply
    size: int = 0  # of all pieces
    full: bool = False  # no more pieces are kept
    request_cut: bool = False
    truncated: bool = False
    stored: bool = True  # False: only looked at
    sampled: bool = False  # the overlap of answer and resources is measured


@dataclass(slots=True)
class PendingReceipt:
    """An exchange whose receipt has to be written."""

    exchange: Exchange
    since: float = 0.0  # when it was queued
    body: bytes = b""  # of a whole reply, for its usage
    text: ExchangeText | None = None
    http_status: int | None = None
    seconds: float | None = None
    finished: bool = False

    def count_text(self) -> int:
        """Bytes of text that it holds."""
        return len(self.text.request) + self.text.size if self.text is not None else 0


class UsageAccount(NamedTuple):
    """What upstreams report about one turn or all of them, and what that costs."""

    usage: msgspec.Raw | None  # encoded once: it is told of the turn and of the exchange
    cached: int
    cost: float | None


class ExchangeSummary(msgspec.Struct):
    """What lists show, in this order."""

    at: str
    seconds: float | None
    http_status: int | None
    error: str | None
    principal: str
    key: str | None
    user: str | None
    profile: str | None
    prompt: str | None
    task: str | None
    suggested_content: str | None
    asked_model: str | None
    model: str | None
    upstream: str | None
    dialect: str
    snapshot: str
    placement: str | None
    injected: int
    context_tokens: int
    turn_count: int
    tools_run: int
    degraded: list[str]
    usage: msgspec.Raw | None
    cached_tokens: int
    cost: float | None


class TurnDescription(msgspec.Struct):
    """An upstream call that was answered."""

    upstream: str
    status: int
    first_byte_ms: float
    usage: msgspec.Raw | None
    cached_tokens: int
    cost: float | None


class ExchangeDetails(msgspec.Struct):
    """What a receipt says besides its summary and its injection."""

    scope: msgspec.Raw  # null if the request failed before it was known
    turns: list[TurnDescription]
    tools: list[dict[str, Any]]
    timings: dict[str, float | None]
    client_tools: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    expanded: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    overlap: Any = msgspec.UNSET
    text: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
