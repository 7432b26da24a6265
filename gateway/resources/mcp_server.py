"""mcp-server: the tools of an MCP server, each with its own mode."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from gateway.domain.agent import ToolPermission
from gateway.domain.material import ToolListMaterial
from gateway.domain.tool import CHARACTERS, SECONDS, ToolServerAddress
from gateway.links.guard import parse_url
from gateway.resources.base import ResourceType

MAX_SECONDS, MAX_CHARACTERS, MAX_HEADERS = 300, 200_000, 20
RESERVED_HEADERS = frozenset({"connection", "content-length", "host", "transfer-encoding", "upgrade"})
ToolMode = Literal["always", "semantic", "manual"]


def check_url(url: str) -> str:
    parse_url(url)  # its address is checked when it is used
    return url


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f"{name!r} is no name of a header")
        if name.lower() in RESERVED_HEADERS:
            raise ValueError(f"{name} cannot be set")
        if not value.isprintable():
            raise ValueError(f"the value of {name} has characters that no header may have")
    return headers


Url = Annotated[str, AfterValidator(check_url)]
Headers = Annotated[dict[str, str], AfterValidator(check_headers), Field(max_length=MAX_HEADERS)]


class CallShape(BaseModel):
    """What calls of a tool may take."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    seconds: float = Field(SECONDS, gt=0, le=MAX_SECONDS, description="How long a call may take.")
    characters: int = Field(CHARACTERS, ge=100, le=MAX_CHARACTERS, description="How much of a result the model gets.")
    permission: ToolPermission | None = Field(None, description="Whether it may be run; absent: as the agent says.")


class ToolShape(BaseModel):
    """What one tool of a server has of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    mode: ToolMode | None = Field(None, description="When it is offered; absent: as the server.")
    permission: ToolPermission | None = Field(None, description="Whether it may be run; absent: as the server.")
    brings: list[str] = Field(
        [], description="Tools that are offered together with it: names of the same server, or ids."
    )
    examples: list[str] = Field([], description="Sample questions that it helps with.")


class McpServerData(CallShape):
    """Which server, and which of its tools."""

    server: str | None = Field(None, description="The name of a server in the configuration (`tool_servers`).")
    url: Url | None = Field(None, description="The address of a server that speaks streamable HTTP.")
    headers: Headers = Field({}, description="Sent with every request; visible to all who may read the policy.")
    allow: list[str] = Field(["*"], description="Names of tools, or patterns with *, that may be used.")
    deny: list[str] = Field([], description="Names of tools, or patterns with *, that may not be used.")
    tools: dict[str, ToolShape] = Field({}, description="What single tools have of their own, by name.")

    @model_validator(mode="after")
    def _check_target(self) -> "McpServerData":
        if (self.server is None) == (self.url is None):
            raise ValueError("give either server or url; commands belong into the configuration, under tool_servers")
        if self.server is not None and self.headers:
            raise ValueError("the headers of a configured server belong into the configuration")
        return self

    @property
    def address(self) -> ToolServerAddress:
        if self.server is not None:
            return ToolServerAddress(name=self.server)
        return ToolServerAddress(url=self.url or "", headers=tuple(sorted(self.headers.items())))


class McpServerType(ResourceType):
    """The tools of an MCP server; they become resources of their own."""

    alias = "mcp-server"
    name = "MCP server"
    description = "The tools of an MCP server, which the model may call"
    data = McpServerData
    is_tool = True

    def material(self, data: McpServerData) -> ToolListMaterial:
        return ToolListMaterial(data.address)

    def render(self, data: McpServerData, material: str | None) -> str:
        return ""  # its tools are offered, and nothing is placed
