"""The exact text placed, and the tools registered."""

from dataclasses import dataclass, field

from msgspec import Raw

from gateway.domain.selection import Selection


@dataclass(slots=True)
class ClientTools:
    """The client's own tools and how it wants them chosen."""

    tools: tuple[Raw, ...] = ()
    names: frozenset[str] = frozenset()
    choice: Raw | None = None


@dataclass(frozen=True, slots=True)
class OwnTools:
    """Our two tools under the names that are free."""

    get: str
    list: str
    schemas: tuple[Raw, ...]
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset((self.get, self.list)))


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
    searchable: tuple[str, ...] = ()  # ids of the resources that semantic search may pick from

    @property
    def injected(self) -> int:
        """Resources whose text was placed."""
        return len(self.selection.stable) + len(self.selection.volatile)
