"""Resources, prompts and tools of the gateway in the words of MCP, and pages of their lists."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec
from mcp_types import (
    Annotations,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    Tool,
    ToolAnnotations,
)

from gateway.domain.agent import Prompt as PolicyPrompt
from gateway.domain.resource import Mode
from gateway.domain.resource import Resource as PolicyResource
from gateway.domain.template import Placeholder, parse_template
from gateway.edge.mcp.uris import TEMPLATE, make_uri
from gateway.errors import InvalidRequest
from gateway.injection.neutral import neutralize
from gateway.injection.tools import PLAIN_TOOLS

PAGE = 100  # entries of a list
TEXT = "text/plain"
INPUT = "input"  # the argument that stands for the user's text
VARIABLE = "vars."

Entry = TypeVar("Entry")


class ListPage(NamedTuple, Generic[Entry]):
    """Some entries of a list, and where the next ones begin."""

    entries: Sequence[Entry]
    cursor: str | None


def cut_list(entries: Sequence[Entry], cursor: str | None, get_name: Callable[[Entry], str]) -> ListPage[Entry]:
    """The entries after the one that a cursor names; raises InvalidRequest if that is gone."""
    start = 0
    if cursor is not None:
        start = next((place + 1 for place, one in enumerate(entries) if get_name(one) == cursor), 0)
        if not start:
            raise InvalidRequest("The cursor is not valid any more. List from the beginning.", param="cursor")
    shown = entries[start : start + PAGE]
    return ListPage(shown, get_name(shown[-1]) if start + PAGE < len(entries) else None)


def describe_resource(resource: PolicyResource) -> Resource:
    """A resource as a list shows it; what every chat of the scope gets is marked as required."""
    return Resource(
        uri=make_uri(resource.id),
        name=resource.id,
        title=neutralize(resource.name),
        description=neutralize(resource.description or f"{resource.type} resource"),
        mime_type=TEXT,
        annotations=Annotations(priority=1.0) if resource.mode is Mode.ALWAYS else None,
    )


def describe_template() -> ResourceTemplate:
    return ResourceTemplate(
        uri_template=TEMPLATE,
        name="context-resource",
        title="A part of a resource",
        description="A resource by its id: the passages that answer `query`, or the page that begins at `offset`.",
        mime_type=TEXT,
    )


def describe_prompt(prompt: PolicyPrompt, *, has_content: bool) -> Prompt:
    """A prompt with its arguments; `has_content`: the scope has a node whose body fills `{content}`."""
    names = list_placeholders(prompt)
    asks = prompt.template is None or INPUT in names or ("content" in names and not has_content)
    arguments = [PromptArgument(name=INPUT, description="The text that the prompt is about.", required=asks)]
    variables = (name for name in names if name.startswith(VARIABLE))
    arguments += (PromptArgument(name=name_argument(name), required=True) for name in variables)
    return Prompt(name=prompt.alias, title=neutralize(prompt.name), arguments=arguments)


def list_placeholders(prompt: PolicyPrompt) -> list[str]:
    """The names of a template's placeholders, each once."""
    parts = parse_template(prompt.template or "")
    return list(dict.fromkeys(part.name for part in parts if isinstance(part, Placeholder)))


def name_argument(placeholder: str) -> str:
    """`tone` for `vars.tone`; a variable that is called like the input keeps its prefix."""
    name = placeholder.removeprefix(VARIABLE)
    return placeholder if name == INPUT else name


def list_tools() -> list[Tool]:
    """Our two tools with the schemas that models get in a chat."""
    return [describe_tool(msgspec.json.decode(schema)) for schema in PLAIN_TOOLS.schemas]


def describe_tool(schema: dict[str, dict[str, object]]) -> Tool:
    function = schema["function"]
    return Tool.model_validate(
        {
            "name": function["name"],
            "description": function["description"],
            "inputSchema": function["parameters"],
            "annotations": ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        }
    )
