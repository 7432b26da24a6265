"""Hashes of a history up to some point: under them hidden turns are stored and found again."""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.dialect import Dialect
from gateway.conversation.history import (
    ASSISTANT,
    INSTRUCTIONS,
    RESULT,
    CallMark,
    HistoryCall,
    HistoryMessage,
    frame,
)

LONG_RESULT = 1024  # bytes from which a result is hashed by itself
PREFIX = "turn:"  # of keys; those of an earlier format begin with "hidden:"


class HistoryHash:
    """Two hashes, fed once per message.

    The exact one covers all that a client sends again as it was. The lenient one leaves out what clients change: call
    ids, system messages (they carry times and notes), and what the assistant says besides its calls.
    """

    def __init__(self, owner: bytes) -> None:
        self._exact = hashlib.sha256(b"exact" + owner)
        self._lenient = hashlib.sha256(b"lenient" + owner)
        self._spoken: list[str] = []  # the assistant's texts since its last call

    def add_message(self, message: HistoryMessage) -> None:
        """Add a message without its calls; results belong to their calls."""
        if message.role == ASSISTANT:
            self.add_text(message.text)
        elif message.role in INSTRUCTIONS:
            self._exact.update(frame(b"s", message.content))
        elif message.role != RESULT:
            self._end_answer()
            self._feed_both(b"m" + message.role.encode(), message.content)
        elif message.answered is None:
            self._feed_both(b"r", message.content)

    def add_text(self, text: str) -> None:
        """Add what the assistant says; texts that follow each other are one."""
        if text:
            self._spoken.append(text)

    def add_call(self, call: HistoryCall) -> None:
        """Add a call with its result."""
        result = b"-" if call.result is None else frame(b"r", call.result)
        if len(result) > LONG_RESULT:
            result = hashlib.sha256(result).digest()  # rather than twice
        meaning = call.mark.meaning
        self._exact.update(frame(b"c", (self._text, call.mark.id.encode(), meaning, result)))
        self._lenient.update(frame(b"c", (meaning, result)))
        self._spoken.clear()

    def make_exact_key(self, calls: Sequence[CallMark]) -> str:
        """The key of an assistant's message with these calls at this point, in whatever order they are."""
        made = self._exact.copy()
        marks = sorted([call.meaning + call.id.encode() for call in calls])
        made.update(frame(b"k", (self._text, *marks)))
        return PREFIX + made.hexdigest()

    def make_lenient_key(self, first: CallMark) -> str:
        """The key of whatever was said at this point and has this call as its first."""
        made = self._lenient.copy()
        made.update(b"k" + first.meaning)
        return PREFIX + made.hexdigest()

    @property
    def _text(self) -> bytes:
        return "".join(self._spoken).encode() if self._spoken else b""

    def _end_answer(self) -> None:
        """A text that no call followed was an answer."""
        if self._spoken:
            self._feed_both(b"a", [self._text])
            self._spoken.clear()

    def _feed_both(self, tag: bytes, parts: Sequence[bytes]) -> None:
        data = frame(tag, parts)
        self._exact.update(data)
        self._lenient.update(data)


class TurnKeys(msgspec.Struct, frozen=True):
    """Under what a hidden turn is stored."""

    exact: str  # for a client that sends back what it got
    lenient: str  # for one that renamed ids, changed texts, or split or joined messages


def make_turn_keys(
    dialect: Dialect, owner: bytes, messages: Sequence[Raw], text: str, calls: Sequence[CallMark]
) -> TurnKeys | None:
    """The keys of a turn in which the client saw this text and these calls after its messages.

    None if the messages are more than is ever read.
    """
    history = dialect.read_history(messages)
    if history is None:
        return None
    hashes = HistoryHash(owner)
    for message in history.messages:
        add_whole_message(hashes, message)
    hashes.add_text(text)
    return TurnKeys(hashes.make_exact_key(calls), hashes.make_lenient_key(calls[0]))


class HistoryKeys(msgspec.Struct, frozen=True):
    """A history with the keys of what may be hidden in it, each by the number of the call that it begins with."""

    messages: list[HistoryMessage]
    calls: list[HistoryCall]
    exact: dict[int, str]
    lenient: dict[int, str]


def find_keys(dialect: Dialect, owner: bytes, messages: Sequence[Raw]) -> HistoryKeys | None:
    """The keys of every call in a history; None if there are no calls, or more than are ever looked up."""
    history = dialect.read_history(messages)
    if history is None or not history.calls:
        return None
    hashes = HistoryHash(owner)
    keys = HistoryKeys(history.messages, history.calls, {}, {})
    for message in history.messages:
        hashes.add_message(message)
        if message.calls:
            keys.exact[message.calls[0].number] = hashes.make_exact_key([call.mark for call in message.calls])
        for call in message.calls:
            keys.lenient[call.number] = hashes.make_lenient_key(call.mark)
            hashes.add_call(call)
    return keys


def add_whole_message(hashes: HistoryHash, message: HistoryMessage) -> None:
    hashes.add_message(message)
    for call in message.calls:
        hashes.add_call(call)
