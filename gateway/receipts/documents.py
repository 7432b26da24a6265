"""What a receipt is made of: the exchange that waits for it, and the documents that are stored."""

from collections.abc import Mapping

import msgspec

from gateway.domain.exchange import Exchange
from gateway.domain.injection import Injection
from gateway.domain.price import TokenCount
from gateway.domain.receipt import SharedDetails


class ExchangeText(msgspec.Struct):
    """The text of a conversation, kept only if it is configured."""

    request: bytes
    bearer: str | None = None  # the client's own, to be redacted
    pieces: list[bytes] = msgspec.field(default_factory=list)  # of the reply
    size: int = 0  # of all pieces
    full: bool = False  # no more pieces are kept
    request_cut: bool = False
    truncated: bool = False
    stored: bool = True  # False: only looked at
    sampled: bool = False  # the overlap of answer and resources is measured


class PendingReceipt(msgspec.Struct, eq=False, gc=False):
    """An exchange whose receipt has to be written."""

    exchange: Exchange
    since: float = 0.0  # when it was queued
    body: bytes = b""  # of a whole reply, for its usage
    text: ExchangeText | None = None
    finished: bool = False
    single: bool = False  # never noted: it has text, or a single receipt says that it has started, or soon will

    @property
    def http_status(self) -> int | None:
        return self.exchange.http_status if self.finished else None

    @property
    def seconds(self) -> float | None:
        return self.exchange.seconds if self.finished else None

    def count_text(self) -> int:
        """Bytes of text that it holds."""
        return len(self.text.request) + self.text.size if self.text is not None else 0


class UsageAccount(msgspec.Struct, frozen=True, gc=False):
    """What upstreams report about one turn or all of them, and what that costs."""

    usage: bytes  # JSON, encoded once: it is told of the turn and of the exchange
    cached: int
    cost: float | None
    tokens: TokenCount | None  # of what is stored; None: nothing was reported


class InjectionDescription(msgspec.Struct):
    """What a receipt says about an injection, encoded once."""

    injection: Injection  # as long as it is kept, no other has its identity
    body: bytes  # a JSON object
    placed: tuple[str, ...]  # ids of the resources
    known: Mapping[str, str | None]  # ids of all resources that the tools can reach too; why they were left out
    shared: SharedDetails | None = None  # once a second receipt has the same

    @property
    def size(self) -> int:
        """Bytes that it takes, the injection's texts included."""
        return 2 * len(self.body) + len(self.injection.stable) + 2 * len(self.injection.volatile)


class SummaryConstants(msgspec.Struct):
    """What lists show besides the figures of an exchange."""

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
