"""Whole messages: reading a turn, and one message for the client."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.turn import TEXT_SEPARATOR, FunctionCall, LoopPlan, Turn, TurnCall, TurnStart, has_value
from gateway.errors import UpstreamInvalid

NO_MESSAGE = "The upstream's reply is not a message."
UNREADABLE_REPLY = (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError)
CUT_SHORT_REASONS = ("max_tokens", "model_context_window_exceeded", "refusal")  # the model did not finish its turn
MAX_TURN_CALLS = 1000  # of one turn

_encode = msgspec.json.Encoder().encode
_decode_object: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_raws: Callable[[Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode
_decode = msgspec.json.decode


class ReadBlock(msgspec.Struct):
    """A block as far as the loop has to look."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Raw = Raw(b"{}")


class _AnsweringMessage(msgspec.Struct):
    """A message as far as the loop has to look at one without calls."""

    content: list[ReadBlock]
    stop_reason: Any = None
    usage: dict[str, Any] | None = None


_read_message = msgspec.json.Decoder(_AnsweringMessage).decode
_decode_block = msgspec.json.Decoder(ReadBlock).decode


class ShownBlock(msgspec.Struct):
    """A block of a turn, and whether the client sees it."""

    raw: Raw
    read: ReadBlock
    own: bool = False


class MessageReply(msgspec.Struct, frozen=True):
    """The reply of one turn."""

    body: bytes
    top: dict[str, Any]
    blocks: list[ShownBlock]


class MessagesReplyView:
    """One message for the client, made of those of all turns."""

    def __init__(self, plan: LoopPlan) -> None:
        self._last_text_only = plan.last_text_only
        self._replies: list[MessageReply] = []  # of the turns so far
        self._answer: bytes | None = None  # the first reply, if it calls nothing

    def take(self, body: bytes, start: TurnStart) -> Turn:
        """Read the reply of one turn."""
        if not self._replies and (answer := read_answer(body)) is not None:
            self._answer = body
            return answer
        try:
            top = _decode_object(body)
            blocks = [ShownBlock(raw, _decode_block(raw)) for raw in _decode_raws(top["content"])]
            turn = read_turn(blocks, top, start.own_names)
        except UNREADABLE_REPLY as fault:
            raise UpstreamInvalid(NO_MESSAGE) from fault
        self._replies.append(MessageReply(body, top, blocks))
        return turn

    def hide_turn(self) -> None:
        if self._last_text_only:
            blocks = self._replies[-1].blocks
            blocks[:] = [block for block in blocks if block.read.type != "text"]

    def finish(self, turn: Turn, usage: dict[str, Any] | None) -> bytes:
        """The last message with the blocks of all turns, as the continuation of the first."""
        if self._answer is not None:
            return self._answer
        if len(self._replies) == 1 and not turn.own_calls:
            return self._replies[0].body
        first, last = self._replies[0].top, self._replies[-1].top
        shown = last | {key: first[key] for key in ("id", "model") if key in first}
        shown["content"] = self._join_blocks()
        if turn.gave_up:
            shown["stop_reason"] = "end_turn"
        if usage is not None:
            shown["usage"] = usage
        return _encode(shown)

    def _join_blocks(self) -> list[Raw]:
        """What all turns said and the client's calls; texts of several turns have a blank line between them."""
        joined: list[Raw] = []
        spoken = False
        for reply in self._replies:
            separated = spoken
            for block in reply.blocks:
                if block.own:
                    continue
                if block.read.type == "text" and block.read.text:
                    joined.append(separate(block) if separated else block.raw)
                    separated, spoken = False, True
                else:
                    joined.append(block.raw)
        return joined


def read_answer(body: bytes) -> Turn | None:
    """The turn of a message that calls nothing, read in one pass; None for any other, and for what is no message."""
    try:
        body.isascii() or body.decode()
        read = _read_message(body)
    except UNREADABLE_REPLY:
        return None
    texts = []
    for block in read.content:
        if block.type == "text":
            texts.append(block.text)
        elif block.type == "tool_use":
            return None
    return Turn(b"", [], "".join(texts), read.stop_reason in CUT_SHORT_REASONS, read.usage)


def read_turn(blocks: list[ShownBlock], top: dict[str, Any], own_names: frozenset[str]) -> Turn:
    """What the loop has to know; marks the blocks that are calls of ours."""
    calls: list[TurnCall] = []
    for block in blocks:
        if block.read.type == "tool_use":
            block.own = block.read.name in own_names
            call = FunctionCall(block.read.id, block.read.name, bytes(block.read.input).decode())
            calls.append(TurnCall(call, block.own))
    check_number(len(calls))
    return Turn(
        message=_encode({"role": "assistant", "content": top["content"]}) if calls else b"",
        calls=calls,
        text="".join(block.read.text for block in blocks if block.read.type == "text"),
        cut_short=_decode(top.get("stop_reason", b"null")) in CUT_SHORT_REASONS,
        usage=_decode(top["usage"], type=dict) if has_value(top, "usage") else None,
    )


def check_number(calls: int) -> None:
    """Raises UpstreamInvalid if a turn has more calls than any model makes."""
    if calls > MAX_TURN_CALLS:
        raise UpstreamInvalid(f"The upstream made more than {MAX_TURN_CALLS} tool calls in one turn.")


def separate(block: ShownBlock) -> Raw:
    """A text that follows that of an earlier turn."""
    return Raw(_encode({**_decode_object(block.raw), "text": TEXT_SEPARATOR + block.read.text}))
