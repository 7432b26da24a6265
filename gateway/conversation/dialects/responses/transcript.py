"""The turns of an exchange as items: what goes back upstream after each of them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.responses.items import decode_items, read_item
from gateway.conversation.hidden_turn import OwnResult
from gateway.conversation.turn import LoopPlan, Turn

ENCRYPTED_REASONING = "reasoning.encrypted_content"

# What responses say where the request says nothing.
ECHOED = {
    "instructions": Raw(b"null"),
    "tools": Raw(b"[]"),
    "tool_choice": Raw(b'"auto"'),
    "previous_response_id": Raw(b"null"),
}

_encode = msgspec.json.Encoder().encode


def encode_turn(plan: LoopPlan, added: Sequence[bytes], *, is_last: bool) -> bytes:
    """The body of a turn; in the last one the model cannot call our tools."""
    body: dict[str, Any] = dict(plan.fields)
    body["input"] = [*plan.messages, *map(Raw, added)]
    body["tools"] = plan.client_tools if is_last and plan.client_tools else plan.client_tools + plan.own_tools
    if is_last and not plan.client_tools:
        body["tool_choice"] = "none"
    elif plan.tool_choice is not None:
        body["tool_choice"] = plan.tool_choice
    if is_unstored(body):
        body["include"] = include_reasoning(body.get("include"))
    return _encode(body)


def is_unstored(fields: dict[str, Any]) -> bool:
    """Whether the upstream keeps nothing: its reasoning has to come back with the items."""
    store = fields.get("store")
    return store is False or (store is not None and bytes(store) == b"false")


def include_reasoning(given: Any) -> list[Any]:
    """What the client wants included, and the reasoning that the next turn needs."""
    known = msgspec.json.decode(given) if isinstance(given, Raw) else given
    wanted = known if isinstance(known, list) else []
    return wanted if ENCRYPTED_REASONING in wanted else [*wanted, ENCRYPTED_REASONING]


def write_turn(turn: Turn, results: Sequence[OwnResult]) -> list[bytes]:
    """The model's items as they came, and the results of our calls."""
    return [*map(bytes, decode_items(turn.message)), *(write_result(turn, one) for one in results)]


def write_result(turn: Turn, result: OwnResult) -> bytes:
    call = turn.calls[result.position].call
    return _encode({"type": "function_call_output", "call_id": call.id, "output": result.text})


def remove_own_calls(turn: Turn) -> bytes:
    """The turn's items without calls of ours that were not run: no result would follow them."""
    own = {one.call.id for one in turn.calls if one.own}
    return _encode([item for item in decode_items(turn.message) if not calls_one_of(item, own)])


def calls_one_of(item: Raw, ids: set[str]) -> bool:
    head = read_item(item)
    return head.type == "function_call" and (head.call_id or head.id or "") in ids


class EchoedFields:
    """Fields of a request that responses repeat, as the client sent them: it does not see what we added."""

    def __init__(self, fields: Mapping[str, Raw]) -> None:
        self._fields = ECHOED | self.select(fields)

    @staticmethod
    def select(fields: Mapping[str, Raw]) -> dict[str, Raw]:
        """Those of the fields that responses repeat."""
        return {name: fields[name] for name in ECHOED if name in fields}

    def restore(self, response: dict[str, Any]) -> dict[str, Any]:
        """The response with these fields, where it has them."""
        return response | {name: value for name, value in self._fields.items() if name in response}
