"""A chat history: its messages, its calls, and which result belongs to which call."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.history import (
    ASSISTANT,
    INSTRUCTIONS,
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
    read_arguments,
    read_content,
    read_text,
    strip_spaces,
)


class _ReadFunction(msgspec.Struct):
    name: Any = None
    arguments: Raw = NULL


class _ReadCall(msgspec.Struct):
    id: Any = None
    function: _ReadFunction | None = None


class _ReadMessage(msgspec.Struct):
    role: str | None = None
    content: Raw = NULL
    tool_calls: list[Raw] | None = None
    tool_call_id: str | None = None


class _CallingMessage(msgspec.Struct):
    tool_calls: list[Raw]


_decode_call = msgspec.json.Decoder(_ReadCall).decode
_decode_message = msgspec.json.Decoder(_ReadMessage).decode
_decode_calling = msgspec.json.Decoder(_CallingMessage).decode


def read_history(messages: Sequence[Raw]) -> History | None:
    """The messages and calls of a conversation; None if it is too long to be read."""
    reader = ChatHistoryReader()
    return History(reader.messages, reader.calls) if reader.read(messages) else None


class ChatHistoryReader:
    """Reads messages one after the other and finds out which result belongs to which call."""

    def __init__(self) -> None:
        self.messages: list[HistoryMessage] = []
        self.calls: list[HistoryCall] = []
        self._run = 0
        self._waiting: dict[str, deque[HistoryCall]] = {}  # calls without a result, by id

    def read(self, raws: Sequence[Raw]) -> bool:
        """Whether the history was read; very long ones are not."""
        if len(raws) > MAX_HISTORY_MESSAGES:
            return False
        for raw in raws:
            self._read_message(raw)
            if len(self.calls) > MAX_HISTORY_CALLS:
                return False
        return True

    def _read_message(self, raw: Raw) -> None:
        try:
            seen = _decode_message(raw)
            marks = [read_mark(call) for call in seen.tool_calls or ()]
        except UNREADABLE:
            seen, marks = _ReadMessage("", raw), []  # nothing that we ever sent: it counts as it is
        role = seen.role or ""
        if role not in (ASSISTANT, RESULT, *INSTRUCTIONS):
            self._run += 1
            self._waiting.clear()
        message = HistoryMessage(raw, role, self._run, read_content(seen.content))
        self.messages.append(message)
        if role == ASSISTANT:
            for mark, call in zip(marks, seen.tool_calls or (), strict=True):
                self._add_call(message, mark, call)
        elif role == RESULT:
            self._add_result(message, seen.tool_call_id or "")

    def _add_call(self, message: HistoryMessage, mark: CallMark, raw: Raw) -> None:
        call = HistoryCall(mark, raw, len(self.calls), message)
        message.calls.append(call)
        self.calls.append(call)
        self._waiting.setdefault(mark.id, deque()).append(call)

    def _add_result(self, message: HistoryMessage, identity: str) -> None:
        """Of several calls with one id the first is answered first."""
        waiting = self._waiting.get(identity)
        if waiting:
            message.answered = waiting.popleft()
            message.answered.result = message.content


def read_mark(call: Raw) -> CallMark:
    """The mark of a call as a message carries it; raises UNREADABLE if it is none."""
    seen = _decode_call(call)
    function = seen.function or _ReadFunction()
    return mark_call(str(seen.id or ""), str(function.name or ""), read_arguments(function.arguments))


def decode_calls(message: Raw) -> list[Raw]:
    """The calls of a hidden message; each has some."""
    return _decode_calling(message).tool_calls


def read_spoken_text(message: bytes) -> str:
    """What an assistant's message says, as texts are compared."""
    try:
        return strip_spaces(read_text(_decode_message(message).content))
    except UNREADABLE:
        return ""
