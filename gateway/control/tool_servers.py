"""MCP servers: their state, their tools, and the resources that name them."""

from collections.abc import Callable

import msgspec

from gateway.domain.tool import ServerTool
from gateway.policies.repository import PolicyRepository
from gateway.tools.servers import ServerState, ServerStatus, ToolServers


class ToolServerInfo(msgspec.Struct, frozen=True):
    """A server that the policies of a workspace name."""

    name: str  # in the configuration, or its URL
    state: ServerState
    error: str | None
    tools: tuple[ServerTool, ...]
    refused: int
    why: str | None
    used_by: tuple[str, ...]  # resources


class ToolServerViews:
    """The servers of every workspace."""

    def __init__(self, policies: PolicyRepository, get_servers: Callable[[], ToolServers]) -> None:
        self._policies, self._get_servers = policies, get_servers

    def list_all(self, workspace: str) -> list[ToolServerInfo]:
        """All servers that the policies of a workspace name, by name."""
        uses = self._policies.list_tool_servers()
        found = []
        for status in self._get_servers().list_statuses(workspace):
            named = uses.get(status.address, ())
            used_by = tuple(sorted(use.resource for use in named if use.workspace in ("", workspace)))
            found.append(describe_server(status, used_by))
        return sorted(found, key=lambda one: one.name)


def describe_server(status: ServerStatus, used_by: tuple[str, ...]) -> ToolServerInfo:
    listing = status.listing
    return ToolServerInfo(
        name=status.address.name or status.address.url,
        state=status.state,
        error=status.error,
        tools=listing.tools if listing is not None else (),
        refused=listing.refused if listing is not None else 0,
        why=listing.why or None if listing is not None else None,
        used_by=used_by,
    )
