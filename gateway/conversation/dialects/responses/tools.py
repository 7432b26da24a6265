"""Tools in responses: the client's own of every kind, and ours as functions."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec
from msgspec import Raw

from gateway.conversation.dialects.raw_body import (
    TOOL_FIELDS,
    UNREADABLE,
    ToolWriter,
    describe_named,
    find_calls,
    read_tools,
)
from gateway.conversation.dialects.responses.items import read_item
from gateway.domain.chat import ChatRequest
from gateway.domain.injection import ClientTool, ClientTools

REMEMBERED_TOOLS = 512  # of ours, written as functions
SHAPING = TOOL_FIELDS | {"prompt"}
OPEN_CHOICES = (b'"auto"', b'"required"')


class _NamedTool(msgspec.Struct):
    name: str | None = None
    description: str | None = None


class _ChatFunction(msgspec.Struct):
    name: str
    description: Raw = Raw(b'""')
    parameters: Raw = Raw(b"{}")


class _ChatTool(msgspec.Struct):
    function: _ChatFunction


_named = msgspec.json.Decoder(_NamedTool)
_chat_tool = msgspec.json.Decoder(_ChatTool)


def read_names(tool: Raw) -> list[str | None]:
    return [_named.decode(tool).name]


def read_client_tools(request: ChatRequest) -> ClientTools:
    """The client's tools; raises InvalidRequest if they are not a list of objects."""
    return read_tools(request, read_names)


def may_register(request: ChatRequest, client: ClientTools) -> bool:
    """Whether our tools would change nothing that the client relies on (CONTRACT §3.4).

    A stored prompt may have tools of its own, which a field would replace.
    """
    if client.choice is not None and (not client.tools or bytes(client.choice) not in OPEN_CHOICES):
        return False
    return bool(client.tools) or not request.has("prompt")


@lru_cache(REMEMBERED_TOOLS)
def write_function(schema: bytes) -> Raw:
    """A function of chat completions as responses have it; strict is what they assume if it is left out."""
    function = _chat_tool.decode(schema).function
    return Raw(
        msgspec.json.encode(
            {
                "type": "function",
                "name": function.name,
                "description": function.description,
                "parameters": function.parameters,
                "strict": False,
            }
        )
    )


write_tools = ToolWriter(write_function).write_all


def describe_tool(raw: Raw) -> ClientTool:
    """A tool as far as it can be compared."""
    try:
        tool = _named.decode(raw)
    except UNREADABLE:
        tool = _NamedTool()
    return describe_named(raw, tool.name, tool.description)


def find_called_names(messages: Sequence[Raw]) -> frozenset[str]:
    """The tools that the history calls."""
    return find_calls(messages, b'_call"', read_called)


def read_called(item: Raw) -> list[str | None]:
    read = read_item(item)
    return [read.name] if read.is_call else []
