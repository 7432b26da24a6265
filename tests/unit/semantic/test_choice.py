"""Which of the ranked resources are injected."""

import numpy as np
import pytest

from gateway.semantic.choice import PRESETS, Rule, choose
from gateway.semantic.scoring import Ranking


def ranked(*rows: tuple[float, int]) -> Ranking:
    """A ranking of resources 0, 1, 2 … with these (probability, sentence)."""
    chances, sentences = zip(*rows, strict=True)
    return Ranking(np.arange(len(rows)), np.array(chances, np.float32), np.array(sentences))


def resources(ranking: Ranking, rule: Rule) -> list[int]:
    return [one.resource for one in choose(ranking, rule)]


def test_what_is_sure_comes_in_whatever_its_number() -> None:
    assert resources(ranked(*[(0.9, 0)] * 8), Rule(top_n=5)) == list(range(8))


def test_what_is_likely_comes_in_up_to_top_n() -> None:
    assert resources(ranked((0.9, 0), (0.6, 0), (0.6, 0), (0.6, 0)), Rule(top_n=3)) == [0, 1, 2]


def test_the_irrelevant_is_never_used_to_fill_up() -> None:
    assert resources(ranked((0.9, 0), (0.49, 0)), Rule()) == [0]


def test_a_sentence_without_a_pick_is_heard_first() -> None:
    ranking = ranked((0.95, 0), (0.65, 0), (0.64, 0), (0.55, 1))
    assert resources(ranking, Rule(top_n=2)) == [0, 3]


def test_minimum_representation_does_not_bring_in_the_unlikely() -> None:
    assert resources(ranked((0.95, 0), (0.65, 0), (0.30, 1)), Rule(top_n=2)) == [0, 1]


def test_picks_come_best_first() -> None:
    assert resources(ranked((0.69, 0), (0.68, 0), (0.52, 1)), Rule(top_n=5)) == [0, 1, 2]


@pytest.mark.parametrize(("preset", "expected"), [("conservative", [0]), ("normal", [0, 1]), ("aggressive", [0, 1, 2])])
def test_presets_go_from_strict_to_generous(preset: str, expected: list[int]) -> None:
    assert resources(ranked((0.8, 0), (0.6, 0), (0.1, 0)), PRESETS[preset]) == expected
