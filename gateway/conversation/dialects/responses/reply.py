"""Whole responses: reading a turn, and one response for the client."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.responses.echoed import ECHOING_FIELDS, UNREADABLE_RESPONSE, EchoedFields
from gateway.conversation.dialects.responses.items import (
    ANSWERED_CALLS,
    MESSAGE,
    NO_RESPONSE,
    ItemHead,
    decode_items,
    decode_object,
    read_item,
)
from gateway.conversation.history import read_text
from gateway.conversation.turn import LoopPlan, Turn, TurnCall, TurnStart, has_value
from gateway.errors import UpstreamInvalid

FIRST_FIELDS = ("id", "created_at", "model")  # that the client sees of the first turn
MAX_OUTPUT_ITEMS = 10_000  # of one response

UNFINISHED = ("incomplete", "failed", "cancelled")

AnsweringResponse = msgspec.defstruct(
    "AnsweringResponse",
    [
        ("output", Raw),
        ("status", Any, None),
        ("id", Any, None),
        ("usage", dict[str, Any] | None, None),
        *ECHOING_FIELDS,
    ],
)  # as far as anybody has to look at a response without calls

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode
_read_answer: Callable[[bytes], Any] = msgspec.json.Decoder(AnsweringResponse).decode
read_heads: Callable[[bytes], list[ItemHead]] = msgspec.json.Decoder(list[ItemHead]).decode


class OutputItem(msgspec.Struct, frozen=True):
    """An item that a model wrote, and whether it is a call of ours."""

    raw: Raw
    head: ItemHead
    own: bool


def read_output(items: Sequence[Raw], own_names: frozenset[str]) -> list[OutputItem]:
    """The items of a turn; raises UpstreamInvalid if there are more than any model writes."""
    if len(items) > MAX_OUTPUT_ITEMS:
        raise UpstreamInvalid(f"The upstream sent a response with more than {MAX_OUTPUT_ITEMS} items.")
    heads = ((raw, read_item(raw)) for raw in items)
    return [OutputItem(raw, head, head.type == "function_call" and head.name in own_names) for raw, head in heads]


def make_turn(response: dict[str, Any], output: Sequence[OutputItem]) -> Turn:
    """What the loop has to know of a response with these items."""
    calls = [TurnCall(one.head.make_call(), one.own) for one in output if one.head.is_call]
    status = _decode(response["status"]) if has_value(response, "status") else None
    return Turn(
        message=_encode([one.raw for one in output]),
        calls=calls,
        # Nobody asks what else was said, unless there are calls.
        text="".join(read_text(one.head.content) for one in output if one.head.type == MESSAGE) if calls else "",
        cut_short=status in UNFINISHED,
        usage=read_usage(response),
        id=str(_decode(response["id"])) if has_value(response, "id") else "",
    )


def read_answer(body: bytes) -> Any:
    """A response that calls nothing, read in two passes; None for any other, and for what is no response."""
    try:
        body.isascii() or body.decode()
        answer = _read_answer(body)
        return answer if calls_nothing(read_heads(answer.output)) else None
    except UNREADABLE_RESPONSE:
        return None


def calls_nothing(heads: Sequence[ItemHead]) -> bool:
    """Whether none of these items is a call that somebody has to answer, and there are no more than a model writes."""
    return len(heads) <= MAX_OUTPUT_ITEMS and ANSWERED_CALLS.keys().isdisjoint([head.type for head in heads])


def make_answer_turn(answer: Any) -> Turn:
    """What the loop has to know of a response without calls; nobody asks what it says."""
    identity = "" if answer.id is None else str(answer.id)
    return Turn(bytes(answer.output), [], "", answer.status in UNFINISHED, answer.usage, identity)


def read_usage(response: dict[str, Any]) -> dict[str, Any] | None:
    return _decode(response["usage"], type=dict) if has_value(response, "usage") else None


def list_shown(output: Sequence[OutputItem], *, without_text: bool = False) -> list[Raw]:
    """The items that the client sees."""
    return [one.raw for one in output if not one.own and not (without_text and one.head.type == MESSAGE)]


class ResponsesReplyView:
    """One response for the client, made of those of all turns."""

    def __init__(self, plan: LoopPlan) -> None:
        self._last_text_only = plan.last_text_only
        self._echoed = EchoedFields(plan.client_fields)
        self._body = b""  # of the turn at hand
        self._first: dict[str, Any] = {}
        self._last: dict[str, Any] = {}
        self._output: list[OutputItem] = []  # of the turn at hand
        self._shown: list[Raw] = []  # items of the turns before it
        self._answer: Any = None  # the first response, if it calls nothing

    def take(self, body: bytes, start: TurnStart) -> Turn:
        """Read the response of one turn."""
        if not self._first and (answer := read_answer(body)) is not None:
            self._body, self._answer = body, answer
            return make_answer_turn(answer)
        try:
            self._body, self._last = body, decode_object(body)
            self._first = self._first or self._last
            self._output = read_output(decode_items(self._last["output"]), start.own_names)
            return make_turn(self._last, self._output)
        except UNREADABLE_RESPONSE as fault:
            raise UpstreamInvalid(NO_RESPONSE) from fault

    def hide_turn(self) -> None:
        self._shown += list_shown(self._output, without_text=self._last_text_only)

    def finish(self, turn: Turn, usage: dict[str, Any] | None) -> bytes:
        """The last response as the continuation of the first, with what the client may see of all turns."""
        if self._answer is not None:
            return self._echoed.restore_read(self._body, self._answer)
        if self._first is self._last and not any(one.own for one in self._output):
            return self._echoed.restore_body(self._body)
        output = [*self._shown, *list_shown(self._output)]
        return _encode(self._echoed.restore(join_responses(self._first, self._last, output, usage)))


def is_same_response(first: dict[str, Any], last: dict[str, Any]) -> bool:
    """Whether both have the same identity."""
    return all(first.get(key) == last.get(key) for key in FIRST_FIELDS)


def join_responses(
    first: dict[str, Any], last: dict[str, Any], output: list[Raw], usage: dict[str, Any] | None
) -> dict[str, Any]:
    """The last response with the identity of the first, these items and this usage."""
    shown = last | {key: first[key] for key in FIRST_FIELDS if key in first}
    shown["output"] = output
    if usage is not None:
        shown["usage"] = usage
    return shown
