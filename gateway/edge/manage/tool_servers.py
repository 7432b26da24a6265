"""`/tool-servers`: the state of the MCP servers that a workspace's policies name, and the tools that they have."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import orjson
from pydantic import BaseModel, Field

from gateway.control.tool_servers import ToolServerInfo, ToolServerViews
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import ListQuery, Page, paginate
from gateway.edge.manage.routes import ApiRoute

TAG = "tool-servers"


class ServerToolView(BaseModel):
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: dict[str, Any] = Field(description="JSON Schema of its arguments.")


class ToolServerView(BaseModel):
    """An MCP server."""

    name: str = Field(description="Its name in the configuration, or its URL.")
    state: Literal["up", "down", "connecting"]
    error: str | None = Field(description="Why it is down.")
    tools: list[ServerToolView] = Field(description="As it told them last.")
    refused: int = Field(description="Tools that it named and that cannot be used.")
    why: str | None = Field(description="Why the first of those cannot be used.")
    used_by: list[str] = Field(description="The resources that name it, as `context/resource`.")


class ToolServerPage(Page[ToolServerView]):
    """A page of the list of MCP servers."""


class ToolServerRoutes(msgspec.Struct, frozen=True):
    """The MCP servers of a workspace."""

    servers: ToolServerViews

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/tool-servers",
            handler=self.list,
            role=Role.EDITOR,
            tag=TAG,
            summary="List the MCP servers that the policies of the workspace name, with their state and tools",
            query=ListQuery,
            responses={200: ToolServerPage},
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        every = self.servers.list_all(call.workspace)
        found = [one for one in every if call.query.accepts(one.name, *one.used_by)]
        return ApiReply(paginate(found, call.query, _build_view))


def _build_view(server: ToolServerInfo) -> ToolServerView:
    tools = [
        ServerToolView(name=one.name, description=one.description, parameters=orjson.loads(one.schema))
        for one in server.tools
    ]
    return ToolServerView(
        name=server.name,
        state=server.state,
        error=server.error,
        tools=tools,
        refused=server.refused,
        why=server.why,
        used_by=list(server.used_by),
    )
