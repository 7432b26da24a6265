"""Putting hidden turns back into a history, in place of what the client saw of them."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.call_groups import CallGroup
from gateway.conversation.dialects.chat.history import decode_calls, read_mark
from gateway.conversation.hidden_turn import HiddenMessage
from gateway.conversation.history import ASSISTANT, NULL, RESULT, HistoryCall, HistoryMessage, read_content, read_text
from gateway.conversation.turn import TEXT_SEPARATOR

_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode


class Segment(msgspec.Struct):
    """Messages that belong together: the assistant's, and the results of its calls."""

    messages: list[Raw]
    text: str = ""  # of an assistant's message without calls
    results: list[Raw] = msgspec.field(default_factory=list)


class ChatReplay:
    """Builds the messages of a history with the hidden turns of some groups of its calls.

    Runs of assistant and tool messages in which nothing was hidden stay as they are. In the others every assistant's
    message is followed by the results of its calls, as upstreams require it: clients that split or join messages give
    them another place.
    """

    def __init__(self, messages: Sequence[HistoryMessage], groups: Iterable[CallGroup]) -> None:
        self._messages = messages
        self._groups = {call.number: group for group in groups for call in group.calls}
        self._runs = {call.message.run for group in self._groups.values() for call in group.calls}
        self._segments: list[Segment] = []
        self._by_call: dict[int, Segment] = {}
        self._by_group: dict[int, Segment] = {}  # by the number of its first call
        self._used: set[int] = set()  # first calls of messages whose content has its place

    def build(self) -> list[Raw]:
        for message in self._messages:
            self._add(message)
        return [raw for segment in self._segments for raw in (*segment.messages, *segment.results)]

    def _add(self, message: HistoryMessage) -> None:
        if message.run not in self._runs:
            self._segments.append(Segment([message.raw]))
        elif message.answered is not None:
            self._by_call[message.answered.number].results.append(message.raw)
        elif any(call.number in self._groups for call in message.calls):
            self._add_parts(message)
        else:
            segment = Segment([message.raw])
            if message.role == ASSISTANT and not message.calls:
                segment.text = message.text
            self._segments.append(segment)
            self._by_call |= {call.number: segment for call in message.calls}

    def _add_parts(self, message: HistoryMessage) -> None:
        """Add a message with calls of one or several groups, and perhaps calls of no group."""
        rest: list[HistoryCall] = []
        for call in message.calls:
            group = self._groups.get(call.number)
            if group is None:
                rest.append(call)
                continue
            segment = self._by_group.get(group.calls[0].number)
            if segment is None:
                self._add_rest(message, rest)
                rest = []
                segment = self._by_group[group.calls[0].number] = self._add_group(group)
            self._by_call[call.number] = segment
        self._add_rest(message, rest)

    def _add_rest(self, message: HistoryMessage, calls: list[HistoryCall]) -> None:
        if calls:
            fields = self._take_fields(message)
            segment = Segment([Raw(_encode({**fields, "tool_calls": [call.raw for call in calls]}))])
            self._segments.append(segment)
            self._by_call |= {call.number: segment for call in calls}

    def _add_group(self, group: CallGroup) -> Segment:
        by_number = {call.message.calls[0].number: call.message for call in group.calls}
        seen = [by_number[number] for number in sorted(by_number)]
        fresh = [message for message in seen if message.calls[0].number not in self._used]
        text = "".join(message.text for message in fresh)
        start = self._find_texts()
        if group.turn.is_whole and text != group.turn.text:
            earlier = "".join(segment.text for segment in self._segments[start:])
            if earlier + text == group.turn.text:
                del self._segments[start:]  # the client had made a message of its own of the text
                text = group.turn.text
        if group.turn.is_whole and text == group.turn.text:
            self._used |= {message.calls[0].number for message in seen}
            messages = write_turn(group)
        else:
            messages = write_into_message(group, join_fields([self._take_fields(message) for message in seen]))
        segment = Segment(messages)
        self._segments.append(segment)
        return segment

    def _find_texts(self) -> int:
        """Where the texts of the assistant begin that the segments end with."""
        start = len(self._segments)
        while start and self._segments[start - 1].text:
            start -= 1
        return start

    def _take_fields(self, message: HistoryMessage) -> dict[str, Any]:
        """A message's fields without its calls; its content goes to whoever asks first."""
        if message.calls[0].number in self._used:
            return {"role": ASSISTANT, "content": NULL}
        self._used.add(message.calls[0].number)
        fields = _decode(message.raw)
        del fields["tool_calls"]
        return fields


def write_turn(group: CallGroup) -> list[Raw]:
    """The turn as the model wrote it; the client's calls have the ids that the client gives them."""
    *hidden, last = group.turn.messages
    messages = [raw for one in hidden for raw in (one.message, *write_results(one, decode_calls(one.message)))]
    calls = decode_calls(last.message)
    if group.has_same_ids:
        return [*messages, last.message, *write_results(last, calls)]
    own = last.own_positions
    theirs = (position for position in range(len(calls)) if position not in own)
    for position, call in zip(theirs, group.calls, strict=True):
        calls[position] = set_id(calls[position], call.mark.id)
    avoid_ids(calls, own, {call.mark.id for call in group.calls})
    return [*messages, Raw(_encode({**_decode(last.message), "tool_calls": calls})), *write_results(last, calls)]


def write_into_message(group: CallGroup, fields: dict[str, Any]) -> list[Raw]:
    """The client's own message with our calls added to its calls, and their results."""
    *hidden, last = group.turn.messages
    messages: list[Raw] = []
    for one in hidden:
        calls = decode_calls(one.message)
        ours = [calls[result.position] for result in one.reachable_results]
        if ours:
            messages += [Raw(_encode({"role": ASSISTANT, "content": None, "tool_calls": ours}))]
            messages += write_results(one, calls)
    calls = decode_calls(last.message)
    avoid_ids(calls, last.own_positions, {call.mark.id for call in group.calls})
    own = last.own_positions
    reachable = {result.position for result in last.reachable_results}
    theirs = iter(group.calls)
    merged = [
        calls[position] if position in own else next(theirs).raw
        for position in range(len(calls))
        if position in reachable or position not in own
    ]
    return [*messages, Raw(_encode({**fields, "tool_calls": merged})), *write_results(last, calls)]


def write_results(message: HiddenMessage, calls: Sequence[Raw]) -> list[Raw]:
    """The results of our calls as messages."""
    return [
        Raw(_encode({"role": RESULT, "tool_call_id": read_mark(calls[one.position]).id, "content": one.text}))
        for one in message.reachable_results
    ]


def avoid_ids(calls: list[Raw], own: Collection[int], taken: Collection[str]) -> None:
    """Give calls of ours other ids where the client has given theirs to its own calls."""
    used = {read_mark(call).id for call in calls} | set(taken)
    for position in sorted(own):
        identity = read_mark(calls[position]).id
        if identity in taken:
            fresh = next(name for number in count(1) if (name := f"{identity}_{number}") not in used)
            used.add(fresh)
            calls[position] = set_id(calls[position], fresh)


def set_id(call: Raw, identity: str) -> Raw:
    return Raw(_encode({**_decode(call), "id": identity}))


def join_fields(several: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fields of a message that a client had split, with the contents of all its parts."""
    first = several[0]
    contents = [content for fields in several if read_content(content := fields.get("content", NULL))]
    if len(contents) > 1:
        return {**first, "content": TEXT_SEPARATOR.join(map(read_text, contents))}
    return {**first, "content": contents[0]} if contents else first
