"""Tools in Messages: the client's own, which of them the history calls, and whether ours may join them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.raw_body import UNREADABLE, ToolWriter, describe_named, find_calls, read_tools
from gateway.domain.chat import ChatRequest
from gateway.domain.injection import ClientTool, ClientTools

FREE_CHOICES = ("auto", "any")
CACHED_SCHEMAS = 256

_encode = msgspec.json.Encoder().encode


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


def read_names(tool: Raw) -> list[str | None]:
    return [_tool.decode(tool).name]


def read_client_tools(request: ChatRequest) -> ClientTools:
    """The client's tools; raises InvalidRequest if they are not a list of objects."""
    return read_tools(request, read_names)


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
    except UNREADABLE:
        tool = _DescribedTool()
    return describe_named(raw, tool.name if tool.type in (None, "custom") else None, tool.description)


def find_called_names(messages: Sequence[Raw]) -> frozenset[str]:
    """The tools that the history calls."""
    return find_calls(messages, b'"tool_use"', read_called)


def read_called(message: Raw) -> list[str | None]:
    content = _message.decode(message).content
    return [block.name for block in content if block.type == "tool_use"] if isinstance(content, list) else []


@lru_cache(CACHED_SCHEMAS)
def write_tool(schema: bytes) -> Raw:
    function = _schema.decode(schema).function
    tool: dict[str, Any] = {"name": function.name}
    if function.description is not None:
        tool["description"] = function.description
    return Raw(_encode({**tool, "input_schema": function.parameters}))


write_tools = ToolWriter(write_tool).write_all
