"""How near entities are to a question by their vectors, and what of an entity gets one."""

import msgspec
import numpy as np

from gateway.domain.knowledge import Entity
from gateway.semantic.index.document_vectors import DocumentVectors, Numbers
from gateway.semantic.index.passages import split_text
from gateway.semantic.index.relevance import rate_cosine
from gateway.semantic.index.vector_index import Floats, Rows

EMBEDDED_CHARACTERS = 1500  # of one entity


class EntityMeaning(msgspec.Struct, frozen=True, eq=False):
    """A question as vectors, and those of the entities."""

    queries: Floats
    vectors: DocumentVectors
    numbers: Numbers  # by row of the index of entities: as the vectors know them
    similar: float

    def rate(self, rows: Rows) -> Floats:
        """How relevant each of these entities is by its meaning, 0..1; 0 where it is not similar.

        Entities of other rows have no influence.
        """
        rated, wanted = np.zeros(len(rows), np.float32), self.numbers[rows]
        found = self.vectors.compare(self.queries, self.vectors.find_rows(wanted))
        places = np.zeros(len(self.vectors.numbers), np.intp)
        places[wanted] = np.arange(len(rows))
        for id, near in found.items():
            number = self.vectors.numbers.find(id)
            if number is not None and near.cosine >= self.similar:
                rated[places[number]] = rate_cosine(near.cosine, self.similar)
        return rated


def list_passages(entity: Entity) -> list[str]:
    """What of an entity gets vectors: its names, its type and what its properties say."""
    names = ", ".join([entity.name, *entity.aliases])
    said = [
        f"{name}: {' '.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in entity.properties.items()
    ]
    return split_text(f"{names} ({entity.type})\n" + "\n".join(said)[:EMBEDDED_CHARACTERS])
