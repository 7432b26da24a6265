"""http-tool: an HTTP endpoint that the model may call."""

from typing import Any, Literal

from pydantic import Field, field_validator

from gateway.domain.tool import ToolEndpoint
from gateway.resources.base import ResourceType
from gateway.resources.mcp_server import CallShape, Headers, Url
from gateway.tools.listing import MAX_DEPTH, MAX_SCHEMA, encode_schema

NO_ARGUMENTS = {"type": "object", "properties": {}}


class HttpToolData(CallShape):
    """The endpoint and the arguments that it takes."""

    url: Url = Field(description="Where it is called; `{name}` in the path stands for an argument.")
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = Field(
        "POST", description="GET and DELETE send the arguments in the query, the others as JSON."
    )
    headers: Headers = Field({}, description="Sent with every call; visible to all who may read the policy.")
    parameters: dict[str, Any] = Field(NO_ARGUMENTS, description="JSON Schema of the arguments.")
    brings: list[str] = Field([], description="Ids of tools that are offered together with it.")

    @field_validator("parameters")
    @classmethod
    def _check_schema(cls, schema: dict[str, Any]) -> dict[str, Any]:
        if not encode_schema(schema):
            raise ValueError(
                f"must be a JSON Schema of type object with at most {MAX_SCHEMA} bytes and {MAX_DEPTH} levels"
            )
        return schema

    @property
    def endpoint(self) -> ToolEndpoint:
        return ToolEndpoint(self.method, self.url, tuple(sorted(self.headers.items())))


class HttpToolType(ResourceType):
    """One endpoint as a function with its JSON Schema."""

    alias = "http-tool"
    name = "HTTP tool"
    description = "An HTTP endpoint that the model may call"
    data = HttpToolData
    is_tool = True

    def render(self, data: HttpToolData, material: str | None) -> str:
        return ""  # the compiler builds its definition, which needs the resource's name and description
