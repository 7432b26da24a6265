"""How an index is laid out on a server: one part for the files and one for each workspace, with hashes for names.

What another workspace stores lies in another graph: it cannot change what is found here. Within a part, tags of
contexts and resources keep what may not be seen out of the search.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.index.holdings import SEPARATOR
from gateway.semantic.index.lexical import terms
from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.vector_index import Rows
from gateway.stores.redis_passages import PassageDocument, PassageFilter

TAGS = 5000  # in one query: reading so many takes the server 13 ms


@dataclass(frozen=True, slots=True, eq=False)
class IndexPartition:
    """What of an index belongs to the files ("") or to one workspace."""

    workspace: str
    ids: dict[str, int]  # of the documents → rows
    resources: int
    fingerprint: bytes  # of what it holds: gateways that hold the same find the same

    def name(self, kind: str) -> str:
        """What the server calls it; `kind` tells apart what cannot be compared."""
        return hashed(f"{kind}\n{self.workspace}", 24)


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """An index cut into parts, and the tags of its resources."""

    indexed: PassageIndex
    parts: tuple[IndexPartition, ...]
    part_of: Rows  # by row; -1: in none
    contexts: Rows  # by resource: the number of its context
    sizes: Rows  # by context: its resources
    context_tags: Sequence[str]
    resource_tags: Sequence[str]

    @classmethod
    def of(cls, indexed: PassageIndex, least: int) -> Self:
        """The parts of at least so many passages; smaller ones are searched faster here than there."""
        keys = list(indexed.numbers)
        names = [key.rpartition("/")[0] for key in keys]  # workspace and alias of the context
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        contexts = np.array([numbers[name] for name in names], np.intp)
        workspaces = np.array([key.rpartition(SEPARATOR)[0] for key in keys], dtype=object)
        part_of = np.full(len(indexed.passages), -1, np.intp)
        parts: list[IndexPartition] = []
        for workspace in dict.fromkeys(workspaces.tolist()):
            rows = np.flatnonzero((workspaces == workspace)[indexed.owners] & indexed.ready)
            if len(rows) >= least:
                part_of[rows] = len(parts)
                parts.append(_part(indexed, workspace, rows))
        tags = [hashed(key, 12) for key in keys]
        sizes = np.bincount(contexts, minlength=len(numbers))
        return cls(indexed, tuple(parts), part_of, contexts, sizes, [hashed(name, 12) for name in numbers], tags)

    def documents(self, ids: Sequence[str], part: IndexPartition, *, worded: bool) -> Iterator[PassageDocument]:
        """The documents of some ids, as the server keeps them."""
        rows = np.array([part.ids[one] for one in ids], np.intp)
        vectors = self.indexed.index.vectors_of(rows).astype("<f2")
        for one, row, vector in zip(ids, rows, vectors, strict=True):
            resource = self.indexed.owners[row]
            tags = self.resource_tags[resource], self.context_tags[self.contexts[resource]]
            words = " ".join(map(word_tag, terms(self.indexed.passages[row].text))) if worded else ""
            yield PassageDocument(one, vector.tobytes(), *tags, words)

    def allowed(self, number: int, rows: Rows) -> PassageFilter | None:
        """Which tags stand for these rows of a part; None: all of it. Raises ValueError for too many."""
        resources = np.unique(self.indexed.owners[rows])
        contexts = self.contexts[resources]
        whole = np.bincount(contexts, minlength=len(self.sizes)) == self.sizes
        part = self.parts[number]
        if len(resources) == part.resources:
            return None
        single = resources[~whole[contexts]]
        full = np.unique(contexts[whole[contexts]])
        if len(full) + len(single) > TAGS:
            raise ValueError
        tags = [self.context_tags[n] for n in full], [self.resource_tags[n] for n in single]
        return PassageFilter(*tags, len(rows) / len(part.ids))


def _part(indexed: PassageIndex, workspace: str, rows: NDArray[np.intp]) -> IndexPartition:
    ids: dict[str, int] = {}
    for row in rows:
        passage = indexed.passages[row]
        ids.setdefault(hashed(f"{passage.resource}\n{indexed.keys[row].hex()}", 32), int(row))
    resources = len(np.unique(indexed.owners[rows]))
    return IndexPartition(workspace, ids, resources, hashed("\n".join(sorted(ids)), 32).encode())


def word_tag(term: str) -> str:
    """A word as the server knows it."""
    return "w" + hashed(term, 12)


def hashed(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
