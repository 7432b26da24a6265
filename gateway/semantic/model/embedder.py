"""What turns text into vectors, seen from the rest of the house. Importing this costs nothing: numpy comes later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray


class SemanticError(Exception):
    """There is no vector now; whoever wanted one leaves its resources to the tools."""


class EmbedderUnavailable(SemanticError):
    """The embedder cannot be used; the message says why."""


class SearchTimeout(SemanticError):
    """The vectors would come after the moment for which they were asked."""


class Embedder(Protocol):
    """A model that places texts of similar meaning near each other."""

    @property
    def id(self) -> str:
        """Names the exact model: vectors of different ids never meet."""
        ...

    async def embed(self, texts: Sequence[str], within: float | None = None) -> NDArray[float32]:
        """One row of length 1 per text; raises EmbedderUnavailable.

        With `within`, a query: it goes first, and raises Late when the vectors are not there after so many seconds.
        Without, background work: it waits while there are queries.
        """
        ...

    async def close(self) -> None:
        """Release threads and connections; the embedder is not used afterwards."""
        ...
