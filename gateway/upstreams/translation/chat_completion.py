"""A chat completion, whole or in chunks, as far as other dialects can carry it."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from gateway.errors import UpstreamInvalid
from gateway.json_scan import JsonScan
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
    usage: Any = None  # an object, but of some providers
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

    __slots__ = ("_fragments", "_scan", "_told", "has_id", "id", "is_custom", "is_named", "name", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.id = f"call_{position}"
        self.has_id = False  # the upstream gave it
        self.name = ""
        self.is_custom = False
        self.is_named = False  # the client knows it
        self._fragments: list[str] = []
        self._told = 0  # fragments that the client knows
        self._scan = JsonScan()

    def add(self, delta: ChatCall) -> None:
        """Add a fragment."""
        if delta.id and not self.has_id and not self.is_named:
            self.id, self.has_id = delta.id, True
        self.is_custom = self.is_custom or delta.custom is not None
        if delta.name != self.name and not self.is_named:
            self.name += delta.name
            if len(self.name) > MAX_NAME:
                raise UpstreamInvalid("The upstream sent a tool call whose name never ends.")
        if written := read_arguments(delta):
            self._fragments.append(written)
            self._scan.add(written)

    def take_untold(self) -> str:
        """The arguments that the client does not know yet."""
        untold = "".join(self._fragments[self._told :])
        self._told = len(self._fragments)
        return untold

    @property
    def is_complete(self) -> bool:
        """Whether nothing can be added to its arguments; the input of a custom tool has no end of its own."""
        return self.is_custom or (bool(self._fragments) and self._scan.is_complete)

    @property
    def arguments(self) -> str:
        return "".join(self._fragments)


class ToldCall(NamedTuple):
    """A call, and what the client may learn of its arguments now."""

    call: StreamedCall
    arguments: str


class CallSequence:
    """Tells the calls of a stream one after the other: while one is incomplete, those behind it wait.

    Some providers leave out `index`, some give every call index 0 with an id of its own, or none at all.
    """

    def __init__(self) -> None:
        self._calls: list[StreamedCall] = []
        self._by_index: dict[int, StreamedCall] = {}
        self._by_id: dict[str, StreamedCall] = {}
        self._front = 0  # the call that is being told

    @property
    def count(self) -> int:
        return len(self._calls)

    def take(self, delta: ChatCall) -> list[ToldCall]:
        """Add a fragment; returns what may be told now."""
        call = self._find(delta) or self._begin(delta)
        if call.position < self._front:
            if not read_arguments(delta).strip():
                return []
            raise UpstreamInvalid("The upstream went back to a tool call that another one had followed.")
        call.add(delta)
        if delta.id:
            self._by_id.setdefault(delta.id, call)
        return self._release()

    def settle(self) -> list[ToldCall]:
        """No more fragments come: what has waited for the end."""
        return self._release(is_over=True)

    def _release(self, *, is_over: bool = False) -> list[ToldCall]:
        told: list[ToldCall] = []
        while self._calls:
            call = self._calls[self._front]
            told.append(ToldCall(call, call.take_untold()))
            if self._front + 1 == self.count or not (is_over or call.is_complete):
                break
            self._front += 1
        return told

    def _find(self, delta: ChatCall) -> StreamedCall | None:
        """The call that a fragment continues, None if it begins one."""
        if delta.index is not None:
            call = self._by_index.get(delta.index)
        elif delta.id:
            return self._by_id.get(delta.id)
        else:
            call = self._calls[-1] if self._calls else None
        if call is None or (delta.id and call.has_id and delta.id != call.id):
            return None
        return None if delta.name and not delta.id and not call.is_custom and call.is_complete else call

    def _begin(self, delta: ChatCall) -> StreamedCall:
        if self.count >= MAX_CALLS:
            raise UpstreamInvalid(f"The upstream made more than {MAX_CALLS} tool calls in one turn.")
        call = StreamedCall(self.count)
        self._calls.append(call)
        if delta.index is not None:
            self._by_index[delta.index] = call
        return call


def iterate_thoughts(message: ChatMessage) -> Iterator[dict[str, Any]]:
    """Signed thinking blocks as Anthropic has them."""
    for block in message.thinking_blocks or ():
        yield {name: value for name, value in block.items() if name not in ("index", "offset")}
