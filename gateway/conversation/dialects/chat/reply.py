"""Whole chat completions: reading a turn, and one completion for the client."""

from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.chat.calls import ToolCall, check_number
from gateway.conversation.turn import TEXT_SEPARATOR, LoopPlan, Turn, TurnStart, has_value
from gateway.errors import UpstreamInvalid

NO_COMPLETION = "The upstream's reply is not a chat completion."
UNREADABLE_REPLY = (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError, IndexError, TypeError)
RawObject = dict[str, Any]  # a JSON object whose values are still raw

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_raws = msgspec.json.Decoder(list[Raw]).decode
_decode = msgspec.json.decode


class ChatCompletion(msgspec.Struct, frozen=True):
    """The reply of one turn, decoded as far as its first choice."""

    body: bytes
    top: RawObject
    choice: RawObject
    message: RawObject


CUT_SHORT_REASONS = ("length", "content_filter")  # the model did not finish what it was saying
NO_TEXT = (b"", b"null", b'""', b"[]")  # what a message with nothing but calls has for its text
JOINED_FIELDS = ("content", "reasoning_content", "reasoning", "refusal")  # texts of a message that turns add to


class ChatReplyView:
    """One completion for the client, made of those of all turns."""

    def __init__(self, plan: LoopPlan) -> None:
        self._last_text_only = plan.last_text_only
        self._replies: list[ChatCompletion] = []  # of the turns so far

    def take(self, body: bytes, start: TurnStart) -> Turn:
        """Read the reply of one turn."""
        try:
            reply = decode_completion(body)
            turn = read_turn(reply, start)
        except UNREADABLE_REPLY as fault:
            raise UpstreamInvalid(NO_COMPLETION) from fault
        self._replies.append(reply)
        return turn

    def hide_turn(self) -> None:
        if self._last_text_only:
            self._replies[-1].message.pop("content", None)

    def finish(self, turn: Turn, usage: dict[str, Any] | None) -> bytes:
        """The last completion with the texts of all turns, as the continuation of the first."""
        if len(self._replies) == 1 and not turn.own_calls:
            return self._replies[0].body
        try:
            return _encode(self._join_replies(turn, usage))
        except UNREADABLE_REPLY as fault:
            raise UpstreamInvalid(NO_COMPLETION) from fault

    def _join_replies(self, turn: Turn, usage: dict[str, Any] | None) -> RawObject:
        first, last = self._replies[0].top, self._replies[-1]
        shown = last.top | {key: first[key] for key in ("id", "created", "model") if key in first}
        finish_reason = "stop" if turn.gave_up else last.choice.get("finish_reason")
        shown["choices"] = [{**last.choice, "message": self._join_messages(turn), "finish_reason": finish_reason}]
        logprobs = self._join_logprobs()
        if logprobs is not None:
            shown["choices"][0]["logprobs"] = logprobs
        if usage is not None:
            shown["usage"] = usage
        return shown

    def _join_logprobs(self) -> Any:
        """Those of every turn whose text is shown; what a hidden turn said otherwise has none."""
        joined: Any = None
        for reply in self._replies:
            is_shown = reply is self._replies[-1] or read_text(reply.message.get("content"))
            if is_shown and "logprobs" in reply.choice:
                joined = join_logprobs(joined, _decode(reply.choice["logprobs"]))
        return joined

    def _join_messages(self, turn: Turn) -> RawObject:
        """The last turn's message with the texts of all turns and the client's calls only."""
        message = {**self._replies[-1].message}
        for name in JOINED_FIELDS:
            texts = [text for reply in self._replies if (text := read_text(reply.message.get(name)))]
            if len(texts) > 1 or (texts and bytes(message.get(name, b"")) in NO_TEXT):
                message[name] = TEXT_SEPARATOR.join(texts)
        if turn.client_calls:
            raws = _decode_raws(message["tool_calls"])
            message["tool_calls"] = [raw for raw, call in zip(raws, turn.calls, strict=True) if not call.own]
        else:
            message.pop("tool_calls", None)
        return message


def read_turn(reply: ChatCompletion, start: TurnStart) -> Turn:
    """What the loop has to know; calls of ours get an id if they have none."""
    top, choice, message = reply.top, reply.choice, reply.message
    raws = _decode_raws(message["tool_calls"]) if has_value(message, "tool_calls") else []
    check_number(len(raws))
    calls = [ToolCall(_decode(raw, type=dict)) for raw in raws]
    for call in calls:
        call.own = call.name in start.own_names
    without_id = [position for position, call in enumerate(calls) if call.own and not call.id]
    for position in without_id:
        calls[position].parts["id"] = f"call_{start.number}_{position}"
        raws[position] = Raw(_encode(calls[position].parts))
    if without_id:
        message["tool_calls"] = Raw(_encode(raws))
    return Turn(
        message=_encode(message) if without_id else bytes(choice["message"]),
        calls=[call.make_turn_call() for call in calls],
        text=read_text(message.get("content")),
        cut_short=_decode(choice.get("finish_reason", b"null")) in CUT_SHORT_REASONS,
        usage=read_usage(top.get("usage")),
    )


def decode_completion(body: bytes) -> ChatCompletion:
    top = _decode_object(body)
    choice = _decode_objects(top["choices"])[0]
    return ChatCompletion(body, top, choice, _decode_object(choice["message"]))


def read_usage(raw: Raw | None) -> dict[str, Any] | None:
    """What a reply or a chunk says that it used; anything but an object says nothing."""
    told = _decode(raw) if raw is not None else None
    return told if isinstance(told, dict) else None


def read_text(raw: Raw | None) -> str:
    """The text of a message field: a string, or the text parts of a list."""
    value = _decode(raw) if raw is not None else None
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else []
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def join_logprobs(one: Any, other: Any) -> Any:
    """Log probabilities of several turns: their token lists one after the other."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other if other is not None else one
    return {
        key: [*one[key], *value] if isinstance(value, list) and isinstance(one.get(key), list) else value
        for key, value in other.items()
    }
