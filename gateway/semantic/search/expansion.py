"""What is near to what was picked: its passages become queries themselves."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gateway.domain.search import Pick
from gateway.semantic.index.relations import QUERIES, Relations, rounded
from gateway.semantic.search.scoring import Floats, Rows, best_per_owner
from gateway.semantic.search.view import IndexView
from gateway.settings import ExpansionSettings


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A resource that is near to a picked one, both by their places among the visible ones."""

    column: int
    cosine: float
    origin: int


def expand(
    view: IndexView, picks: Sequence[Pick], settings: ExpansionSettings, relations: Relations | None = None
) -> list[Pick]:
    """Further picks, pass by pass; each says which resource led to it, and none is worth more than what led there.

    With relations of the same index most of it is looked up; the outcome is the same.
    """
    frontier = [view.columns[pick.resource] for pick in picks]
    taken = set(frontier)
    needs = max(pick.needs for pick in picks)
    known = relations if relations is not None and relations.indexed is view.indexed else None
    found: list[Pick] = []
    for _ in range(settings.depth):
        chosen = neighbours(view, frontier, taken, settings, known)
        for seat, one in enumerate(chosen):
            why = f"its text is near to {view.resources[one.origin]} (cosine {one.cosine:.2f})"
            needs = max(needs, seat / settings.top_n)
            found.append(Pick(view.resources[one.column], one.cosine, "expansion", why, needs))
        frontier = [one.column for one in chosen]
        taken.update(frontier)
        if not frontier:
            break
    return found


def neighbours(
    view: IndexView, origins: Sequence[int], taken: set[int], settings: ExpansionSettings, relations: Relations | None
) -> list[Neighbour]:
    """The nearest that are not taken yet, each with the origin that it is nearest to."""
    columns = columns_of(view) if relations is not None else None
    best: dict[int, Neighbour] = {}
    for origin in origins:
        near = looked_up(view, origin, relations, columns) if relations is not None and columns is not None else None
        if near is None or not near.suffices(taken, settings):
            near = compared(view, origin)
        for column, cosine in near.beyond(taken, settings):
            if column not in best or cosine > best[column].cosine:
                best[column] = Neighbour(column, cosine, origin)
    return sorted(best.values(), key=lambda one: (-one.cosine, one.column))[: settings.top_n]


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """The visible resources near to one, nearest first, and the cosine above which none is missing."""

    columns: Rows
    cosines: Floats
    floor: float

    def beyond(self, taken: set[int], settings: ExpansionSettings) -> list[tuple[int, float]]:
        """As many as may be taken, of those that are near enough and not taken yet."""
        found: list[tuple[int, float]] = []
        for column, cosine in zip(self.columns.tolist(), self.cosines.tolist(), strict=True):
            if len(found) == settings.top_n or cosine < settings.threshold:
                break
            if column not in taken:
                found.append((column, cosine))
        return found

    def suffices(self, taken: set[int], settings: ExpansionSettings) -> bool:
        """Whether nothing that was not kept could be chosen: all near enough are known, or enough that are nearer."""
        return self.floor < settings.threshold or len(self.beyond(taken, settings)) == settings.top_n


def compared(view: IndexView, origin: int) -> Near:
    """Every visible resource, by its best cosine to the first passages of the origin."""
    index = view.indexed.index
    rows = view.rows[slice(*np.searchsorted(view.owners, [origin, origin + 1]))][:QUERIES]
    cosines = rounded(best_per_owner(index.scores_for(index.vectors_of(rows), view.rows), view.owners).max(0))
    order = np.argsort(-cosines, kind="stable")
    return Near(order, cosines[order], -1.0)


def looked_up(view: IndexView, origin: int, relations: Relations, columns: Rows) -> Near:
    """What is known to be near to the origin, as far as it is visible."""
    number = view.indexed.owners[view.rows[np.searchsorted(view.owners, origin)]]
    visible = columns[relations.numbers[number]]
    seen = visible >= 0
    return Near(visible[seen], relations.cosines[number][seen], float(relations.floors[number]))


def columns_of(view: IndexView) -> Rows:
    """By number in the index: the column of a visible resource, else -1; the last place stands for no resource."""
    columns = np.full(len(view.indexed.numbers) + 1, -1, np.intp)
    columns[view.indexed.owners[view.rows]] = view.owners
    return columns
