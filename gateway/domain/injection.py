"""The exact text placed, and the tools registered."""

from dataclasses import dataclass

from gateway.domain.selection import Selection
from gateway.domain.tools import OwnTools


@dataclass(frozen=True, slots=True)
class PlacedTexts:
    """What is placed around the client's own text, as the inside of JSON strings."""

    instructions: bytes = b""
    stable: bytes = b""
    volatile: bytes = b""

    def __bool__(self) -> bool:
        return bool(self.instructions or self.stable or self.volatile)


@dataclass(frozen=True, slots=True)
class Injection:
    """What one request gets; the same object serves every request of the same scope."""

    selection: Selection
    stable: str = ""
    volatile: str = ""
    tools: OwnTools | None = None
    tokens: int = 0  # blocks and tool schemas
    texts: PlacedTexts = PlacedTexts()  # instructions and blocks, encoded once
    findable: tuple[str, ...] = ()  # ids of the resources that a search by meaning may pick from

    @property
    def injected(self) -> int:
        """Resources whose text was placed."""
        return len(self.selection.stable) + len(self.selection.volatile)
