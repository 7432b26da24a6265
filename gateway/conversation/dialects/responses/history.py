"""A history of items, and putting hidden turns back into it."""

from collections import deque
from collections.abc import Collection, Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.call_groups import CallGroup
from gateway.conversation.dialects.responses.items import (
    MESSAGE,
    RESULTS,
    UNREADABLE_ITEM,
    ItemHead,
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
    own, position = message.own_positions, 0
    theirs = iter(group.calls if group is not None else ())
    items: list[Raw] = []
    for raw in decode_items(message.message):
        if read_item(raw).is_call:
            items.append(raw if position in own or group is None or group.has_same_ids else next(theirs).raw)
            position += 1
        else:
            items.append(raw)
    return finish_items(items, message, group)


def write_beside(group: CallGroup) -> list[Raw]:
    """Our calls and their results, as far as they can be reached, and the client's own calls."""
    items: list[Raw] = []
    for message in group.turn.messages:
        calls = [raw for raw in decode_items(message.message) if read_item(raw).is_call]
        ours = [calls[result.position] for result in message.reachable_results]
        last = message is group.turn.messages[-1]
        items += finish_items([*ours, *(call.raw for call in group.calls if last)], message, group if last else None)
    return items


def finish_items(items: list[Raw], message: HiddenMessage, group: CallGroup | None) -> list[Raw]:
    """Items of one turn with the results of our calls; where the client has taken an id of ours, ours get another."""
    calls = [raw for raw in decode_items(message.message) if read_item(raw).is_call]
    taken = frozenset(call.mark.id for call in group.calls) if group is not None else frozenset()
    results: list[Raw] = []
    for result in message.reachable_results:
        raw = calls[result.position]
        identity = read_mark(raw).id
        fresh = find_free_id(identity, taken)
        if fresh != identity:
            items = [set_call_id(one, fresh) if one is raw else one for one in items]
        written = {"type": "function_call_output", "call_id": fresh, "output": result.text}
        results.append(Raw(_encode(written)))
    return [*items, *results]


def find_free_id(identity: str, taken: Collection[str]) -> str:
    return identity if identity not in taken else find_free_id(f"{identity}_1", taken)


def set_call_id(call: Raw, identity: str) -> Raw:
    return Raw(_encode(decode_object(call) | {"call_id": identity}))
