"""A chat request, decoded only as far as somebody has to look."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The client's body: top-level fields and messages stay raw, so that they keep their bytes."""

    raw: bytes
    fields: dict[str, Raw]
    messages: list[Raw]
    model: str | None
    stream: bool

    def has(self, name: str) -> bool:
        """Whether a field is given and not null."""
        value = self.fields.get(name)
        return value is not None and bytes(value) != b"null"

    def get(self, name: str) -> Any:
        """A field's value, None where it is absent."""
        return msgspec.json.decode(self.fields[name]) if name in self.fields else None
