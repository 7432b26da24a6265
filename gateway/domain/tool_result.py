"""What one of our tools answers."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw


class ToolResult(msgspec.Struct, frozen=True):
    """A result as the model reads it, and the resources that it tells of."""

    text: str
    resources: tuple[str, ...] = ()  # their ids; empty for an error
    failed: bool = False
    added: Mapping[str, Raw] = msgspec.field(default_factory=dict)  # definitions of tools that it brings, by name
