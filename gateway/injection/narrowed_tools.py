"""A client's own long list of tools, narrowed to what is relevant: which must stay, and which are left out."""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from gateway.domain.chat import ChatRequest
from gateway.domain.dialect import RequestDialect
from gateway.domain.injection import ClientTool, ClientTools
from gateway.domain.name_pattern import matches_pattern

MOST_SCORED = 512  # tools of one request that are compared; longer lists are left as they are


def list_client_tools(dialect: RequestDialect, client: ClientTools) -> list[ClientTool]:
    return [dialect.describe_tool(raw) for raw in client.tools]


def find_required(
    tools: Sequence[ClientTool], client: ClientTools, request: ChatRequest, patterns: Sequence[str]
) -> frozenset[str]:
    """The names that stay whatever is asked: in `tool_choice`, in the history, or by a rule of the agent."""
    called = request.dialect.find_called_names(request.messages)
    choice = bytes(client.choice).decode("utf-8", "replace") if client.choice is not None else ""
    return frozenset(
        tool.name
        for tool in tools
        if tool.name in called
        or (choice and msgspec.json.encode(tool.name).decode() in choice)
        or any(matches_pattern(pattern, tool.name) for pattern in patterns)
    )


class NarrowedTools(msgspec.Struct, frozen=True):
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
