"""What every client is asked to do, and what comes of it."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel

from tests.support.upstream import Reaction, say

MODEL = "m-large"
KEY = "unused"
HEADERS = {"x-context-agent": "editor"}
QUESTION = "What is the weather in Oslo?"
SUNNY = "Sunny."


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
}
WEATHER_TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather of a city", "parameters": WEATHER_SCHEMA},
}


@dataclass(frozen=True)
class ToolUse:
    """The calls that a client was shown, and its answer once it had returned their results."""

    calls: list[tuple[str, dict[str, Any]]]
    text: str


class ClientAdapter(Protocol):
    """A client that points at a gateway; it does not retry."""

    place: ClassVar[Reaction]  # how the model gives the client a Place

    def __init__(self, base_url: str) -> None: ...

    def ask(self) -> str:
        """The answer to the question."""
        ...

    def stream(self) -> str:
        """The same, in pieces."""
        ...

    def use_tool(self) -> ToolUse:
        """The question with `get_weather` at hand."""
        ...

    def parse(self) -> Place:
        """The answer as a Place."""
        ...

    def fail(self) -> int | None:
        """The status of the error that the client raises when it asks; None if it does not tell."""
        ...


JSON_PLACE = say('{"city": "Oslo"}')
