"""Tools in chat completions: the client's own, which of them the history calls, and whether ours may join them."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.domain.chat import ChatRequest
from gateway.domain.injection import ClientTool, ClientTools
from gateway.errors import InvalidRequest

EXCLUSIVE = ("functions", "function_call", "prediction", "n")  # fields that may rule out tools of ours
LONGEST_TEXT = 500  # characters of a name and description that are compared

_tools = msgspec.json.Decoder(list[Raw])


class _Named(msgspec.Struct):
    name: str | None = None


class _Tool(msgspec.Struct):
    function: _Named | None = None
    custom: _Named | None = None


_tool = msgspec.json.Decoder(_Tool)


def read_client_tools(request: ChatRequest) -> ClientTools:
    """The client's tools; raises InvalidRequest if they are not a list of objects."""
    choice = request.fields["tool_choice"] if request.has("tool_choice") else None
    if not request.has("tools"):
        return ClientTools(choice=choice)
    try:
        tools = tuple(_tools.decode(request.fields["tools"]))
        read = [_tool.decode(tool) for tool in tools]
    except msgspec.ValidationError as fault:
        raise InvalidRequest("`tools` must be an array of tool objects.", param="tools") from fault
    parts = (part for tool in read for part in (tool.function, tool.custom) if part is not None)
    return ClientTools(tools, frozenset(part.name for part in parts if part.name), choice)


def may_register(request: ChatRequest, client: ClientTools) -> bool:
    """Whether our tools would change nothing that the client relies on (CONTRACT §3.4)."""
    if client.choice is not None and (not client.tools or bytes(client.choice) not in (b'"auto"', b'"required"')):
        return False
    if request.fields.keys().isdisjoint(EXCLUSIVE):
        return True
    if any(request.has(name) for name in ("functions", "function_call", "prediction")):
        return False
    return not request.has("n") or request.get("n") == 1


class _Function(msgspec.Struct):
    name: str = ""
    description: str | None = None


class _Definition(msgspec.Struct):
    function: _Function | None = None


class _PastCall(msgspec.Struct):
    function: _Function | None = None


class _PastMessage(msgspec.Struct):
    tool_calls: list[_PastCall] | None = None


_definition = msgspec.json.Decoder(_Definition)
_message = msgspec.json.Decoder(_PastMessage)


def describe_tool(raw: Raw) -> ClientTool:
    """A tool as far as it can be compared."""
    try:
        function = _definition.decode(raw).function
    except (msgspec.MsgspecError, RecursionError):
        function = None
    if function is None or not function.name:
        return ClientTool(raw, "", "")
    return ClientTool(raw, function.name, f"{function.name}: {function.description or ''}"[:LONGEST_TEXT])


def find_called_names(messages: Sequence[Raw]) -> frozenset[str]:
    """The tools that the history calls."""
    names: set[str] = set()
    for message in messages:
        if b'"tool_calls"' not in bytes(message):
            continue
        try:
            calls = _message.decode(message).tool_calls or ()
        except (msgspec.MsgspecError, RecursionError):
            continue
        names |= {call.function.name for call in calls if call.function is not None}
    return frozenset(names)
