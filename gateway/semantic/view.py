"""An index as one caller may see it: what is hidden has no influence on any score."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.indexed import Indexed
from gateway.semantic.languages import foreignness
from gateway.semantic.lexical import Lexical, Scoped, terms
from gateway.semantic.scoring import Evidence, Floats, Rows, best_per_owner, centroids


@dataclass(frozen=True, eq=False)
class View:
    """The visible resources as columns, their passages and examples as rows grouped by column."""

    indexed: Indexed
    resources: tuple[str, ...]  # by column
    rows: Rows  # of the index
    owners: Rows  # by row: its column, ascending
    centres: Floats  # by column: where its examples point; zero without examples
    examples: NDArray[np.bool_]  # by column
    words: Scoped

    @classmethod
    def build(cls, indexed: Indexed, resources: Sequence[str], lexical: Lexical) -> "View":
        """What can be seen of an index; `lexical` holds the words of its passages, row by row."""
        rows = indexed.rows(resources)
        names = [indexed.passages[row].resource for row in rows]
        columns = tuple(name for name, _ in groupby(names))
        numbers = {name: number for number, name in enumerate(columns)}
        owners = np.array([numbers[name] for name in names], np.intp)
        examples = np.zeros(len(columns), np.bool_)
        examples[[numbers[name] for name, row in zip(names, rows, strict=True) if indexed.passages[row].example]] = True
        vectors = indexed.index.vectors_of(rows)
        centres = centroids(vectors, owners) if len(rows) else np.zeros((0, 0), np.float32)
        return cls(indexed, columns, rows, owners, centres, examples, lexical.within(rows))

    def evidence(self, sentences: Sequence[str], vectors: Floats) -> Evidence:
        """What speaks for each resource, sentence by sentence."""
        dense = best_per_owner(self.indexed.index.scores_for(vectors, self.rows), self.owners)
        central = np.where(self.examples[None], vectors @ self.centres.T, dense)
        queries = [terms(sentence) for sentence in sentences]
        matches = [self.words.match(query) for query in queries]
        return Evidence(
            dense=dense,
            central=central.astype(np.float32),
            lexical=best_per_owner(np.stack([match.score for match in matches]), self.owners),
            coverage=best_per_owner(np.stack([match.coverage for match in matches]), self.owners),
            ceilings=np.array([match.ceiling for match in matches], np.float32),
            query_terms=np.array([len(query) for query in queries], np.intp),
            foreign=np.array([foreignness(sentence) for sentence in sentences], np.float32),
            examples=self.examples,
        )
