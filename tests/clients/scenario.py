"""What every client is asked to do, whole and in a stream, and what comes of it."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from tests.support.upstream import Reaction, say

KEY = "unused"
HEADERS = {"x-context-agent": "editor"}
QUESTION = "What is the weather in Oslo?"
SUNNY = "Sunny."

MODEL = "m-large"  # of an upstream that speaks chat completions only: other dialects are translated
# Models of upstreams that speak these dialects. Clients send more to models that they know.
RESPONSES_MODEL = "gpt-5"
MESSAGES_MODEL = "claude-sonnet-4-5"


class Place(BaseModel):
    """Where somebody is."""

    city: str


def get_weather(city: str) -> str:
    """The weather of a city."""
    return SUNNY


WEATHER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER_FUNCTION = {
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": WEATHER_SCHEMA,
    "strict": True,
}
WEATHER_TOOL = {"type": "function", "function": WEATHER_FUNCTION}


@dataclass(frozen=True)
class ToolUse:
    """The calls that a client was shown, and its answer once it had returned their results."""

    calls: list[tuple[str, dict[str, Any]]]
    text: str


class ClientAdapter(Protocol):
    """A client that points at a gateway; it does not retry. With `stream` it asks for streams and reads them."""

    place: ClassVar[Reaction]  # how the model gives the client a Place

    def ask(self, *, stream: bool) -> str:
        """The answer to the question."""
        ...

    def use_tool(self, *, stream: bool) -> ToolUse:
        """The question with `get_weather` at hand."""
        ...

    def parse(self, *, stream: bool) -> Place:
        """The answer as a Place."""
        ...

    def fail(self, *, stream: bool) -> int | None:
        """The status of the error that the client raises when it asks; None if it does not tell."""
        ...


class MakeAdapter(Protocol):
    def __call__(self, base_url: str, model: str) -> ClientAdapter: ...


class StatusAdapter:
    """An adapter whose client raises errors that have a status."""

    failure: ClassVar[type[Exception]]

    def ask(self, *, stream: bool) -> str:
        raise NotImplementedError

    def fail(self, *, stream: bool) -> int | None:
        try:
            self.ask(stream=stream)
        except self.failure as error:
            return int(getattr(error, "status_code", 0))
        return None


JSON_PLACE = say('{"city": "Oslo"}')
