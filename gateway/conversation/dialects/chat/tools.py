"""Tools in chat completions: the client's own, which of them the history calls, and whether ours may join them."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.raw_body import TOOL_FIELDS, UNREADABLE, describe_named, find_calls, read_tools
from gateway.domain.chat import ChatRequest
from gateway.domain.injection import ClientTool, ClientTools

EXCLUSIVE = ("functions", "function_call", "prediction", "n")  # fields that may rule out tools of ours
SHAPING = TOOL_FIELDS.union(EXCLUSIVE)


class _Named(msgspec.Struct):
    name: str | None = None


class _Tool(msgspec.Struct):
    function: _Named | None = None
    custom: _Named | None = None


_tool = msgspec.json.Decoder(_Tool)


def read_names(tool: Raw) -> list[str | None]:
    read = _tool.decode(tool)
    return [part.name for part in (read.function, read.custom) if part is not None]


def read_client_tools(request: ChatRequest) -> ClientTools:
    """The client's tools; raises InvalidRequest if they are not a list of objects."""
    return read_tools(request, read_names)


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
        function = _definition.decode(raw).function or _Function()
    except UNREADABLE:
        function = _Function()
    return describe_named(raw, function.name, function.description)


def find_called_names(messages: Sequence[Raw]) -> frozenset[str]:
    """The tools that the history calls."""
    return find_calls(messages, b'"tool_calls"', read_called)


def read_called(message: Raw) -> list[str | None]:
    return [call.function.name for call in _message.decode(message).tool_calls or () if call.function is not None]
