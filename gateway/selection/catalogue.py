"""The catalogue shrinks to its room: descriptions go first, then entries, then all but one line."""

from collections.abc import Callable, Sequence

import msgspec

from gateway.domain.collector import Category
from gateway.domain.longest import find_longest
from gateway.domain.selection import NO_VIEW, CatalogueView, Notice, Omission
from gateway.selection.pricing import BlockPrices

CATALOGUE_CAP = 50


class CatalogueFit(msgspec.Struct, frozen=True):
    """What of the catalogue is shown, and for how many tokens."""

    view: CatalogueView
    spent: int
    whole: bool  # everything that could be shown is
    warnings: tuple[Notice, ...] = ()


def fit_catalogue(catalogue: Sequence[Omission], room: int, prices: BlockPrices) -> CatalogueFit:
    """As many entries as fit, the first of them with their descriptions."""
    lines = [prices.line(one.candidate.resource) for one in catalogue[:CATALOGUE_CAP]]
    entries, descriptions = _add_up([one.entry for one in lines]), _add_up([one.description for one in lines])

    def measure(listed: int, described: int) -> int:
        hidden = len(catalogue) - listed
        return (
            prices.catalogue_frame + entries[listed] + descriptions[described] + (prices.more(hidden) if hidden else 0)
        )

    most = len(lines)
    full = measure(most, most)
    listed = _find(most, lambda size: measure(size, 0) <= room)
    if not listed and measure(0, 0) > room:
        return CatalogueFit(NO_VIEW, 0, False, (_warn(full, room, "nothing of it is shown"),))
    described = find_longest(listed, lambda size: measure(listed, size) <= room)
    spent = measure(listed, described)
    if described == most:
        return CatalogueFit(CatalogueView(listed, described), spent, True)
    shown = f"{listed} of {len(catalogue)} entries are shown, {described} with their descriptions"
    return CatalogueFit(CatalogueView(listed, described), spent, False, (_warn(full, room, shown),))


def _find(most: int, fits: Callable[[int], bool]) -> int:
    """The most entries that fit; all of them may need less than one fewer, which needs the line that says so."""
    return most if fits(most) else find_longest(most - 1, fits) if most else 0


def _add_up(tokens: Sequence[int]) -> list[int]:
    sums = [0]
    for one in tokens:
        sums.append(sums[-1] + one)
    return sums


def _warn(full: int, room: int, shown: str) -> Notice:
    message = f"The catalogue needs {full} tokens and has {room}: {shown}."
    return Notice("over_budget", Category.CATALOGUE, message)
