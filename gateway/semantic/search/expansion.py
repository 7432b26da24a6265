"""Further picks that are near to the first ones: the passages of a picked resource become queries themselves."""

import math
import time
from collections.abc import Sequence
from typing import Self

import msgspec
import numpy as np
from msgspec.structs import asdict

from gateway.domain.agent import Expansion
from gateway.domain.search import Pick
from gateway.semantic.index.relations import QUERIES, Relations, round_cosines
from gateway.semantic.index.vector_index import Floats, Rows, take_best_per_owner
from gateway.semantic.model.embedder import SearchTimeout
from gateway.semantic.search.view import IndexView


class ExpansionRule(msgspec.Struct, frozen=True):
    """How far picks lead, and until when there is time for it."""

    depth: int = 0  # further passes with the found passages as queries
    threshold: float = 0.75  # cosine
    top_n: int = 3  # per pass
    until: float = math.inf  # by the monotonic clock

    @classmethod
    def from_settings(cls, settings: Expansion, until: float) -> Self:
        """The defaults with what the settings say over them."""
        said = {name: value for name, value in asdict(settings).items() if value is not None}
        return cls(**said, until=until)

    def check_time(self) -> None:
        """Raise SearchTimeout once nobody waits any more: to compare with everything takes long in a large set."""
        if time.monotonic() > self.until:
            raise SearchTimeout("The expansion took too long.")


class Neighbour(msgspec.Struct, frozen=True):
    """A resource that is near to a picked one, both by their places among the visible ones."""

    column: int
    cosine: float
    origin: int


def expand_picks(
    view: IndexView, picks: Sequence[Pick], rule: ExpansionRule, relations: Relations | None = None
) -> list[Pick]:
    """Further picks, pass by pass; each names the resource that led to it, and none is worth more than that one.

    With relations of the same index most of it is looked up; the outcome is the same.
    """
    frontier = [view.columns[pick.resource] for pick in picks]
    taken = set(frontier)
    needs = max(pick.needs for pick in picks)
    known = relations if relations is not None and relations.index is view.index else None
    found: list[Pick] = []
    for _ in range(rule.depth):
        chosen = find_neighbours(view, frontier, taken, rule, known)
        for place, one in enumerate(chosen):
            why = f"its text is near to {view.resources[one.origin]} (cosine {one.cosine:.2f})"
            needs = max(needs, place / rule.top_n)
            found.append(Pick(view.resources[one.column], one.cosine, "expansion", why, needs))
        frontier = [one.column for one in chosen]
        taken.update(frontier)
        if not frontier:
            break
    return found


def find_neighbours(
    view: IndexView, origins: Sequence[int], taken: set[int], rule: ExpansionRule, relations: Relations | None
) -> list[Neighbour]:
    """The nearest that are not taken yet, each with the origin that it is nearest to."""
    columns = map_columns(view) if relations is not None else None
    best: dict[int, Neighbour] = {}
    for origin in origins:
        near = None
        if relations is not None and columns is not None:
            near = look_up_neighbours(view, origin, relations, columns)
        if near is None or not near.suffices(taken, rule):
            rule.check_time()
            near = compare_all(view, origin)
        for column, cosine in near.select(taken, rule):
            if column not in best or cosine > best[column].cosine:
                best[column] = Neighbour(column, cosine, origin)
    return sorted(best.values(), key=lambda one: (-one.cosine, one.column))[: rule.top_n]


class Neighbourhood(msgspec.Struct, frozen=True, eq=False):
    """The visible resources near to one, nearest first, and the cosine above which none is missing."""

    columns: Rows
    cosines: Floats
    floor: float

    def select(self, taken: set[int], rule: ExpansionRule) -> list[tuple[int, float]]:
        """Columns and cosines of as many as may be taken, of those that are near enough and not taken yet."""
        found: list[tuple[int, float]] = []
        for column, cosine in zip(self.columns.tolist(), self.cosines.tolist(), strict=True):
            if len(found) == rule.top_n or cosine < rule.threshold:
                break
            if column not in taken:
                found.append((column, cosine))
        return found

    def suffices(self, taken: set[int], rule: ExpansionRule) -> bool:
        """Whether nothing that was not kept could be chosen: all near enough are known, or enough that are nearer."""
        return self.floor < rule.threshold or len(self.select(taken, rule)) == rule.top_n


def compare_all(view: IndexView, origin: int) -> Neighbourhood:
    """Every visible resource, by its best cosine to the first passages of the origin."""
    vectors = view.index.vectors
    rows = view.rows[slice(*np.searchsorted(view.owners, [origin, origin + 1]))][:QUERIES]
    scores = vectors.compute_scores(vectors.get_vectors(rows), view.rows)
    cosines = round_cosines(take_best_per_owner(scores, view.owners).max(0))
    order = np.argsort(-cosines, kind="stable")
    return Neighbourhood(order, cosines[order], -1.0)


def look_up_neighbours(view: IndexView, origin: int, relations: Relations, columns: Rows) -> Neighbourhood:
    """What is known to be near to the origin, as far as it is visible."""
    number = view.index.owners[view.rows[np.searchsorted(view.owners, origin)]]
    visible = columns[relations.numbers[number]]
    seen = visible >= 0
    return Neighbourhood(visible[seen], relations.cosines[number][seen], float(relations.floors[number]))


def map_columns(view: IndexView) -> Rows:
    """By number in the index: the column of a visible resource, else -1; the last place stands for no resource."""
    columns = np.full(len(view.index.numbers) + 1, -1, np.intp)
    columns[view.index.owners[view.rows]] = view.owners
    return columns
