"""The interface of a dialect: everything that the turn loop, the store of hidden turns and the edge ask of it."""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Raw

from gateway.conversation.call_groups import CallGroup
from gateway.conversation.hidden_turn import OwnResult
from gateway.conversation.history import CallMark, History, HistoryMessage
from gateway.conversation.turn import LoopPlan, Turn, TurnStart
from gateway.domain.chat import ChatRequest, OutgoingBody
from gateway.domain.dialect import RequestDialect
from gateway.domain.exchange import Reply
from gateway.domain.upstream import Capabilities
from gateway.errors import GatewayError


class ReplyView(Protocol):
    """What the client sees of the whole replies of all turns, as one reply."""

    def take(self, body: bytes, start: TurnStart) -> Turn:
        """Read the reply of one turn; raises UpstreamInvalid if it is none."""
        ...

    def hide_turn(self) -> None:
        """Another turn follows the one that was taken last."""
        ...

    def finish(self, turn: Turn, usage: dict[str, Any] | None) -> bytes:
        """The reply of the client, after its last turn; `usage` is that of all turns."""
        ...


class StreamView(Protocol):
    """What the client sees of the streams of all turns, as one stream."""

    plain_start: bytes  # how events begin that may pass unread; b"": they have no beginning of their own

    @property
    def done(self) -> bool:
        """Whether nothing more of this turn's stream matters."""
        ...

    @property
    def failed(self) -> bool:
        """Whether the upstream itself told an error, which was passed on."""
        ...

    @property
    def may_be_silent(self) -> bool:
        """Whether the client may have to wait for bytes although the upstream is talking."""
        ...

    def begin_turn(self, start: TurnStart) -> None:
        """Another stream follows."""
        ...

    def pass_unread(self, data: bytes) -> bytes:
        """The leading events that may pass as they are."""
        ...

    def take_event(self, event: bytes) -> bytes:
        """Take one whole event; return what the client may see of it. Raises UpstreamInvalid."""
        ...

    def end_turn(self, tail: bytes) -> Turn:
        """The stream was closed cleanly behind `tail`, an unfinished event; raises UpstreamTruncated."""
        ...

    def hide_turn(self) -> None:
        """Another turn follows the one that has ended."""
        ...

    def finish(self, turn: Turn, usage: dict[str, Any] | None) -> bytes:
        """What the client still has to be sent after the last turn; `usage` is that of all turns."""
        ...

    def render_error(self, error: GatewayError) -> bytes:
        """An error as the last event of the stream so far."""
        ...


class RelayView(Protocol):
    """A stream that passes as it comes: how far it got, found without reading it."""

    done: bool  # the event that ends a stream has come
    failed: bool  # the upstream's own error has come
    needs_driver: bool  # either of the two
    usage_event: bytes  # the last events that may report the usage

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes of the upstream's stream; return the events that are complete."""
        ...

    def end(self) -> bytes:
        """The stream has ended: what it lacks; raises UpstreamTruncated if it is not complete."""
        ...

    def render_error(self, error: GatewayError) -> bytes:
        """An error as the last event of the stream so far."""
        ...


class Dialect(RequestDialect, Protocol):
    """One wire format of clients."""

    path: str  # of the gateway's endpoint
    upstream_path: str  # below an upstream's base_url
    keepalive: bytes  # what a stream sends when there is nothing to say
    keeps_replies: bool = False  # clients come back to replies by their ids

    def may_answer_calls(self, request: ChatRequest) -> bool:
        """Whether results of tools may be among the messages; False is certain."""
        ...

    def forces_usage(self, request: ChatRequest, can: Capabilities) -> bool:
        """Whether streams report their usage only if we ask, and the client does not."""
        ...

    def wants_json(self, request: ChatRequest) -> bool:
        """Whether the answer has to be one JSON document."""
        ...

    def write_tools(self, schemas: Sequence[Raw]) -> tuple[Raw, ...]:
        """Tools of ours, given as chat completions have them."""
        ...

    def encode_turn(self, plan: LoopPlan, added: Sequence[bytes], *, is_last: bool) -> bytes:
        """The body of a turn; `added` are the entries of the turns before it."""
        ...

    def write_turn(self, turn: Turn, results: Sequence[OwnResult]) -> list[bytes]:
        """The entries that a turn and the results of our calls add to the conversation."""
        ...

    def remove_own_calls(self, turn: Turn) -> bytes:
        """The turn's message without calls of ours that were not run: no result would follow them."""
        ...

    def open_reply(self, plan: LoopPlan) -> ReplyView:
        """The view of an exchange that is answered whole."""
        ...

    def open_stream(self, plan: LoopPlan) -> StreamView:
        """The view of an exchange that is answered with a stream."""
        ...

    def open_relay(self, request: ChatRequest, outgoing: OutgoingBody) -> RelayView:
        """The view of a stream that is relayed."""
        ...

    def show_relayed(self, request: ChatRequest, outgoing: OutgoingBody, reply: Reply) -> None:
        """Take what we added to the request out of a whole reply that is relayed, where it repeats that."""
        ...

    def read_history(self, messages: Sequence[Raw]) -> History | None:
        """The messages and calls of a conversation; None if it is too long to be read."""
        ...

    def decode_calls(self, message: Raw) -> list[Raw]:
        """The calls in a turn's message, raw; each has some."""
        ...

    def read_mark(self, call: Raw) -> CallMark:
        """The mark of such a call; raises UNREADABLE if it is none."""
        ...

    def read_spoken_text(self, message: bytes) -> str:
        """What a turn's message says, as texts are compared."""
        ...

    def replay(self, messages: Sequence[HistoryMessage], groups: Sequence[CallGroup]) -> list[Raw]:
        """The conversation with the hidden turns of some groups of its calls put back in."""
        ...

    def render_error(self, error: GatewayError) -> bytes:
        """An error as a whole body."""
        ...
