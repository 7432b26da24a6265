"""Tools that the gateway runs on behalf of a model: those of MCP servers, and HTTP endpoints."""

import msgspec

from gateway.domain.agent import ToolPermission

SECONDS = 30.0  # that a call may take
CHARACTERS = 20_000  # of a result that the model gets
DEFINITION_HEAD = '{"type":"function","function":{"name":"'  # of every definition; the name follows


class ToolServerAddress(msgspec.Struct, frozen=True):
    """Which MCP server: one of the configuration by its name, or one of a policy by its URL."""

    name: str = ""
    url: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class ServerTool(msgspec.Struct, frozen=True):
    """A tool as its server describes it."""

    name: str
    description: str
    schema: str  # JSON Schema of the arguments


class ToolEndpoint(msgspec.Struct, frozen=True):
    """Where an HTTP tool is called."""

    method: str
    url: str  # `{name}` stands for an argument
    headers: tuple[tuple[str, str], ...] = ()


class CallBounds(msgspec.Struct, frozen=True):
    """What one call may take."""

    seconds: float = SECONDS
    characters: int = CHARACTERS
    permission: ToolPermission | None = None  # None: as the agent and the session have it


class CallableTool(msgspec.Struct, frozen=True):
    """The data of a resource that stands for one tool."""

    function: str  # the name that a model calls it by, unless that is taken
    target: ToolServerAddress | ToolEndpoint
    name: str = ""  # as its server knows it; "" for an endpoint
    server: str = ""  # id of the resource that brought it; "" for an endpoint
    bounds: CallBounds = CallBounds()
    brings: tuple[str, ...] = ()  # ids of the tools that come along


class ToolOutcome(msgspec.Struct, frozen=True):
    """What a call came to."""

    text: str
    failed: bool = False
    unavailable: bool = False  # its server does not answer


def rename_definition(definition: str, name: str, other: str) -> str:
    """The definition of a function under another name."""
    return f"{DEFINITION_HEAD}{other}{definition[len(DEFINITION_HEAD) + len(name) :]}"
