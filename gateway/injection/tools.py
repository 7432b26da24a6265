"""The schemas of the two tools, and the names that are free for them."""

from collections.abc import Iterable

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from gateway.domain.chat import ChatRequest
from gateway.domain.injection import ClientTools, Injection, OwnTools

GET_TOOL = "get_context_resource"
LIST_TOOL = "list_context_resources"


def make_own_tools(taken: Iterable[str]) -> OwnTools:
    """Our tools, renamed if the client uses their names itself."""
    used = set(taken)
    get, list_ = find_free_name(GET_TOOL, used), find_free_name(LIST_TOOL, used)
    return OwnTools(get, list_, (Raw(build_get_schema(get, list_)), Raw(build_list_schema(list_, get))))


def choose_own_tools(request: ChatRequest, client: ClientTools) -> OwnTools | None:
    """Our tools under names that are free; None where they may not be registered."""
    if not request.dialect.may_register(request, client):
        return None
    return PLAIN_TOOLS if client.names.isdisjoint(PLAIN_TOOLS.names) else make_own_tools(client.names)


def withhold_tools(injection: Injection, tools: OwnTools | None) -> Injection:
    """An injection that was built without our tools, because they cannot be sent: calls of them are still ours."""
    if tools is None or not any(one.reason == "no_tools" for one in injection.selection.dropped):
        return injection
    return replace(injection, tools=replace(tools, schemas=()))


def find_free_name(name: str, used: set[str]) -> str:
    if name not in used:
        return name
    suffix = 2
    while f"{name}_{suffix}" in used:
        suffix += 1
    return f"{name}_{suffix}"


def build_get_schema(name: str, list_name: str) -> bytes:
    return build_schema(
        name,
        "Read one of the available reference materials. Long ones come in pages.",
        {
            "resource_id": {"type": "string", "description": f"An ID from the catalogue or from {list_name}."},
            "query": {
                "type": "string",
                "description": "What you are looking for: only the best passages are returned.",
            },
            "offset": {"type": "integer", "minimum": 0, "description": "Where to go on reading, from the last page."},
        },
        ["resource_id"],
    )


def build_list_schema(name: str, get_name: str) -> bytes:
    return build_schema(
        name,
        f"List reference materials that {get_name} can read.",
        {"query": {"type": "string", "description": "What you are looking for. Leave out to list everything."}},
        [],
    )


def build_schema(name: str, description: str, properties: dict[str, object], required: list[str]) -> bytes:
    parameters: dict[str, object] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    parameters["additionalProperties"] = False
    function = {"name": name, "description": description, "parameters": parameters}
    return msgspec.json.encode({"type": "function", "function": function})


PLAIN_TOOLS = make_own_tools(())
