"""Which of the ranked resources are injected."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.semantic.search.choice import PRESETS, SelectionRule, choose
from gateway.semantic.search.scoring import Ranking


def ranked(*rows: tuple[float, int]) -> Ranking:
    """A ranking of resources 0, 1, 2 … with these (probability, sentence)."""
    chances, sentences = zip(*rows, strict=True)
    return Ranking(np.arange(len(rows)), np.array(chances, np.float32), np.array(sentences))


def resources(ranking: Ranking, rule: SelectionRule) -> list[int]:
    return [one.resource for one in choose(ranking, rule)]


def test_what_is_sure_comes_in_whatever_its_number() -> None:
    assert resources(ranked(*[(0.9, 0)] * 8), SelectionRule(top_n=5)) == list(range(8))


def test_what_is_likely_comes_in_up_to_top_n() -> None:
    assert resources(ranked((0.9, 0), (0.6, 0), (0.6, 0), (0.6, 0)), SelectionRule(top_n=3)) == [0, 1, 2]


def test_the_irrelevant_is_never_used_to_fill_up() -> None:
    assert resources(ranked((0.9, 0), (0.49, 0)), SelectionRule()) == [0]


def test_a_sentence_without_a_pick_is_heard_first() -> None:
    ranking = ranked((0.95, 0), (0.65, 0), (0.64, 0), (0.55, 1))
    assert resources(ranking, SelectionRule(top_n=2)) == [0, 3]


def test_minimum_representation_does_not_bring_in_the_unlikely() -> None:
    assert resources(ranked((0.95, 0), (0.65, 0), (0.30, 1)), SelectionRule(top_n=2)) == [0, 1]


def test_picks_come_in_the_order_in_which_a_budget_takes_them() -> None:
    assert resources(ranked((0.9, 0), (0.8, 0), (0.6, 0), (0.5, 0)), SelectionRule()) == [0, 1, 2, 3]
    assert resources(ranked((0.69, 0), (0.68, 0), (0.52, 1)), SelectionRule()) == [0, 2, 1]


def test_what_is_sure_needs_nothing_and_each_further_seat_more_of_the_budget() -> None:
    chosen = choose(ranked((0.9, 0), (0.8, 0), (0.6, 0), (0.5, 0)), SelectionRule(top_n=4))
    assert [one.needs for one in chosen] == [0, 0, 0.5, 0.75]


def test_the_only_one_comes_in_however_little_is_left() -> None:
    assert [one.needs for one in choose(ranked((0.6, 0)), SelectionRule())] == [0]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=12),
    st.sampled_from(sorted(PRESETS)),
    st.integers(0, 8),
)
def test_a_smaller_share_of_the_budget_takes_a_shorter_part_of_the_same_list(
    rows: list[tuple[float, int]], preset: str, top_n: int
) -> None:
    chosen = choose(ranked(*sorted(rows, reverse=True)), replace(PRESETS[preset], top_n=top_n))
    needs = [one.needs for one in chosen]
    assert needs == sorted(needs)
    assert all(need < 1 for need in needs)
    for share in (0.1, 0.5, 0.9):
        taken = sum(need < share for need in needs)
        sure = sum(one.probability >= 0.7 for one in chosen)
        assert taken <= max(sure, math.ceil(top_n * share))


@pytest.mark.parametrize(("preset", "expected"), [("conservative", [0]), ("normal", [0, 1]), ("aggressive", [0, 1, 2])])
def test_presets_go_from_strict_to_generous(preset: str, expected: list[int]) -> None:
    assert resources(ranked((0.8, 0), (0.6, 0), (0.1, 0)), PRESETS[preset]) == expected
