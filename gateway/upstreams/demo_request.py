"""A chat request as the demo model reads it, checked like a provider checks it."""

from typing import Annotated, Any, Literal

import msgspec


class Part(msgspec.Struct, frozen=True):
    """One part of a message's content; only text is read."""

    type: str
    text: str | None = None


class Function(msgspec.Struct, frozen=True):
    """The name of a tool, as offered or as called."""

    name: str


class Call(msgspec.Struct, frozen=True):
    """A tool call in the history."""

    id: str
    function: Function | None = None


class Message(msgspec.Struct, frozen=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[Part] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text or "" for part in self.content)
        return self.content or ""


class Tool(msgspec.Struct, frozen=True):
    """A tool that is offered; other types than functions are never called."""

    type: str
    function: Function | None = None


class Format(msgspec.Struct, frozen=True):
    """The form that the answer must have."""

    type: str


class StreamOptions(msgspec.Struct, frozen=True):
    """What a stream brings besides the answer."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, frozen=True):
    """The fields that the demo model looks at; all others are ignored."""

    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: Format | None = None
