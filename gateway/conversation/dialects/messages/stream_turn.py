"""One turn of a stream: its blocks, put together only if the message is needed."""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.messages.reply import CUT_SHORT_REASONS, check_number
from gateway.conversation.turn import FunctionCall, Turn, TurnCall
from gateway.errors import UpstreamInvalid

MAX_BLOCKS = 10_000  # of one message
# Which field of a block the deltas of a kind add to, and in which of their own fields.
GROWING = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}

_encode = msgspec.json.Encoder().encode


class BlockHead(msgspec.Struct):
    type: str = ""
    name: str = ""


class BlockDelta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: Raw = Raw(b"null")


_decode_head = msgspec.json.Decoder(BlockHead).decode
_decode_delta = msgspec.json.Decoder(BlockDelta).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode = msgspec.json.decode


class StreamBlock(msgspec.Struct):
    """A block of a stream: how it began, and its deltas as they came."""

    start: Raw
    own: bool
    head: BlockHead
    told: int = 0  # its index in the upstream's stream
    index: int = -1  # that the client sees; -1: it has not begun there
    deltas: list[Raw] = msgspec.field(default_factory=list)

    @property
    def is_call(self) -> bool:
        return self.head.type == "tool_use"

    def build(self) -> dict[str, Any]:
        """The whole block; fields that providers add are kept."""
        block: dict[str, Any] = dict(_decode_fields(self.start))
        texts: dict[str, list[str]] = {}
        citations: list[Raw] = []
        for raw in self.deltas:
            delta = _decode_delta(raw)
            if name := GROWING.get(delta.type):
                texts.setdefault(name, []).append(getattr(delta, name))
            elif delta.type == "input_json_delta":
                texts.setdefault("input", []).append(delta.partial_json)
            elif delta.type == "citations_delta":
                citations.append(delta.citation)
        for name, pieces in texts.items():
            if name == "input":
                written = "".join(pieces).strip()
                block[name] = Raw(written.encode()) if written else block.get(name, Raw(b"{}"))
            else:
                block[name] = (_decode(block[name], type=str) if name in block else "") + "".join(pieces)
        if citations:
            block["citations"] = citations
        return block


class MessageTurn(msgspec.Struct):
    """What is known of the turn whose stream is being read."""

    blocks: list[StreamBlock] = msgspec.field(default_factory=list)
    by_index: dict[int, StreamBlock] = msgspec.field(default_factory=dict)
    usage: dict[str, Any] = msgspec.field(default_factory=dict)
    stop_reason: str | None = None
    finish: dict[str, Any] | None = None  # the event that says why the model stopped
    finish_event: bytes = b""  # the same as it came
    done: bool = False
    has_own_calls: bool = False
    spoken: bool = False  # the client saw text of this turn
    held: list[tuple[StreamBlock, dict[str, Any]]] = []  # events that wait, with their blocks

    def begin_block(self, index: int, start: Raw, own_names: frozenset[str]) -> StreamBlock:
        if len(self.blocks) >= MAX_BLOCKS:
            raise UpstreamInvalid(f"The upstream sent a message with more than {MAX_BLOCKS} blocks.")
        head = _decode_head(start)
        block = StreamBlock(start, head.type == "tool_use" and head.name in own_names, head, index)
        self.blocks.append(block)
        self.by_index[index] = block
        self.has_own_calls = self.has_own_calls or block.own
        return block

    def add_usage(self, usage: Raw) -> None:
        """Counts of a later event are totals, not additions."""
        told = _decode(usage, type=dict[str, Any] | None) or {}
        self.usage |= {name: value for name, value in told.items() if value is not None}

    def build(self) -> Turn:
        """The turn; its message is put together only if it has calls."""
        built = [block.build() for block in self.blocks] if any(block.is_call for block in self.blocks) else []
        calls = [
            TurnCall(read_call(fields), block.own)
            for block, fields in zip(self.blocks, built, strict=False)
            if block.is_call
        ]
        check_number(len(calls))
        texts = (read_text(fields["text"]) for fields in built if "text" in fields)
        return Turn(
            message=_encode({"role": "assistant", "content": built}) if calls else b"",
            calls=calls,
            text="".join(texts),
            cut_short=self.stop_reason in CUT_SHORT_REASONS,
            usage=self.usage or None,
        )


def read_text(value: Any) -> str:
    return _decode(value, type=str) if isinstance(value, Raw) else str(value)


def read_call(fields: dict[str, Any]) -> FunctionCall:
    arguments = fields.get("input", Raw(b"{}"))
    try:
        _decode(arguments, type=dict[str, Raw])
    except (msgspec.MsgspecError, RecursionError):
        fields["input"] = Raw(b"{}")  # cut short: it cannot go back as it is
        arguments = bytes(arguments)
    return FunctionCall(read_text(fields["id"]), read_text(fields["name"]), bytes(arguments).decode())
