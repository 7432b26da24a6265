"""Tools in Messages: the client's own, which of them the history calls, and whether ours may join them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from gateway.domain.chat import ChatRequest
from gateway.domain.injection import ClientTool, ClientTools
from gateway.errors import InvalidRequest

LONGEST_TEXT = 500  # characters of a name and description that are compared
FREE_CHOICES = ("auto", "any")
CACHED_SCHEMAS = 256

_encode = msgspec.json.Encoder().encode
_tools = msgspec.json.Decoder(list[Raw])


class _DescribedTool(msgspec.Struct):
    name: str | None = None
    description: str | None = None
    type: str | None = None


class _ToolChoice(msgspec.Struct):
    type: str | None = None


class _CallingBlock(msgspec.Struct):
    type: str | None = None
    name: str | None = None


class _CallingPast(msgspec.Struct):
    content: list[_CallingBlock] | str | None = None


class _OwnFunction(msgspec.Struct):
    name: str
    description: str | None = None
    parameters: Raw = Raw(b'{"type":"object","properties":{}}')


class _OwnSchema(msgspec.Struct):
    function: _OwnFunction


_tool = msgspec.json.Decoder(_DescribedTool)
_choice = msgspec.json.Decoder(_ToolChoice)
_message = msgspec.json.Decoder(_CallingPast)
_schema = msgspec.json.Decoder(_OwnSchema)


def read_client_tools(request: ChatRequest) -> ClientTools:
    """The client's tools; raises InvalidRequest if they are not a list of objects."""
    choice = request.fields["tool_choice"] if request.has("tool_choice") else None
    if not request.has("tools"):
        return ClientTools(choice=choice)
    try:
        tools = tuple(_tools.decode(request.fields["tools"]))
        names = [_tool.decode(tool).name for tool in tools]
    except msgspec.ValidationError as fault:
        raise InvalidRequest("`tools` must be an array of tool objects.", param="tools") from fault
    return ClientTools(tools, frozenset(name for name in names if name), choice)


def may_register(request: ChatRequest, client: ClientTools) -> bool:
    """Whether our tools would change nothing that the client relies on (CONTRACT §3.4)."""
    if client.choice is None:
        return True
    try:
        return bool(client.tools) and _choice.decode(client.choice).type in FREE_CHOICES
    except msgspec.MsgspecError:
        return False


def describe_tool(raw: Raw) -> ClientTool:
    """A tool as far as it can be compared; tools of the provider have no description and always stay."""
    try:
        tool = _tool.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return ClientTool(raw, "", "")
    if not tool.name or tool.type not in (None, "custom"):
        return ClientTool(raw, "", "")
    return ClientTool(raw, tool.name, f"{tool.name}: {tool.description or ''}"[:LONGEST_TEXT])


def find_called_names(messages: Sequence[Raw]) -> frozenset[str]:
    """The tools that the history calls."""
    names: set[str] = set()
    for message in messages:
        if b'"tool_use"' not in bytes(message):
            continue
        try:
            content = _message.decode(message).content
        except (msgspec.MsgspecError, RecursionError):
            continue
        blocks = content if isinstance(content, list) else ()
        names |= {block.name for block in blocks if block.type == "tool_use" and block.name}
    return frozenset(names)


def write_tools(schemas: Sequence[Raw]) -> tuple[Raw, ...]:
    """Tools of ours, given as chat completions have them."""
    return tuple(write_tool(bytes(schema)) for schema in schemas)


@lru_cache(CACHED_SCHEMAS)
def write_tool(schema: bytes) -> Raw:
    function = _schema.decode(schema).function
    tool: dict[str, Any] = {"name": function.name}
    if function.description is not None:
        tool["description"] = function.description
    return Raw(_encode({**tool, "input_schema": function.parameters}))
