"""The tool loop for whole replies."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.calls import ToolCall
from gateway.conversation.loop import JOINED, JOINER, CallAgain, Step, Turn, TurnLoop
from gateway.errors import UpstreamInvalid

Object = dict[str, Any]  # a JSON object whose values are still raw

_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_raws = msgspec.json.Decoder(list[Raw]).decode
_decode = msgspec.json.decode


@dataclass
class ReplyLoop(TurnLoop):
    """One exchange answered with a single JSON document."""

    _first: Object = field(default_factory=dict)
    _said: list[Object] = field(default_factory=list)  # messages of the turns so far
    _logprobs: Any = None
    _reply: tuple[bytes, Object, Object] = (b"", {}, {})

    def take(self, body: bytes) -> Step:
        """Take the whole reply of one upstream call; raises UpstreamInvalid if it is none."""
        try:
            top = _decode_object(body)
            choice = _decode_objects(top["choices"])[0]
            message = _decode_object(choice["message"])
            turn = self._read(top, choice, message)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError, IndexError) as fault:
            raise UpstreamInvalid("The upstream's reply is not a chat completion.") from fault
        self._first = self._first or top
        self._said.append(message)
        self._reply = body, top, choice
        if "logprobs" in choice:
            self._logprobs = joined_logprobs(self._logprobs, _decode(choice["logprobs"]))
        return self._decide(turn)

    def resume(self, results: list[str]) -> Step:
        step = super().resume(results)
        if isinstance(step, CallAgain) and self.plan.last_text_only:
            self._said[-1].pop("content", None)
        return step

    def _read(self, top: Object, choice: Object, message: Object) -> Turn:
        raws = _decode_raws(message["tool_calls"]) if is_given(message.get("tool_calls")) else []
        calls = [ToolCall(_decode(raw, type=dict)) for raw in raws]
        for call in calls:
            call.own = call.name in self.plan.own_names
        nameless = [position for position, call in enumerate(calls) if call.own and not call.id]
        for position in nameless:
            calls[position].parts["id"] = f"call_{self.turns}_{position}"
            raws[position] = Raw(_encode(calls[position].parts))
            message["tool_calls"] = Raw(_encode(raws))
        return Turn(
            message=_encode(message) if nameless else bytes(choice["message"]),
            calls=calls,
            text=text_of(message.get("content")),
            finish_reason=_decode(choice.get("finish_reason", b"null")),
            usage=_decode(top["usage"], type=dict) if is_given(top.get("usage")) else None,
        )

    def _last_bytes(self, turn: Turn) -> bytes:
        body, top, choice = self._reply
        if self.turns == 1 and not turn.own:
            return body
        message = self._joined_message(turn)
        shown = top | {key: self._first[key] for key in ("id", "created", "model") if key in self._first}
        shown["choices"] = [{**choice, "message": message, "finish_reason": turn.finish_reason}]
        if self._logprobs is not None:
            shown["choices"][0]["logprobs"] = self._logprobs
        if self.usage is not None:
            shown["usage"] = self.usage
        return _encode(shown)

    def _joined_message(self, turn: Turn) -> Object:
        """The last turn's message with the texts of all turns and the client's calls only."""
        message = {**self._said[-1]}
        for name in JOINED:
            texts = [text for said in self._said if (text := text_of(said.get(name)))]
            if len(texts) > 1 or (texts and not is_given(message.get(name))):
                message[name] = JOINER.join(texts)
        if turn.client:
            raws = _decode_raws(message["tool_calls"])
            message["tool_calls"] = [raw for raw, call in zip(raws, turn.calls, strict=True) if not call.own]
        else:
            message.pop("tool_calls", None)
        return message


def is_given(value: Raw | None) -> bool:
    return value is not None and bytes(value) != b"null"


def text_of(raw: Raw | None) -> str:
    """The text of a message field: a string, or the text parts of a list."""
    value = _decode(raw) if raw is not None else None
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else []
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def joined_logprobs(one: Any, other: Any) -> Any:
    """Log probabilities of several turns: their token lists one after the other."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other if other is not None else one
    return {
        key: [*one[key], *value] if isinstance(value, list) and isinstance(one.get(key), list) else value
        for key, value in other.items()
    }
