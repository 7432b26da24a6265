"""A client's own long list of tools, narrowed to what is relevant: which must stay, and which are left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
from msgspec import Raw

from gateway.domain.chat import ChatRequest
from gateway.domain.injection import ClientTools
from gateway.domain.name_pattern import matches_pattern

LONGEST_TEXT = 500  # characters of a name and description that are compared
MOST_SCORED = 512  # tools of one request that are compared; longer lists are left as they are


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


@dataclass(frozen=True, slots=True)
class ClientTool:
    """One tool of a request, as far as it can be compared."""

    raw: Raw
    name: str  # "" if it is no function with a name: such a tool always stays
    text: str


def list_client_tools(client: ClientTools) -> list[ClientTool]:
    return [read_tool(raw) for raw in client.tools]


def read_tool(raw: Raw) -> ClientTool:
    try:
        function = _definition.decode(raw).function
    except (msgspec.MsgspecError, RecursionError):
        function = None
    if function is None or not function.name:
        return ClientTool(raw, "", "")
    return ClientTool(raw, function.name, f"{function.name}: {function.description or ''}"[:LONGEST_TEXT])


def find_called_names(request: ChatRequest) -> frozenset[str]:
    """The tools that the history calls."""
    names: set[str] = set()
    for message in request.messages:
        if b'"tool_calls"' not in bytes(message):
            continue
        try:
            calls = _message.decode(message).tool_calls or ()
        except (msgspec.MsgspecError, RecursionError):
            continue
        names |= {call.function.name for call in calls if call.function is not None}
    return frozenset(names)


def find_required(
    tools: Sequence[ClientTool], client: ClientTools, request: ChatRequest, patterns: Sequence[str]
) -> frozenset[str]:
    """The names that stay whatever is asked: in `tool_choice`, in the history, or by a rule of the agent."""
    called = find_called_names(request)
    choice = bytes(client.choice).decode("utf-8", "replace") if client.choice is not None else ""
    return frozenset(
        tool.name
        for tool in tools
        if tool.name in called
        or (choice and msgspec.json.encode(tool.name).decode() in choice)
        or any(matches_pattern(pattern, tool.name) for pattern in patterns)
    )


@dataclass(frozen=True, slots=True)
class NarrowedTools:
    """What is sent of a client's tools, with their bytes and in their order, and the names of the others."""

    client: ClientTools
    omitted: tuple[str, ...]


def narrow_tools(
    tools: Sequence[ClientTool], scores: Sequence[float], required: frozenset[str], limit: int, client: ClientTools
) -> NarrowedTools:
    """The tools that must stay, and the best of the others, up to `limit` in all."""
    stays = [not tool.name or tool.name in required for tool in tools]
    room = max(0, limit - sum(stays))
    others = sorted((place for place, stay in enumerate(stays) if not stay), key=lambda place: -scores[place])
    kept = set(others[:room])
    sent = tuple(tool.raw for place, tool in enumerate(tools) if stays[place] or place in kept)
    omitted = tuple(tool.name for place, tool in enumerate(tools) if not (stays[place] or place in kept))
    return NarrowedTools(replace(client, tools=sent), omitted)
