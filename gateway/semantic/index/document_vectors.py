"""Which documents (nodes or entities) have which vectors, and which of them are near to a question."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gateway.semantic.index.compact_index import CompactIndex, Flags
from gateway.semantic.index.document_numbers import DocumentNumbers
from gateway.semantic.index.passage_index import Vector
from gateway.semantic.index.vector_index import Floats, Rows

Numbers = NDArray[np.int32]

NEAREST = 64  # passages per sentence that are looked up
KEY_BYTES = 32
MOST_GONE = 0.25  # share of rows without a document above which they are numbered anew
GONE = -1


class StoredVector(NamedTuple):
    """The vector of a passage."""

    id: str  # of its document
    key: bytes  # what it is stored under
    vector: Vector
    last: bool = True  # whether nothing of the document comes after it


class DocumentCosine(NamedTuple):
    """How near a document is to a question."""

    cosine: float  # of its nearest passage
    whole: bool  # whether it is known that all of its passages were compared


class DocumentVectors(msgspec.Struct, frozen=True, eq=False):
    """Vectors of documents, which are known by numbers. Replaced rather than changed: a search is never disturbed.

    Only `numbers` and `keys` are shared with successors, and they only grow. Nothing here knows who may read what: a
    search is told which documents are visible, and looks at no others.
    """

    index: CompactIndex
    owners: Numbers  # by row: the number of its document, or GONE
    lasts: Flags  # by row: whether it is the last passage of its document
    numbers: DocumentNumbers
    keys: bytearray = msgspec.field(default_factory=bytearray)  # by row: what its vector is stored under

    @classmethod
    def build(cls, width: int, numbers: DocumentNumbers) -> Self:
        return cls(CompactIndex(width), np.empty(0, np.int32), np.empty(0, np.bool_), numbers)

    def __len__(self) -> int:
        """Rows, those without a document too."""
        return len(self.owners)

    @property
    def is_sparse(self) -> bool:
        """Whether so many rows have no document any more that it is worth numbering rows anew."""
        return int((self.owners == GONE).sum()) > MOST_GONE * len(self)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + self.owners.nbytes + self.lasts.nbytes + len(self.keys)

    def add(self, vectors: Sequence[StoredVector]) -> Self:
        """With more vectors."""
        # An endpoint may change what it sends under the same name.
        fitting = [one for one in vectors if len(one.vector) == self.index.width]
        if not fitting:
            return self
        owners = np.append(self.owners, np.array(self.numbers.number(one.id for one in fitting), np.int32))
        self.keys.extend(b"".join(one.key for one in fitting))
        index = self.index.append(np.stack([one.vector for one in fitting]).astype(np.float32))
        lasts = np.append(self.lasts, np.array([one.last for one in fitting], np.bool_))
        return type(self)(index, owners, lasts, self.numbers, self.keys)

    def remove(self, ids: Iterable[str]) -> Self:
        """Without the vectors of these documents."""
        owners = np.where(self._find_rows_of(ids), np.int32(GONE), self.owners)
        return replace(self, owners=owners)

    def keep(self, count: int) -> Self:
        """The same with its first rows only, as many as `count`, and without those that have no document."""
        rows = np.flatnonzero(self.owners >= 0)[:count]
        keys = bytearray(b"".join(map(self.get_key, rows.tolist())))
        return type(self)(self.index.take(rows), self.owners[rows], self.lasts[rows], self.numbers, keys)

    def get_key(self, row: int) -> bytes:
        """What the vector of a row is stored under."""
        return bytes(self.keys[row * KEY_BYTES : (row + 1) * KEY_BYTES])

    def find_rows(self, numbers: Numbers) -> Flags:
        """Which rows belong to these documents: what somebody sees of it. Worth keeping."""
        wanted = np.zeros(len(self.numbers) + 1, np.bool_)  # the last stands for GONE
        wanted[numbers] = True
        rows: Flags = wanted[self.owners]
        return rows

    def compare(self, queries: Floats, visible: Flags, also: Iterable[str] = ()) -> dict[str, DocumentCosine]:
        """How near visible documents are: those that are nearest to a query, and some others."""
        if queries.shape[1] != self.index.width or not visible.any():
            return {}
        found = self.index.search_visible(queries, NEAREST, visible)
        compared = np.flatnonzero(self._find_rows_of(also))
        compared = compared[visible[compared]]
        rows = np.concatenate([found.rows.ravel(), compared])
        cosines = np.concatenate([found.scores.ravel(), self._compare_exactly(queries, compared)])
        best: dict[str, DocumentCosine] = {}
        whole = self.lasts[rows]
        whole[: found.rows.size] = False  # the others of their documents may not have been compared
        for owner, cosine, last in zip(self.owners[rows].tolist(), cosines.tolist(), whole.tolist(), strict=True):
            former = best.get(id := self.numbers.ids[owner], DocumentCosine(-1.0, whole=False))
            best[id] = DocumentCosine(max(former.cosine, cosine), former.whole or last)
        return best

    def _find_rows_of(self, ids: Iterable[str]) -> Flags:
        found = [number for id in ids if (number := self.numbers.find(id)) is not None]
        return self.find_rows(np.array(found, np.int32))

    def _compare_exactly(self, queries: Floats, rows: Rows) -> Floats:
        """The best cosine of each row; summed row by row, so that no row depends on those around it."""
        scores: Floats = np.einsum("rd,qd->qr", self.index.get_vectors(rows), queries).max(axis=0)
        return scores
