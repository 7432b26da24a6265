"""A history of messages: its calls, and which result belongs to which call.

Results stand in messages of the user. Each is read as a message of its own, so that a history counts the same in all
dialects; what else the user says in the same message follows them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.messages.request import RESULT as RESULT_BLOCK
from gateway.conversation.dialects.messages.transcript import is_call
from gateway.conversation.history import (
    ASSISTANT,
    MAX_HISTORY_CALLS,
    MAX_HISTORY_MESSAGES,
    NULL,
    RESULT,
    UNREADABLE,
    CallMark,
    History,
    HistoryCall,
    HistoryMessage,
    mark_call,
    read_content,
    read_text,
    strip_spaces,
)

USER = "user"
THOUGHTS = ("thinking", "redacted_thinking")  # clients drop them, and the signatures that they carry

_encode = msgspec.json.Encoder().encode
_decode_raws: Callable[[Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode
_decode_fields: Callable[[Raw], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode


class _RoleMessage(msgspec.Struct):
    role: str | None = None
    content: Raw = NULL


class _PastBlock(msgspec.Struct):
    type: str | None = None
    id: Any = None
    name: Any = None
    input: Raw = Raw(b"{}")
    tool_use_id: Any = None
    content: Raw = NULL


_decode_message = msgspec.json.Decoder(_RoleMessage).decode
_decode_block = msgspec.json.Decoder(_PastBlock).decode


def read_history(messages: Sequence[Raw]) -> History | None:
    """The messages and calls of a conversation; None if it is too long to be read."""
    if len(messages) > MAX_HISTORY_MESSAGES:
        return None
    reader = MessagesHistoryReader()
    for raw in messages:
        reader.add(raw)
        if len(reader.calls) > MAX_HISTORY_CALLS:
            return None
    return History(reader.messages, reader.calls)


class MessagesHistoryReader:
    """Reads messages one after the other and finds out which result belongs to which call."""

    def __init__(self) -> None:
        self.messages: list[HistoryMessage] = []
        self.calls: list[HistoryCall] = []
        self._run = 0
        self._waiting: dict[str, deque[HistoryCall]] = {}  # calls without a result, by id

    def add(self, raw: Raw) -> None:
        try:
            seen = _decode_message(raw)
            raws = _decode_raws(seen.content) if bytes(seen.content)[:1] == b"[" else None
            blocks = [_decode_block(block) for block in raws or ()]
        except UNREADABLE:
            self._say(raw, "", raw)  # nothing that we ever sent: it counts as it is
            return
        if raws is None:
            self._say(raw, seen.role or "", seen.content)
        elif seen.role == ASSISTANT:
            self._add_assistant(raw, raws, blocks)
        else:
            self._add_user(raw, seen.role or "", raws, blocks)

    def _say(self, raw: Raw, role: str, content: Raw) -> HistoryMessage:
        if role not in (ASSISTANT, "system"):
            self._run += 1
            self._waiting.clear()
        message = HistoryMessage(raw, role, self._run, read_content(content))
        self.messages.append(message)
        return message

    def _add_assistant(self, raw: Raw, raws: list[Raw], blocks: list[_PastBlock]) -> None:
        pairs = list(zip(raws, blocks, strict=True))
        said = [block for block, read in pairs if read.type != "tool_use" and read.type not in THOUGHTS]
        message = self._say(raw, ASSISTANT, Raw(_encode(said)))
        for block, read in pairs:
            if read.type == "tool_use":
                call = HistoryCall(mark_block(read), block, len(self.calls), message)
                message.calls.append(call)
                self.calls.append(call)
                self._waiting.setdefault(call.mark.id, deque()).append(call)

    def _add_user(self, raw: Raw, role: str, raws: list[Raw], blocks: list[_PastBlock]) -> None:
        rest: list[Raw] = []
        for block, read in zip(raws, blocks, strict=True):
            if read.type != RESULT_BLOCK:
                rest.append(block)
                continue
            result = HistoryMessage(block, RESULT, self._run, read_content(read.content))
            self.messages.append(result)
            waiting = self._waiting.get(str(read.tool_use_id or ""))
            if waiting:
                result.answered = waiting.popleft()
                result.answered.result = result.content
        if len(rest) == len(raws):
            self._say(raw, role, Raw(_encode(rest)))
        elif rest:
            self._say(Raw(_encode({**_decode_fields(raw), "content": rest})), role, Raw(_encode(rest)))


def is_thought(block: Raw) -> bool:
    return _decode_block(block).type in THOUGHTS


def mark_block(block: _PastBlock) -> CallMark:
    return mark_call(str(block.id or ""), str(block.name or ""), bytes(block.input).decode())


def read_mark(call: Raw) -> CallMark:
    """The mark of a call as a message carries it; raises UNREADABLE if it is none."""
    return mark_block(_decode_block(call))


def decode_calls(message: Raw) -> list[Raw]:
    """The calls of a hidden message; each has some."""
    return [block for block in _decode_raws(_decode_message(message).content) if is_call(block)]


def read_spoken_text(message: bytes) -> str:
    """What an assistant's message says, as texts are compared."""
    try:
        return strip_spaces(read_text(_decode_message(message).content))
    except UNREADABLE:
        return ""
