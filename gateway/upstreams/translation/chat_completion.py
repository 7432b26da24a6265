"""A chat completion, whole or in chunks, as far as other dialects can carry it."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from gateway.errors import UpstreamInvalid
from gateway.upstreams.translation.carried_fields import UNREADABLE

MAX_CALLS: Final = 1000  # of one turn
MAX_NAME: Final = 1000  # characters of a tool's name
REASONING_FIELDS: Final = ("reasoning_content", "reasoning")


class CalledFunction(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class ChatCustom(msgspec.Struct):
    name: str | None = None
    input: str | None = None


class ChatCall(msgspec.Struct):
    """A call, or a fragment of one."""

    id: str | None = None
    index: int | None = None
    function: CalledFunction | None = None
    custom: ChatCustom | None = None  # a tool whose input is text

    @property
    def name(self) -> str:
        named = self.function or self.custom
        return (named.name if named is not None else None) or ""


class ToldThought(NamedTuple):
    """What a model thought, and the field of its message that says so."""

    field: str
    text: str


class ChatMessage(msgspec.Struct):
    """A message, or what a chunk adds to it."""

    content: Any = None
    refusal: str | None = None
    tool_calls: list[ChatCall] | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    thinking_blocks: list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text; some providers send parts."""
        if isinstance(self.content, list):
            return "".join(str(part.get("text") or "") for part in self.content if isinstance(part, dict))
        return self.content if isinstance(self.content, str) else ""

    def find_thought(self) -> ToldThought | None:
        """Its thoughts without a signature; of two fields the first, since they are copies."""
        for name in REASONING_FIELDS:
            told = getattr(self, name)
            if isinstance(told, str) and told:
                return ToldThought(name, told)
        return None


class ChatChoice(msgspec.Struct):
    message: ChatMessage | None = None
    delta: ChatMessage | None = None
    finish_reason: str | None = None
    stop_reason: Any = None  # the stop sequence, as some servers tell it
    logprobs: dict[str, Any] | None = None


class ChatDocument(msgspec.Struct):
    """A completion or a chunk."""

    id: str | None = None
    created: Any = None
    model: str | None = None
    choices: list[ChatChoice] | None = None
    usage: dict[str, Any] | None = None
    service_tier: str | None = None
    error: Any = None


decode_document = msgspec.json.Decoder(ChatDocument).decode


def decode_completion(body: bytes) -> ChatDocument:
    """A whole reply; raises UpstreamInvalid if it is no completion with a message."""
    try:
        document = decode_document(body)
    except UNREADABLE as fault:
        raise UpstreamInvalid("The upstream's reply is not a chat completion.") from fault
    if not document.choices or not document.choices[0].message:
        raise UpstreamInvalid("The upstream's reply is not a chat completion.")
    return document


def read_arguments(call: ChatCall) -> str:
    """The arguments of a call: JSON in a string, or the object itself, as some providers send it."""
    if call.custom is not None:
        return call.custom.input or ""
    value = call.function.arguments if call.function is not None else None
    return value if isinstance(value, str) else "" if value is None else msgspec.json.encode(value).decode()


class StreamedCall:
    """One call of a stream: its name is certain once arguments, another call or the end comes."""

    __slots__ = ("_fragments", "id", "is_custom", "is_named", "name", "position")

    def __init__(self, position: int, identity: str) -> None:
        self.position = position
        self.id = identity or f"call_{position}"
        self.name = ""
        self.is_custom = False
        self.is_named = False  # the client knows it
        self._fragments: list[str] = []

    def add(self, delta: ChatCall) -> str:
        """Add a fragment; returns its arguments."""
        self.is_custom = self.is_custom or delta.custom is not None
        if delta.name != self.name and not self.is_named:
            self.name += delta.name
            if len(self.name) > MAX_NAME:
                raise UpstreamInvalid("The upstream sent a tool call whose name never ends.")
        written = read_arguments(delta)
        if written:
            self._fragments.append(written)
        return written

    @property
    def arguments(self) -> str:
        return "".join(self._fragments)


class CallSequence:
    """Tells the calls of a stream apart, one after the other.

    Some providers leave out `index`, some give every call index 0 with an id of its own.
    """

    def __init__(self) -> None:
        self._by_index: dict[int, StreamedCall] = {}
        self.current: StreamedCall | None = None
        self.count = 0

    def find(self, delta: ChatCall) -> StreamedCall:
        """The call that a fragment belongs to; a new one becomes the current one."""
        call = self._by_index.get(delta.index) if delta.index is not None else self.current
        begins = call is None or bool(delta.id and delta.id != call.id)
        if call is not None and not begins:
            if call is not self.current:
                raise UpstreamInvalid("The upstream went back to a tool call that another one had followed.")
            return call
        if self.count >= MAX_CALLS:
            raise UpstreamInvalid(f"The upstream made more than {MAX_CALLS} tool calls in one turn.")
        self.current = StreamedCall(self.count, delta.id or "")
        self.count += 1
        if delta.index is not None:
            self._by_index[delta.index] = self.current
        return self.current


def iterate_thoughts(message: ChatMessage) -> Iterator[dict[str, Any]]:
    """Signed thinking blocks as Anthropic has them."""
    for block in message.thinking_blocks or ():
        yield {name: value for name, value in block.items() if name not in ("index", "offset")}
