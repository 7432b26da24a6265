"""The longest form within a limit is found whatever the costs are, with few measurements where they grow evenly."""

import random

import pytest

from gateway.domain.longest import find_longest, find_longest_within


@pytest.mark.parametrize("seed", range(200))
def test_it_is_the_longest_for_any_growing_cost(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.choice([0, 1, 2, 20, 700])
    costs = [0]
    for _ in range(size):
        costs.append(costs[-1] + draw.choice([0, 1, 1, 5, draw.randrange(1, 500)]))
    limit, whole = draw.randrange(0, costs[-1] + 3), draw.choice([0, costs[-1], costs[-1] // 2, 10 * costs[-1]])
    asked: list[int] = []

    def measure(length: int) -> int:
        asked.append(length)
        return costs[length]

    expected = max(length for length in range(size + 1) if costs[length] <= limit)
    assert find_longest_within(size, measure, limit, whole) == expected
    assert len(asked) <= 8 + size.bit_length() + 1
    assert find_longest(size, lambda length: costs[length] <= limit) == expected


def test_costs_that_grow_evenly_are_measured_a_few_times() -> None:
    draw = random.Random(1)
    costs = [0]
    for _ in range(4000):
        costs.append(costs[-1] + draw.choice([0, 0, 0, 1]))
    measured = []
    for limit in range(50, costs[-1], 50):
        asked: list[int] = []
        find_longest_within(4000, lambda at, asked=asked: asked.append(at) or costs[at], limit, costs[-1])  # type: ignore[misc]
        measured.append(len(asked))
    assert sum(measured) / len(measured) < 9, "halves take twelve"
