"""The tools of an exchange: the client's, and the two that the gateway runs itself."""

from dataclasses import dataclass

from msgspec import Raw


@dataclass(frozen=True, slots=True)
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

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.get, self.list))
