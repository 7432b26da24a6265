"""The turn loop for whole replies."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.calls import ToolCall, check_number
from gateway.conversation.loop import JOINED_FIELDS, TEXT_SEPARATOR, NextTurnStep, Step, Turn, TurnLoop, has_value
from gateway.domain.tool_result import ToolResult
from gateway.errors import UpstreamInvalid

RawObject = dict[str, Any]  # a JSON object whose values are still raw

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_raws = msgspec.json.Decoder(list[Raw]).decode
_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class ChatCompletion:
    """The reply of one turn, decoded as far as its first choice."""

    body: bytes
    top: RawObject
    choice: RawObject
    message: RawObject


@dataclass
class ReplyLoop(TurnLoop):
    """One exchange answered with a single JSON document."""

    _replies: list[ChatCompletion] = field(default_factory=list)  # of the turns so far

    def take(self, body: bytes) -> Step:
        """Take the whole reply of one upstream call; raises UpstreamInvalid if it is none or too long."""
        self._count(body)
        try:
            reply = decode_completion(body)
            turn = self._read_turn(reply)
            self._replies.append(reply)
            return self._decide(turn)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError, IndexError, TypeError) as fault:
            raise UpstreamInvalid("The upstream's reply is not a chat completion.") from fault

    def resume(self, results: list[ToolResult]) -> Step:
        step = super().resume(results)
        if isinstance(step, NextTurnStep) and self.plan.last_text_only:
            self._replies[-1].message.pop("content", None)
        return step

    def _read_turn(self, reply: ChatCompletion) -> Turn:
        top, choice, message = reply.top, reply.choice, reply.message
        raws = _decode_raws(message["tool_calls"]) if has_value(message, "tool_calls") else []
        check_number(len(raws))
        calls = [ToolCall(_decode(raw, type=dict)) for raw in raws]
        for call in calls:
            call.own = call.name in self.plan.own_names
        without_id = [position for position, call in enumerate(calls) if call.own and not call.id]
        for position in without_id:
            calls[position].parts["id"] = f"call_{self.turns}_{position}"
            raws[position] = Raw(_encode(calls[position].parts))
        if without_id:
            message["tool_calls"] = Raw(_encode(raws))
        return Turn(
            message=_encode(message) if without_id else bytes(choice["message"]),
            calls=calls,
            text=read_text(message.get("content")),
            finish_reason=_decode(choice.get("finish_reason", b"null")),
            usage=_decode(top["usage"], type=dict) if has_value(top, "usage") else None,
        )

    def _build_last_bytes(self, turn: Turn) -> bytes:
        first, last = self._replies[0].top, self._replies[-1]
        if self.turns == 1 and not turn.own_calls:
            return last.body
        shown = last.top | {key: first[key] for key in ("id", "created", "model") if key in first}
        shown["choices"] = [{**last.choice, "message": self._join_messages(turn), "finish_reason": turn.finish_reason}]
        logprobs = self._join_logprobs()
        if logprobs is not None:
            shown["choices"][0]["logprobs"] = logprobs
        if self.usage is not None:
            shown["usage"] = self.usage
        return _encode(shown)

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
            if len(texts) > 1 or (texts and not has_value(message, name)):
                message[name] = TEXT_SEPARATOR.join(texts)
        if turn.client_calls:
            raws = _decode_raws(message["tool_calls"])
            message["tool_calls"] = [raw for raw, call in zip(raws, turn.calls, strict=True) if not call.own]
        else:
            message.pop("tool_calls", None)
        return message


def decode_completion(body: bytes) -> ChatCompletion:
    top = _decode_object(body)
    choice = _decode_objects(top["choices"])[0]
    return ChatCompletion(body, top, choice, _decode_object(choice["message"]))


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
