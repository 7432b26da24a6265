"""The turns of an exchange as items: what goes back upstream after each of them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.responses.items import ANSWERED_CALLS, UNREADABLE_ITEM, decode_items, read_item
from gateway.conversation.hidden_turn import OwnResult
from gateway.conversation.turn import LoopPlan, Turn

ENCRYPTED_REASONING = "reasoning.encrypted_content"

MAX_CALLS = "max_tool_calls"
# Tools whose calls somebody outside the upstream answers, and which therefore do not count.
ANSWERED_TOOLS = frozenset(
    {"function", "custom", "computer_use_preview", "computer", "local_shell", "shell", "apply_patch", "namespace"}
)

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
    if added and MAX_CALLS in body:
        limit_provider_calls(body, added)
    if is_unstored(body):
        body["include"] = include_reasoning(body.get("include"))
    return _encode(body)


def limit_provider_calls(body: dict[str, Any], added: Sequence[bytes]) -> None:
    """Leave what the turns before have left of `max_tool_calls`: it holds for the one response that the client sees."""
    try:
        limit = msgspec.json.decode(body[MAX_CALLS], type=int)
    except UNREADABLE_ITEM:
        return  # its value is the upstream's business
    used = sum(is_provider_call(read_item(item).type) for item in added)
    if used < limit:
        body[MAX_CALLS] = limit - used
    else:  # no upstream promises that 0 means none
        body["tools"] = [tool for tool in body["tools"] if read_item(tool).type in ANSWERED_TOOLS]


def is_provider_call(kind: str) -> bool:
    """Whether an item is a call of a tool that the upstream runs itself."""
    return kind.endswith("_call") and kind not in ANSWERED_CALLS


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
