"""Putting hidden turns back into a history, in place of what the client saw of them."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.hidden_turn import HiddenMessage, HiddenTurn, decode_calls
from gateway.conversation.history import (
    ASSISTANT,
    NULL,
    RESULT,
    HistoryCall,
    HistoryMessage,
    read_content,
    read_mark,
    read_text,
)
from gateway.conversation.loop import TEXT_SEPARATOR

_encode = msgspec.json.Encoder().encode
_decode: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode


@dataclass(slots=True)
class CallGroup:
    """Calls of the client that came in one turn, wherever they stand now."""

    turn: HiddenTurn  # as far as the caller can reach it
    calls: list[HistoryCall]  # in the order of the turn's
    segment: "Segment | None" = None

    @property
    def has_same_ids(self) -> bool:
        return [call.mark.id for call in self.calls] == [call.id for call in self.turn.calls]


@dataclass(slots=True)
class Segment:
    """Messages that belong together: the assistant's, and the results of its calls."""

    messages: list[Raw]
    text: str = ""  # of an assistant's message without calls
    results: list[Raw] = field(default_factory=list)


def find_groups(
    calls: Sequence[HistoryCall], turns: Mapping[int, HiddenTurn], reachable: Collection[str]
) -> list[CallGroup]:
    """The groups of calls to which something hidden belongs that the caller can reach."""
    groups = []
    end = 0
    for number, turn in sorted(turns.items()):
        seen = calls[number : number + len(turn.calls)]
        if number < end or (matched := match_calls(turn, seen)) is None:
            continue
        end = number + len(seen)
        permitted = turn.permit(reachable)
        if permitted.has_results:
            groups.append(CallGroup(permitted, matched))
    return groups


def match_calls(turn: HiddenTurn, seen: Sequence[HistoryCall]) -> list[HistoryCall] | None:
    """The calls of a history in the order of the turn's; None if they are others, or not all are answered."""
    if len({call.message.run for call in seen}) != 1 or any(call.result is None for call in seen):
        return None
    waiting: dict[bytes, deque[HistoryCall]] = defaultdict(deque)
    for call in seen:
        waiting[call.mark.meaning].append(call)
    found = [waiting[mark.meaning].popleft() for mark in turn.marks if waiting[mark.meaning]]
    return found if len(found) == len(turn.calls) else None


class Replay:
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
            if group.segment is None:
                self._add_rest(message, rest)
                rest = []
                group.segment = self._add_group(group)
            self._by_call[call.number] = group.segment
        self._add_rest(message, rest)

    def _add_rest(self, message: HistoryMessage, calls: list[HistoryCall]) -> None:
        if calls:
            fields = self._take_fields(message)
            segment = Segment([Raw(_encode({**fields, "tool_calls": [call.raw for call in calls]}))])
            self._segments.append(segment)
            self._by_call |= {call.number: segment for call in calls}

    def _add_group(self, group: CallGroup) -> Segment:
        seen = list({call.message.calls[0].number: call.message for call in group.calls}.values())
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
        fields = _decode(message.raw)
        del fields["tool_calls"]
        if message.calls[0].number in self._used:
            return {"role": fields["role"], "content": NULL}
        self._used.add(message.calls[0].number)
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
        own = [calls[result.position] for result in one.reachable_results]
        if own:
            messages += [Raw(_encode({"role": ASSISTANT, "content": None, "tool_calls": own}))]
            messages += write_results(one, calls)
    calls = decode_calls(last.message)
    avoid_ids(calls, last.own_positions, {call.mark.id for call in group.calls})
    reachable = {result.position for result in last.reachable_results}
    theirs = iter(group.calls)
    merged = [
        calls[position] if position in last.own_positions else next(theirs).raw
        for position in range(len(calls))
        if position in reachable or position not in last.own_positions
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
    for position in own:
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
