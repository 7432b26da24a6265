"""What is near to what was picked: its passages become queries themselves."""

from collections.abc import Sequence

import numpy as np

from gateway.domain.pick import Pick
from gateway.semantic.scoring import best_per_owner
from gateway.semantic.view import View
from gateway.settings import Expansion

QUERIES = 5  # passages of a picked resource that lead on


def expand(view: View, picks: Sequence[Pick], settings: Expansion) -> list[Pick]:
    """Further picks, pass by pass; each says which resource led to it, and none is worth more than what led there."""
    columns = {name: column for column, name in enumerate(view.resources)}
    frontier = [columns[pick.resource] for pick in picks]
    taken = set(frontier)
    needs = max(pick.needs for pick in picks)
    found: list[Pick] = []
    for _ in range(settings.depth):
        near = neighbours(view, frontier, taken)
        chosen = [one for one in near if one[1] >= settings.threshold][: settings.top_n]
        for seat, (column, cosine, origin) in enumerate(chosen):
            why = f"its text is near to {view.resources[origin]} (cosine {cosine:.2f})"
            needs = max(needs, seat / settings.top_n)
            found.append(Pick(view.resources[column], cosine, "expansion", why, needs))
        frontier = [column for column, _, _ in chosen]
        taken.update(frontier)
        if not frontier:
            break
    return found


def neighbours(view: View, origins: Sequence[int], taken: set[int]) -> list[tuple[int, float, int]]:
    """Columns not yet taken with their best cosine to any passage of the origins, and from which, nearest first."""
    best = np.full(len(view.resources), -1.0, np.float32)
    leading = np.zeros(len(view.resources), np.intp)
    for origin in origins:
        rows = view.rows[view.owners == origin][:QUERIES]
        vectors = view.indexed.index.vectors_of(rows)
        near = best_per_owner(view.indexed.index.scores_for(vectors, view.rows), view.owners).max(0)
        leading[near > best] = origin
        best = np.maximum(best, near)
    order = np.argsort(-best, kind="stable")
    return [(int(column), float(best[column]), int(leading[column])) for column in order if int(column) not in taken]
