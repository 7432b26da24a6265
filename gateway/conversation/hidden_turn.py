"""One hidden turn: what the model wrote and our tools answered before and beside what the client saw."""

import hashlib
from collections.abc import Container
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from gateway.conversation.history import CallMark, frame, mark_call
from gateway.conversation.turn import FunctionCall

if TYPE_CHECKING:
    from gateway.conversation.dialect import Dialect


class OwnResult(msgspec.Struct, frozen=True, array_like=True):
    """What one of our tools answered."""

    position: int  # of its call among those of the message
    text: str | None  # None: the caller cannot reach it any more
    resources: tuple[str, ...] = ()  # ids of the resources that it tells of

    def permit(self, reachable: Container[str]) -> "OwnResult":
        return self if all(one in reachable for one in self.resources) else OwnResult(self.position, None)


class HiddenMessage(msgspec.Struct, frozen=True, array_like=True):
    """An assistant's message as the model wrote it, with the results of all our calls in it."""

    message: Raw
    results: tuple[OwnResult, ...] = ()

    @property
    def own_positions(self) -> frozenset[int]:
        return frozenset(result.position for result in self.results)

    @property
    def reachable_results(self) -> list[OwnResult]:
        return [result for result in self.results if result.text is not None]


class HiddenTurn(msgspec.Struct, frozen=True, array_like=True):
    """What stands in a history where the client saw one assistant message."""

    calls: tuple[FunctionCall, ...]  # the client's, in the order that it saw them in
    text: str  # that the client saw, as texts are compared
    messages: tuple[HiddenMessage, ...]  # the last one has the client's calls

    @property
    def is_whole(self) -> bool:
        """Whether no result is out of reach."""
        return all(len(one.reachable_results) == len(one.results) for one in self.messages)

    @property
    def has_results(self) -> bool:
        return any(one.reachable_results for one in self.messages)

    def permit(self, reachable: Container[str]) -> "HiddenTurn":
        """The turn without results that tell of other resources than these."""
        messages = tuple(
            HiddenMessage(one.message, tuple(result.permit(reachable) for result in one.results))
            for one in self.messages
        )
        return HiddenTurn(self.calls, self.text, messages)

    @property
    def marks(self) -> list[CallMark]:
        return [mark_call(call.id, call.name, call.arguments) for call in self.calls]

    def hash_meaning(self, dialect: "Dialect") -> str:
        """A hash of what it puts back in: two turns with the same one may stand for each other."""
        made = hashlib.sha256(frame(b"c", sorted(mark.meaning for mark in self.marks)))
        for message in self.messages:
            calls = dialect.decode_calls(message.message)
            for result in message.reachable_results:
                text = (result.text or "").encode()
                made.update(frame(b"r", (dialect.read_mark(calls[result.position]).meaning, text)))
        return made.hexdigest()


_decode_turn = msgspec.json.Decoder(HiddenTurn).decode


def decode_turn(data: bytes, dialect: "Dialect") -> HiddenTurn | None:
    """A turn as it was stored; None if that was something else."""
    try:
        turn = _decode_turn(data)
        return turn if is_consistent(turn, dialect) else None
    except (msgspec.MsgspecError, RecursionError):
        return None


def is_consistent(turn: HiddenTurn, dialect: "Dialect") -> bool:
    """Whether every result has a call, and the last message has the client's calls besides."""
    free = 0  # calls of a message that no result answers
    for message in turn.messages:
        count = len(dialect.decode_calls(message.message))
        own = message.own_positions
        if len(own) < len(message.results) or not own <= set(range(count)):
            return False
        free = count - len(own)
    return 0 < free == len(turn.calls)
