"""Streams of responses: what the client may see of each event, and under which numbers."""

from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from gateway import sse
from gateway.conversation.dialects.responses import carried, events
from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.conversation.dialects.responses.items import (
    MESSAGE,
    UNREADABLE_ITEM,
    ItemHead,
    decode_items,
    decode_object,
    read_item,
)
from gateway.conversation.dialects.responses.reply import (
    MAX_OUTPUT_ITEMS,
    OutputItem,
    is_same_response,
    join_responses,
    make_turn,
    read_output,
    read_usage,
)
from gateway.conversation.dialects.responses.waiting_events import WaitingEvent, WaitingEvents
from gateway.conversation.turn import FIRST_TURN, LoopPlan, Turn, TurnStart, add_usage, has_value
from gateway.errors import GatewayError, UpstreamInvalid, UpstreamTruncated

SEQUENCE = "sequence_number"
HIDDEN, UNDECIDED, HELD = -1, -2, -3  # in place of the number under which an item is shown
FUNCTION, FUNCTION_EVENTS = "function_call", "response.function_call"

Fields = dict[str, Any]


class ResponsesStreamView:
    """One stream for the client, made of those of all turns: items and events are numbered without gaps."""

    plain_start = events.PLAIN_START

    def __init__(self, plan: LoopPlan) -> None:
        self.done = self.failed = False
        self._last_text_only = plan.last_text_only
        self._echoed = EchoedFields(plan.client_fields)
        self._turn = FIRST_TURN
        self._first: Fields | None = None  # the response as turn 1 began it, at least what names it
        self._answer: Any = None  # the event that ended turn 1, if the client may see it as it came
        self._sequence = 0  # of the next event
        self._same = True  # the numbers of the upstream are those of the client
        self._shown: list[Raw] = []  # items of the turns before this one
        self._places: list[int] = []  # of this turn's shown items: their indexes in its output
        self._begin()

    def _begin(self) -> None:
        self._indexes: dict[int, int] = {}  # of this turn's items → of the client's, or why there is none
        self._items: dict[int, Raw] = {}  # that are complete
        self._waiting = WaitingEvents()  # of items that are undecided or held
        self._begun: set[int] = set()  # indexes whose items were announced
        self._repeated: dict[int, int] = {}  # indexes that several items have → that of the latest
        self._end: Fields = {}  # the event that ended the turn
        self._end_event = b""  # the same as it came
        self._response: Fields = {}  # that it carried
        self._output: list[OutputItem] = []
        self._hides = False  # this turn has calls of ours
        self._text_waits = False  # and so do the client's calls after it
        self._places = []

    @property
    def may_be_silent(self) -> bool:
        return self._turn.number > 1 or self._last_text_only or self._hides

    def begin_turn(self, start: TurnStart) -> None:
        self._turn, self.done = start, False
        self._begin()

    def pass_unread(self, data: bytes) -> bytes:
        """The leading events that carry nothing but text, while the client's numbers are the upstream's."""
        if not self._same or self._turn.number > 1 or self._last_text_only or self.done or self.failed:
            return b""
        run = events.find_pieces(data) or (events.TEXT_PARTS if self._places else events.TEXT_PIECES).find_run(data)
        if run is None:
            return b""
        self._sequence = run.sequence + 1
        return data[: run.size] if run.size < len(data) else data

    def take_event(self, event: bytes) -> bytes:
        """Take one whole event; return what the client may see of it."""
        if self.done or self.failed:
            return b""
        if (shown := self._show_carrying(event)) is not None:
            return shown
        data = sse.read_payload(event)
        if not data or data == sse.DONE:
            return event if data is None else b""
        try:
            top = events.decode_event(data)
            return self._show(events.decode_text(top["type"]), top, event)
        except (*UNREADABLE_ITEM, KeyError) as fault:
            raise events.build_event_error() from fault

    def _show_carrying(self, event: bytes) -> bytes | None:
        """What the client may see of an event that carries the response of turn 1, if nothing was hidden; else None."""
        if not self._same or self._turn.number > 1 or (told := carried.read_event(event)) is None:
            return None
        if told.sequence_number != self._sequence:
            return None
        fields = carried.list_first_fields(told.response)
        if told.type in events.STARTS:
            self._first = fields if self._first is None else self._first
        elif self._first in (None, fields) and self._indexes and carried.is_answer(told):
            self._answer, self._end_event, self.done = told, event, True
            return b""
        else:
            return None
        self._sequence += 1
        return self._echoed.restore_read_event(told.type, event, told.response)

    def _show(self, kind: str, top: Fields, event: bytes) -> bytes:
        if kind in events.STARTS:
            return self._show_start(kind, top, event)
        if kind in events.ENDS:
            return self._take_end(kind, top, event)
        if kind == events.ERROR:
            self.failed = True
        if not has_value(top, "output_index"):
            return self._number(kind, top, event)
        return self._show_item(kind, top, event)

    def _show_start(self, kind: str, top: Fields, event: bytes) -> bytes:
        if self._turn.number > 1:
            return b""
        if self._first is None:
            self._first = decode_object(top["response"])
        if self._takes_number(top):
            return self._echoed.restore_event(kind, event)
        return self._number(kind, {**top, "response": self._echoed.restore(decode_object(top["response"]))})

    def _take_end(self, kind: str, top: Fields, event: bytes) -> bytes:
        self._end, self._end_event, self._response = top, event, decode_object(top["response"])
        self._first = self._response if self._first is None else self._first
        if kind == events.FAILED:
            self.failed = True
            return self._write_end(self._sum_usage())
        self.done = True
        return b""

    def _sum_usage(self) -> Fields | None:
        """What all turns used, when this one has failed and the loop does not go on."""
        told, spent = read_usage(self._response), self._turn.spent
        return add_usage(spent, told) if spent else told

    def _show_item(self, kind: str, top: Fields, event: bytes) -> bytes:
        index = self._find_index(kind, events.decode_index(top["output_index"]))
        if kind == events.ITEM_DONE:
            self._items[index] = top["item"]
        place = self._indexes.get(index, UNDECIDED)
        if place == UNDECIDED:
            place = self._place_item(index, kind, top.get("item"))
        elif place >= 0 and kind in (events.ITEM_ADDED, events.ITEM_DONE) and self._is_own(read_item(top["item"])):
            raise UpstreamInvalid("The upstream turned an item that was shown into a call of a tool.")
        if place == HIDDEN:
            self._waiting.take(index)
            return b""
        if place in (UNDECIDED, HELD):
            self._same = False
            self._waiting.add(index, top)
            return b""
        if place != index:
            self._same = False
        released = b"".join([self._write_waiting(one) for one in self._waiting.take(index)])
        return released + self._number(kind, {**top, "output_index": place}, event if place == index else b"")

    def _find_index(self, kind: str, told: int) -> int:
        """The index of an event's item; where the upstream gives several items the same, each gets its own."""
        if kind == events.ITEM_ADDED:
            if told in self._begun:
                self._repeated[told] = MAX_OUTPUT_ITEMS + len(self._indexes)
            self._begun.add(told)
        return self._repeated.get(told, told) if self._repeated else told

    def _place_item(self, index: int, kind: str, raw: Raw | None) -> int:
        """Decide where an item is shown: a call once its function is named, texts perhaps when the turn is over."""
        head = read_item(raw) if raw is not None else None
        if head is None:
            place = UNDECIDED if kind.startswith(FUNCTION_EVENTS) else self._assign(index)
        elif head.type == FUNCTION and not (head.name or kind == events.ITEM_DONE):
            place = UNDECIDED
        elif self._is_own(head):
            place, self._same, self._hides = HIDDEN, False, True
        elif self._holds_text and (head.type == MESSAGE or (head.type == FUNCTION and self._text_waits)):
            place, self._text_waits = HELD, True
        else:
            place = self._assign(index)
        self._indexes[index] = place
        if len(self._indexes) > MAX_OUTPUT_ITEMS:
            raise UpstreamInvalid(f"The upstream sent a response with more than {MAX_OUTPUT_ITEMS} items.")
        return place

    def _is_own(self, head: ItemHead) -> bool:
        return head.type == FUNCTION and head.name in self._turn.own_names

    @property
    def _holds_text(self) -> bool:
        """Whether text waits: only the last turn's may be shown, and this one may still call our tools."""
        return self._last_text_only and not self._turn.is_last

    def _assign(self, index: int) -> int:
        self._places.append(index)
        return len(self._shown) + len(self._places) - 1

    def _write_waiting(self, one: WaitingEvent) -> bytes:
        return self._number(events.decode_text(one.top["type"]), {**one.top, "output_index": self._indexes[one.index]})

    def _number(self, kind: str, top: Fields, event: bytes = b"") -> bytes:
        """An event under the client's numbers; with its own bytes where they are the same."""
        if event and self._takes_number(top):
            return event
        number = self._sequence
        self._sequence += 1
        if SEQUENCE not in top:
            return event or events.encode_typed_event(kind, top)
        self._same = False
        return events.encode_typed_event(kind, {**top, SEQUENCE: number})

    def _takes_number(self, top: Fields) -> bool:
        """Whether an event has the number that the client expects next; if so, it is taken."""
        told = top.get(SEQUENCE)
        if not self._same or not isinstance(told, Raw) or bytes(told) != b"%d" % self._sequence:
            return False
        self._sequence += 1
        return True

    def end_turn(self, tail: bytes) -> Turn:
        """The turn, once the event that ends it has come."""
        if not self.done:
            raise UpstreamTruncated("The upstream's stream ended before it was complete.")
        if self._answer is not None:
            return carried.make_turn(self._answer.response)
        try:
            self._output = read_output(self._list_items(), self._turn.own_names)
            return make_turn(self._response, self._output)
        except UNREADABLE_ITEM as fault:
            raise events.build_event_error() from fault

    def _list_items(self) -> list[Raw]:
        """The items of the turn; some upstreams leave them out of the event that ends it."""
        items = decode_items(self._response["output"]) if has_value(self._response, "output") else []
        return items or [self._items[index] for index in sorted(self._items)]

    def hide_turn(self) -> None:
        self._waiting.clear()
        self._shown += self._list_shown()
        self._same = False

    def _list_shown(self) -> list[Raw]:
        """The items of this turn that were shown, in the order of their numbers."""
        items = dict(enumerate(self._list_items())) | self._items
        return [items[index] for index in self._places if index in items]

    def finish(self, turn: Turn, usage: Fields | None) -> bytes:
        """What waited, and the end with the items and the usage of all turns."""
        if self._answer is not None:
            self._sequence += 1
            return self._echoed.restore_read_event(self._answer.type, self._end_event, self._answer.response)
        for index in sorted(index for index, place in self._indexes.items() if place in (HELD, UNDECIDED)):
            self._indexes[index] = self._assign(index)
        shown = [*map(self._write_waiting, self._waiting.list_all()), *self._write_unannounced()]
        return b"".join(shown) + self._write_end(usage)

    def _write_unannounced(self) -> Iterator[bytes]:
        """Items that only the event that ends the response tells of."""
        for index, item in enumerate(() if self._indexes else self._output):
            if not item.own:
                place: Fields = {"output_index": self._assign(index), "item": item.raw, "sequence_number": 0}
                for kind in (events.ITEM_ADDED, events.ITEM_DONE):
                    yield self._number(kind, {"type": kind, **place})

    def _write_end(self, usage: Fields | None) -> bytes:
        kind, shows_all, first = events.decode_text(self._end["type"]), self._shows_all, self._first or {}
        is_same = shows_all and has_value(self._response, "output") and is_same_response(first, self._response)
        if is_same and self._takes_number(self._end):
            return self._echoed.restore_event(kind, self._end_event)
        output = self._list_items() if shows_all else [*self._shown, *self._list_shown()]
        response = self._echoed.restore(join_responses(first, self._response, output, usage))
        return self._number(kind, {**self._end, "response": response})

    @property
    def _shows_all(self) -> bool:
        """Whether the client has seen this turn as it came, and no other."""
        return self.done and self._same and self._turn.number == 1 and not any(one.own for one in self._output)

    def render_error(self, error: GatewayError) -> bytes:
        return events.render_error_event(error, self._sequence)
