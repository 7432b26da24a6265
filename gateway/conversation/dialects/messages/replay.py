"""Putting hidden turns back into a history of messages, in place of what the client saw of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.call_groups import CallGroup, find_free_id
from gateway.conversation.dialects.messages.history import USER, decode_calls, is_thought, read_mark
from gateway.conversation.dialects.messages.transcript import is_call, write_result
from gateway.conversation.hidden_turn import HiddenMessage
from gateway.conversation.history import ASSISTANT, RESULT, HistoryMessage

_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_raws: Callable[[Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


class MessagesReplay:
    """Builds the messages of a history with the hidden turns of some groups of its calls."""

    def __init__(self, messages: Sequence[HistoryMessage], groups: Iterable[CallGroup]) -> None:
        self._messages = messages
        self._groups = {group.calls[0].message.calls[0].number: group for group in groups if is_together(group)}
        self._built: list[Raw] = []
        self._results: list[Raw] = []  # blocks that the next message of the user begins with

    def build(self) -> list[Raw]:
        for message in self._messages:
            if message.role == RESULT:
                self._results.append(message.raw)
            elif message.role == USER and self._results:
                self._results += read_blocks(message.raw)
                self._flush()
            else:
                self._flush()
                self._add(message)
        self._flush()
        return self._built

    def _add(self, message: HistoryMessage) -> None:
        group = self._groups.get(message.calls[0].number) if message.calls else None
        if group is None:
            self._built.append(message.raw)
        elif group.turn.is_whole and message.text == group.turn.text:
            self._add_turn(group)
        else:
            self._add_calls(group, message)

    def _add_turn(self, group: CallGroup) -> None:
        """The turn as the model wrote it; the client's calls have the ids that the client gives them."""
        *hidden, last = group.turn.messages
        for one in hidden:
            self._add_hidden(one.message, one, decode_calls(one.message))
        written = last.message if group.has_same_ids else rename_calls(group, last)
        self._built.append(written)
        self._results += write_results(last, decode_calls(written))

    def _add_calls(self, group: CallGroup, message: HistoryMessage) -> None:
        """The client's own message with our calls added to its calls, and what can be reached of our results."""
        *hidden, last = group.turn.messages
        for one in hidden:
            if one.reachable_results:
                self._add_hidden(keep_calls(one), one, decode_calls(one.message))
        calls = decode_calls(rename_calls(group, last))
        reachable = {result.position for result in last.reachable_results}
        theirs = iter(group.calls)
        merged = [
            calls[position] if position in last.own_positions else next(theirs).raw
            for position in range(len(calls))
            if position in reachable or position not in last.own_positions
        ]
        fields = _decode(message.raw)
        said = [block for block in _decode_raws(fields["content"]) if not is_call(block)]
        self._built.append(Raw(_encode({**fields, "content": [*said, *merged]})))
        self._results += write_results(last, calls)

    def _add_hidden(self, written: Raw, message: HiddenMessage, calls: Sequence[Raw]) -> None:
        """A message, and in one of the user the results of our calls in it."""
        self._built.append(written)
        self._results += write_results(message, calls)
        self._flush()

    def _flush(self) -> None:
        if self._results:
            self._built.append(Raw(_encode({"role": USER, "content": self._results})))
            self._results = []


def is_together(group: CallGroup) -> bool:
    """Whether the calls still stand in one message by themselves; otherwise the client's view is complete by itself."""
    message = group.calls[0].message
    return {call.number for call in group.calls} == {call.number for call in message.calls}


def read_blocks(message: Raw) -> list[Raw]:
    content = _decode(message)["content"]
    if bytes(content)[:1] == b"[":
        return _decode_raws(content)
    return [Raw(_encode({"type": "text", "text": content}))]


def write_results(message: HiddenMessage, calls: Sequence[Raw]) -> list[Raw]:
    """The results of our calls as blocks."""
    return [
        Raw(_encode(write_result(read_mark(calls[one.position]).id, one.text or "")))
        for one in message.reachable_results
    ]


def keep_calls(message: HiddenMessage) -> Raw:
    """A hidden message with its thoughts, whose signatures it needs, and those calls whose results can be reached."""
    reachable = {result.position for result in message.reachable_results}
    kept: list[Raw] = []
    position = -1
    for block in _decode_raws(_decode(message.message)["content"]):
        position += is_call(block)
        if is_thought(block) or (is_call(block) and position in reachable):
            kept.append(block)
    return Raw(_encode({"role": ASSISTANT, "content": kept}))


def rename_calls(group: CallGroup, last: HiddenMessage) -> Raw:
    """The last message with the ids that the client gives its calls; ours get others where it took theirs."""
    message = _decode(last.message)
    own, theirs = last.own_positions, iter(group.calls)
    taken = {call.mark.id for call in group.calls}
    position = -1
    blocks: list[Raw] = []
    for block in _decode_raws(message["content"]):
        if is_call(block):
            position += 1
            identity = find_free_id(read_mark(block).id, taken) if position in own else next(theirs).mark.id
            block = set_id(block, identity)
        blocks.append(block)
    return Raw(_encode({**message, "content": blocks}))


def set_id(block: Raw, identity: str) -> Raw:
    return block if read_mark(block).id == identity else Raw(_encode({**_decode(block), "id": identity}))
