"""The longest form of a text that is within a limit, found with few measurements."""

from collections.abc import Callable

GUESSES = 8  # that are made from what is known so far; then halves are taken, so that nothing takes long


def find_longest(size: int, fits: Callable[[int], bool]) -> int:
    """The largest length up to `size` that fits, by binary search; 0 if none does."""
    return find_longest_within(size, lambda length: int(not fits(length)), 0, 0)


def find_longest_within(size: int, measure: Callable[[int], int], limit: int, whole: int) -> int:
    """The largest length up to `size` that costs no more than `limit`; 0 if none does.

    Costs grow with the length, to about `whole` if that is known (0: it is not), and to measure them takes time. Mostly
    they grow so evenly that guesses come close at once; each aims at the other side of the limit than the last one.
    """
    low, high, below, above = 0, size + 1, 0, whole  # low is within the limit, high is not
    aim, guesses = limit, GUESSES if whole > limit else 0
    while high - low > 1:
        middle = (low + high) // 2
        if guesses:
            middle = min(max(low + (high - low) * (aim - below) // (above - below), low + 1), high - 1)
            guesses -= 1
        cost = measure(middle)
        if cost <= limit:
            low, below, aim = middle, cost, limit + 1
        else:
            high, above, aim = middle, cost, limit - 1
    return low
