"""What turns text into vectors, as other rooms use it. Importing this is cheap: it does not import numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray


class SemanticError(Exception):
    """There is no vector now: resources stay on demand."""


class EmbedderUnavailable(SemanticError):
    """The embedder cannot be used; the message says why."""


class SearchTimeout(SemanticError):
    """A search or its vectors would come too late."""


class Embedder(Protocol):
    """A model that gives texts of similar meaning similar vectors."""

    @property
    def id(self) -> str:
        """Identifies the exact model: vectors of different ids are never compared."""
        ...

    def normalise(self, text: str) -> str:
        """The text without what makes no difference to its vector: texts with the same result have the same one."""
        ...

    async def embed(self, texts: Sequence[str], within: float | None = None, workspace: str = "") -> NDArray[float32]:
        """One row of length 1 per text; raises EmbedderUnavailable.

        With `within`, a query of a workspace: it goes first, in turn with those of other workspaces, and raises
        SearchTimeout if it takes longer than so many seconds. Without, background work: it lets queries pass.
        """
        ...

    async def close(self) -> None:
        """Release threads and connections; the embedder is not used afterwards."""
        ...
