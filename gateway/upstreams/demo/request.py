"""A chat request as the demo model reads it, checked like a provider checks it."""

from typing import Annotated, Any, Literal

import msgspec


class DemoPart(msgspec.Struct, frozen=True):
    """One part of a message's content; only text is read."""

    type: str
    text: str | None = None


class DemoFunction(msgspec.Struct, frozen=True):
    """The name of a tool, as offered or as called."""

    name: str


class DemoCall(msgspec.Struct, frozen=True):
    """A tool call in the history."""

    id: str
    function: DemoFunction | None = None


class DemoMessage(msgspec.Struct, frozen=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[DemoPart] | None = None
    tool_calls: list[DemoCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text or "" for part in self.content)
        return self.content or ""


class DemoTool(msgspec.Struct, frozen=True):
    """A tool that is offered; other types than functions are never called."""

    type: str
    function: DemoFunction | None = None


class DemoFormat(msgspec.Struct, frozen=True):
    """The form that the answer must have."""

    type: str


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream brings besides the answer."""

    include_usage: bool | None = None


class DemoRequest(msgspec.Struct, frozen=True):
    """The fields that the demo model looks at; all others are ignored."""

    model: str
    messages: Annotated[list[DemoMessage], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    tools: list[DemoTool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: DemoFormat | None = None
