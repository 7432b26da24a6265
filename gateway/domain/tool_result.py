"""What one of our tools answers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result as the model reads it, and the resources that it tells of."""

    text: str
    resources: tuple[str, ...] = ()  # their ids; empty for an error
    failed: bool = False
