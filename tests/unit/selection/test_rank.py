"""The order of what collectors find."""

from typing import Any

import pytest

from gateway.domain.agent import RankingWeights
from gateway.domain.collector import FoundItem
from gateway.domain.hints import ContextHints
from gateway.selection.found import make_found_candidate
from gateway.selection.rank import DAY, Ranker

NOW = 1_000 * DAY


def item(name: str = "n", score: float = 0.5, type: str = "page", **more: Any) -> FoundItem:
    return FoundItem(name, "node", type, name, "text", score, "found", **more)


def rank(ranker: Ranker, *items: FoundItem) -> list[str]:
    return [one.resource.id for one in ranker.rank([make_found_candidate(one, "focus") for one in items]).candidates]


def test_the_score_is_the_weighted_sum_of_the_seed_and_what_is_unknown_counts_half() -> None:
    ranker = Ranker(now=NOW)
    assert ranker.score(item(score=0.0)) == pytest.approx((0.25 + 0.15 + 0.15 + 0.10) / 2)
    known = item(score=0.8, distance=3, modified=NOW - 15 * DAY, affinity=1.0)
    assert ranker.score(known) == pytest.approx(0.35 * 0.8 + 0.25 * 0.7 + 0.15 * 0.5 + 0.15 * 0.5 + 0.10)
    assert ranker.score(item(score=0, distance=20, modified=NOW - 40 * DAY, affinity=0)) == pytest.approx(0.15 / 2)


def test_the_question_tells_which_types_are_meant() -> None:
    tasks = Ranker(question="Which tasks are overdue?")
    assert rank(tasks, item("page", 0.6), item("task", 0.6, "task")) == ["task", "page"]
    assert rank(Ranker(question="A summary, please"), item("task", 0.6, "task"), item("page", 0.6)) == ["page", "task"]
    hinted = Ranker(question="A summary", hints=ContextHints(prioritize_types=("task",)))
    assert rank(hinted, item("page", 0.6), item("task", 0.6, "task")) == ["task", "page"]


def test_the_focus_itself_is_first_and_then_what_the_request_names() -> None:
    ranker = Ranker(hints=ContextHints(include=frozenset({"named"})), now=NOW)
    items = [item("near", 1.0, distance=1, modified=NOW), item("named", 0.1), item("focus", 0.2, distance=0)]
    assert rank(ranker, *items) == ["focus", "named", "near"]


def test_what_is_excluded_or_outside_of_the_period_is_dropped_with_a_reason() -> None:
    hints = ContextHints(exclude=frozenset({"out"}), since=NOW - 5 * DAY, until=NOW)
    items = [item("out"), item("old", modified=NOW - 9 * DAY), item("new", modified=NOW - DAY), item("undated")]
    ranked = Ranker(hints=hints, now=NOW).rank([make_found_candidate(one, "focus") for one in items])
    assert [one.resource.id for one in ranked.candidates] == ["new", "undated"]
    assert [(one.candidate.resource.id, one.reason) for one in ranked.excluded] == [
        ("out", "excluded"),
        ("old", "excluded"),
    ]


def test_weights_are_configurable() -> None:
    recent = Ranker(RankingWeights(semantic=0.0, recency=1.0), now=NOW)
    assert rank(recent, item("a", 1.0, modified=NOW - 29 * DAY), item("b", 0.0, modified=NOW)) == ["b", "a"]
