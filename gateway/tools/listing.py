"""The list of a server's tools: bounded, checked, and kept as text, from which policies make resources."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import orjson

from gateway.domain.tool import DEFINITION_HEAD, ServerTool

MAX_TOOLS = 500  # of one server
MAX_SCHEMA = 32 * 1024  # bytes of one schema
MAX_DEPTH = 32  # levels of one schema
MAX_LIST = 1024 * 1024  # bytes of all schemas and descriptions
MAX_NAME = 128  # characters, as the protocol has it
MAX_DESCRIPTION = 4096  # characters

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[ServerTool, ...]).decode


class ToolListing(msgspec.Struct, frozen=True):
    """The tools of a server, and how many of those that it named cannot be used."""

    tools: tuple[ServerTool, ...] = ()
    refused: int = 0
    why: str = ""  # the first was refused

    def encode(self) -> str:
        """The tools as a text, the same for the same tools."""
        return _encode(self.tools).decode()


def decode_listing(text: str) -> tuple[ServerTool, ...]:
    return _decode(text)


def build_listing(described: Iterable[Mapping[str, Any]]) -> ToolListing:
    """What may be used of a server's list: the first tools within the bounds."""
    tools: dict[str, ServerTool] = {}
    refused, why, size = 0, "", 0
    for one in described:
        tool = make_tool(one)
        if isinstance(tool, ServerTool):
            size += len(tool.schema) + len(tool.description)
        fault = tool if isinstance(tool, str) else find_fault(tool, tools, size)
        if fault:
            refused, why = refused + 1, why or fault
        elif isinstance(tool, ServerTool):
            tools[tool.name] = tool
    return ToolListing(tuple(tools.values()), refused, why)


def find_fault(tool: ServerTool, known: Mapping[str, ServerTool], size: int) -> str:
    if tool.name in known:
        return f"the tool {tool.name!r} is named twice"
    if len(known) >= MAX_TOOLS:
        return f"there are more than {MAX_TOOLS} tools"
    return f"the list has more than {MAX_LIST} bytes" if size > MAX_LIST else ""


def make_tool(described: Mapping[str, Any]) -> ServerTool | str:
    """A tool as its server describes it, or why it cannot be used."""
    name, description, schema = described.get("name"), described.get("description"), described.get("schema")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        return f"the name of a tool is not 1 to {MAX_NAME} characters"
    if not name.isprintable():
        return f"the name {name!r} has characters that cannot be printed"
    encoded = encode_schema(schema)
    if not encoded:
        return f"the schema of {name!r} is no object of at most {MAX_SCHEMA} bytes and {MAX_DEPTH} levels"
    text = description if isinstance(description, str) else ""
    return ServerTool(name, text.encode("utf-8", "replace").decode()[:MAX_DESCRIPTION], encoded)


def encode_schema(schema: Any) -> str:
    """A schema as JSON; "" if it is none, or larger or deeper than any that people write."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object" or not is_shallow(schema, MAX_DEPTH):
        return ""
    try:
        encoded = orjson.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return ""
    return encoded.decode() if len(encoded) <= MAX_SCHEMA else ""


def is_shallow(value: Any, levels: int) -> bool:
    """Whether a value has at most so many levels; it is walked level by level, so depth costs no stack."""
    level = [value]
    for _ in range(levels):
        level = [inner for one in level for inner in list_inner(one)]
        if not level:
            return True
    return False


def list_inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return (inner for inner in value.values() if isinstance(inner, dict | list))
    return (inner for inner in value if isinstance(inner, dict | list)) if isinstance(value, list) else ()


def build_definition(function: str, description: str, schema: str) -> str:
    """The definition of a function as requests carry it, with the schema as it was given."""
    described = orjson.dumps(description).decode()
    return f'{DEFINITION_HEAD}{function}","description":{described},"parameters":{schema}}}}}'
