"""A history of items, and putting hidden turns back into it."""

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.call_groups import CallGroup, find_free_id
from gateway.conversation.dialects.responses.items import (
    MESSAGE,
    RESULTS,
    UNREADABLE_ITEM,
    ItemHead,
    decode_calls,
    decode_items,
    decode_object,
    read_item,
    read_mark,
)
from gateway.conversation.hidden_turn import HiddenMessage
from gateway.conversation.history import (
    ASSISTANT,
    INSTRUCTIONS,
    MAX_HISTORY_CALLS,
    MAX_HISTORY_MESSAGES,
    RESULT,
    History,
    HistoryCall,
    HistoryMessage,
    read_content,
)

_encode = msgspec.json.Encoder().encode


def read_history(messages: Sequence[Raw]) -> History | None:
    """The messages and calls of a conversation; None if it is too long to be read."""
    if len(messages) > MAX_HISTORY_MESSAGES:
        return None
    reader = ItemHistoryReader()
    for raw in messages:
        reader.read(raw)
        if len(reader.calls) > MAX_HISTORY_CALLS:
            return None
    return History(reader.messages, reader.calls)


class ItemHistoryReader:
    """Reads items one after the other; calls that follow each other came in one turn."""

    def __init__(self) -> None:
        self.messages: list[HistoryMessage] = []
        self.calls: list[HistoryCall] = []
        self._run = 0
        self._calling: HistoryMessage | None = None  # the calls that the next one joins
        self._waiting: dict[str, deque[HistoryCall]] = {}  # calls without a result, by id

    def read(self, raw: Raw) -> None:
        try:
            head = read_item(raw)
        except UNREADABLE_ITEM:
            head = ItemHead(role="", content=raw)  # nothing that we ever sent: it counts as it is
        if head.is_call:
            self._add_call(raw)
        elif head.type in RESULTS:
            self._add_result(raw, head)
        elif head.type == MESSAGE:
            self._add_message(raw, head)
        else:
            # Reasoning, what the upstream ran itself, and references to items: clients leave them out as they like.
            self.messages.append(HistoryMessage(raw, ASSISTANT, self._run, []))

    def _add_message(self, raw: Raw, head: ItemHead) -> None:
        self._calling = None
        role = head.role or ""
        if role not in (ASSISTANT, *INSTRUCTIONS):
            self._run += 1
            self._waiting.clear()
        self.messages.append(HistoryMessage(raw, role, self._run, read_content(head.content)))

    def _add_call(self, raw: Raw) -> None:
        if self._calling is None:
            self._calling = HistoryMessage(raw, ASSISTANT, self._run, [])
            self.messages.append(self._calling)
        call = HistoryCall(read_mark(raw), raw, len(self.calls), self._calling)
        self._calling.calls.append(call)
        self.calls.append(call)
        self._waiting.setdefault(call.mark.id, deque()).append(call)

    def _add_result(self, raw: Raw, head: ItemHead) -> None:
        """Of several calls with one id the first is answered first."""
        self._calling = None
        message = HistoryMessage(raw, RESULT, self._run, read_content(head.output))
        self.messages.append(message)
        waiting = self._waiting.get(head.answers)
        if waiting:
            message.answered = waiting.popleft()
            message.answered.result = message.content


def replay_turns(messages: Sequence[HistoryMessage], groups: Sequence[CallGroup]) -> list[Raw]:
    """The items with the hidden turns of some groups of calls, in place of what the client saw of them."""
    by_call = {call.number: group for group in groups for call in group.calls}
    written: set[int] = set()  # groups, by their first calls
    items: list[Raw] = []
    start, text = 0, ""  # of what the assistant says before its next call
    for message in messages:
        if message.role == ASSISTANT and not message.calls:
            items.append(message.raw)
            text += message.text
            continue
        for call in message.calls:
            group = by_call.get(call.number)
            if group is None:
                items.append(call.raw)
            elif group.calls[0].number not in written:
                written.add(group.calls[0].number)
                if group.turn.is_whole and text == group.turn.text:
                    del items[start:]
                    items += write_hidden_turn(group)
                else:
                    items += write_beside(group)
        if not message.calls:
            items.append(message.raw)
        start, text = len(items), ""
    return items


def write_hidden_turn(group: CallGroup) -> list[Raw]:
    """The turn as the model wrote it; the client's calls are as the client gives them."""
    items: list[Raw] = []
    for message in group.turn.messages:
        items += write_items(message, group if message is group.turn.messages[-1] else None)
    return items


def write_items(message: HiddenMessage, group: CallGroup | None) -> list[Raw]:
    """The items of one turn and the results of our calls; those of a group's calls are the client's own."""
    ids = name_own_calls(message, group)
    theirs = iter(group.calls) if group is not None and not group.has_same_ids else None
    items: list[Raw] = []
    position = -1
    for raw in decode_items(message.message):
        if read_item(raw).is_call:
            position += 1
            if position in ids:
                raw = set_call_id(raw, ids[position])
            elif theirs is not None:
                raw = next(theirs).raw
        items.append(raw)
    return [*items, *write_results(message, ids)]


def write_beside(group: CallGroup) -> list[Raw]:
    """Our calls and their results, as far as they can be reached, and the client's own calls."""
    items: list[Raw] = []
    for message in group.turn.messages:
        last = message is group.turn.messages[-1]
        ids, calls = name_own_calls(message, group if last else None), decode_calls(message.message)
        items += [set_call_id(calls[one.position], ids[one.position]) for one in message.reachable_results]
        items += [call.raw for call in group.calls if last]
        items += write_results(message, ids)
    return items


def name_own_calls(message: HiddenMessage, group: CallGroup | None) -> dict[int, str]:
    """The ids of our calls in one turn, by position; where the client has taken one of them, ours gets another."""
    names = [read_mark(call).id for call in decode_calls(message.message)]
    theirs = {call.mark.id for call in group.calls} if group is not None else set()
    used = theirs.union(names)
    ids: dict[int, str] = {}
    for position in sorted(message.own_positions):
        ids[position] = names[position]
        if names[position] in theirs:
            ids[position] = find_free_id(names[position], used)
            used.add(ids[position])
    return ids


def write_results(message: HiddenMessage, ids: Mapping[int, str]) -> list[Raw]:
    """The results of our calls as items."""
    return [
        Raw(_encode({"type": "function_call_output", "call_id": ids[one.position], "output": one.text}))
        for one in message.reachable_results
    ]


def set_call_id(call: Raw, identity: str) -> Raw:
    return call if read_mark(call).id == identity else Raw(_encode(decode_object(call) | {"call_id": identity}))
