"""What a check is: a function that looks at a running gateway and is about some rows of the requirements."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from scripts.seed_rows.bench import Bench

Look = Callable[[Bench], str]  # what was seen, in a few words


class RowMismatchError(Exception):
    """The gateway does not do what a row asks for."""


@dataclass(frozen=True)
class RowCheck:
    """One function and the rows that it is about."""

    rows: tuple[str, ...]
    look: Look

    @property
    def name(self) -> str:
        return self.look.__name__

    def __call__(self, bench: Bench) -> str:
        return self.look(bench)


def rows(*ids: str) -> Callable[[Look], RowCheck]:
    """Make a function the check of these rows."""
    return lambda look: RowCheck(ids, look)


def list_checks(modules: Iterable[ModuleType]) -> Iterator[RowCheck]:
    """The checks of modules, in the order in which they stand there."""
    for module in modules:
        yield from (one for one in vars(module).values() if isinstance(one, RowCheck))


def expect(actual: object, wanted: object, what: str = "") -> None:
    if actual != wanted:
        raise RowMismatchError(f"{what or 'seen'}: {actual!r} instead of {wanted!r}")


def expect_true(holds: object, what: str) -> None:
    if not holds:
        raise RowMismatchError(f"not true: {what}")


def expect_in(text: str, *pieces: str) -> None:
    for piece in pieces:
        if piece not in text:
            raise RowMismatchError(f"{piece!r} is missing in {text[:1500]!r}")


def expect_order(text: str, *pieces: str) -> None:
    """The pieces are there, one after the other."""
    expect_in(text, *pieces)
    places = [text.index(piece) for piece in pieces]
    expect(places, sorted(places), f"the order of {pieces}")


def expect_none_in(text: str, *pieces: str) -> None:
    for piece in pieces:
        if piece in text:
            raise RowMismatchError(f"{piece!r} should not be in {text[:1500]!r}")


def find_one(items: Iterable[dict[str, Any]], **wanted: object) -> dict[str, Any]:
    """The only item with these values."""
    found = [one for one in items if all(one.get(name) == value for name, value in wanted.items())]
    if len(found) != 1:
        raise RowMismatchError(f"{len(found)} items have {wanted}, not one")
    return found[0]
