"""Items, the entries of a conversation in responses: which are calls, which are results, what they say."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from gateway.conversation.history import CallMark, mark_call, read_arguments, read_text, strip_spaces
from gateway.conversation.turn import FunctionCall
from gateway.errors import UpstreamInvalid

NULL = Raw(b"null")
OBJECT = b"{"
MAX_ODD_BYTES = 4 * 1024 * 1024  # of JSON that is read loosely: that takes some 10 ms per megabyte
NO_RESPONSE = "The upstream's reply is not a response."
UNREADABLE_ITEM = (msgspec.MsgspecError, UnicodeError, RecursionError)

# Calls that somebody outside the upstream has to answer, each with the type of its result.
ANSWERED_CALLS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "mcp_approval_request": "mcp_approval_response",
}
RESULTS = frozenset(ANSWERED_CALLS.values())
MESSAGE: Final = "message"


class ItemHead(msgspec.Struct):
    """What is looked at in an item."""

    type: str = MESSAGE  # a message may leave it out
    role: str | None = None
    content: Raw = NULL
    id: str | None = None
    call_id: str | None = None
    approval_request_id: str | None = None
    name: str | None = None
    arguments: Raw = NULL  # of a function
    input: Raw = NULL  # of a custom tool
    action: Raw = NULL  # of a shell or a computer
    operation: Raw = NULL  # of a patch
    output: Raw = NULL  # of a result

    @property
    def is_call(self) -> bool:
        return self.type in ANSWERED_CALLS

    @property
    def answers(self) -> str:
        """The id of the call whose result it is."""
        return self.call_id or self.approval_request_id or ""

    def make_call(self) -> FunctionCall:
        """The call, with the type for the name of a tool that has none."""
        given = (self.arguments, self.input, self.action, self.operation)
        written = next((one for one in given if bytes(one) != b"null"), NULL)
        return FunctionCall(self.call_id or self.id or "", self.name or self.type, read_arguments(written))


read_item: Callable[[bytes], ItemHead] = msgspec.json.Decoder(ItemHead).decode
decode_items: Callable[[bytes], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode
decode_object: Callable[[bytes], dict[str, Any]] = msgspec.json.Decoder(dict[str, Raw]).decode


def decode_calls(message: Raw) -> list[Raw]:
    """The calls among the items of a turn."""
    return [item for item in decode_items(message) if read_item(item).is_call]


def read_mark(call: Raw) -> CallMark:
    """The mark of a call; raises UNREADABLE if it is none."""
    made = read_item(call).make_call()
    return mark_call(made.id, made.name, made.arguments)


def read_spoken_text(message: bytes) -> str:
    """What the items of a turn say, as texts are compared."""
    try:
        heads = [read_item(item) for item in decode_items(message)]
        return "".join(strip_spaces(read_text(head.content)) for head in heads if head.type == MESSAGE)
    except UNREADABLE_ITEM:
        return ""


def read_odd(data: bytes) -> Any:
    """JSON with half characters, control characters or NaN too; raises UpstreamInvalid for everything else."""
    if len(data) > MAX_ODD_BYTES:
        raise UpstreamInvalid(NO_RESPONSE)
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as fault:
        raise UpstreamInvalid(NO_RESPONSE) from fault


def write_odd(document: dict[str, Any]) -> bytes:
    """The same as JSON; half characters stay escaped."""
    return json.dumps(document, separators=(",", ":")).encode()
