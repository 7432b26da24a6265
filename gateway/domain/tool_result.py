"""What one of our tools answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Raw


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A result as the model reads it, and the resources that it tells of."""

    text: str
    resources: tuple[str, ...] = ()  # their ids; empty for an error
    failed: bool = False
    added: Mapping[str, Raw] = field(default_factory=dict)  # definitions of tools that it brings, by name
