"""Compiles resources that stand for tools: an HTTP endpoint is one, an MCP server has one for each of its tools."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gateway.domain.agent import ToolPermission
from gateway.domain.name_pattern import matches_pattern
from gateway.domain.resource import Mode, Resource
from gateway.domain.tool import CallableTool, CallBounds, ServerTool
from gateway.policies.shapes import ResourceShape
from gateway.resources.base import ResourceType
from gateway.resources.http_tool import HttpToolData
from gateway.resources.mcp_server import CallShape, McpServerData, ToolShape
from gateway.tools.listing import build_definition, encode_schema
from gateway.tools.names import clean_name, make_function_name

UNTOLD = ToolShape()
WRITE_INSTEAD = "write it as a resource of the type http-tool, or name its server in one of the type mcp-server"


def find_tool_fault(shape: ResourceShape, kind: ResourceType) -> str | None:
    """What is wrong with the mode or the kind of a resource, as far as tools are concerned."""
    if not kind.is_tool:
        return f"a text is no tool: {WRITE_INSTEAD}" if shape.kind == "tool" else None
    if shape.kind not in (None, "tool"):
        return f"a resource of the type {kind.alias} is a tool; remove `kind`"
    if shape.mode is Mode.ON_DEMAND:
        return "a tool cannot be on_demand: write always, semantic or manual"
    if kind.alias == "http-tool" and not shape.description.strip():
        return "a tool needs a description: it is what models choose it by"
    return None


def compile_http_tool(resource: Resource, data: HttpToolData) -> Resource:
    """The resource of an endpoint, with its definition."""
    context, _, alias = resource.id.partition("/")
    function = clean_name(alias)
    brings = tuple(name if "/" in name else f"{context}/{name}" for name in data.brings)
    tool = CallableTool(function, data.endpoint, bounds=_make_bounds(data), brings=brings)
    definition = build_definition(function, resource.description, encode_schema(data.parameters))
    return replace(resource, data=tool, text=definition, truncate="none")


def expand_server(resource: Resource, data: McpServerData, tools: Sequence[ServerTool]) -> Iterator[Resource]:
    """A resource for each tool of a server that may be used; what the server's resource says holds for all of them."""
    allowed = [tool for tool in tools if _is_allowed(tool.name, data)]
    ids = _make_ids(resource.id, allowed)
    alias = resource.id.partition("/")[2]
    for tool in allowed:
        own = data.tools.get(tool.name, UNTOLD)
        function = make_function_name(alias, tool.name)
        called = CallableTool(
            function,
            data.address,
            tool.name,
            resource.id,
            _make_bounds(data, own.permission),
            tuple(name if "/" in name else ids.get(name, f"{resource.id}.{clean_name(name)}") for name in own.brings),
        )
        yield replace(
            resource,
            id=ids[tool.name],
            name=f"{alias}.{tool.name}",
            mode=resource.mode if own.mode is None else Mode(own.mode),
            description=" ".join(tool.description.split()),
            examples=tuple(own.examples),
            conflict_key=None,
            data=called,
            text=build_definition(function, tool.description, tool.schema),
            truncate="none",
        )


def _is_allowed(name: str, data: McpServerData) -> bool:
    allowed = any(matches_pattern(pattern, name) for pattern in data.allow)
    return allowed and not any(matches_pattern(pattern, name) for pattern in data.deny)


def _make_ids(server: str, tools: Sequence[ServerTool]) -> dict[str, str]:
    """The id of each tool by its name; names that look the same are numbered."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for tool in tools:
        base = identity = f"{server}.{clean_name(tool.name)}"
        number = 2
        while identity in taken:
            identity, number = f"{base}_{number}", number + 1
        taken.add(identity)
        ids[tool.name] = identity
    return ids


def _make_bounds(data: CallShape, own: ToolPermission | None = None) -> CallBounds:
    return CallBounds(data.seconds, data.characters, own or data.permission)
