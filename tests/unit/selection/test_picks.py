"""What semantic search adds to a selection, and what it never touches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.domain.candidate import Candidate, Level
from gateway.domain.collector import Category, CollectorOutcome, Findings
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.search import Pick, SearchResult
from gateway.domain.selection import Omission, PlacedResource, Selection
from gateway.selection.collected import select
from gateway.selection.pricing import Pricing
from gateway.selection.select import Proposal, SelectionTerms, fill_scope, propose


def word_cost(resource: Resource, text: str) -> int:
    return len(text.split())


def candidate(name: str, words: int = 10, mode: Mode = Mode.SEMANTIC, truncate: str = "none") -> Candidate:
    facts: dict[str, Any] = {"languages": (), "conflict_key": None, "priority": 100, "required": False}
    more: dict[str, Any] = {"readers": (), "examples": (), "data": None, "description": "", "mandatory": False}
    text = " ".join(f"{name}{number}" for number in range(words))
    resource = Resource(
        id=f"c/{name}", context="c", type="text", name=name, mode=mode, kind=ResourceKind.REFERENCE, text=text,
        truncate=truncate, **facts, **more,
    )  # fmt: skip
    return Candidate(resource, Level.AGENT, "editor", "contexts", "assigned")


@dataclass(frozen=True)
class Situation:
    """What is to be selected from, and under which terms."""

    proposal: Proposal
    terms: SelectionTerms


def situation(
    *candidates: Candidate, budget: int = 1000, offers: bool = True, degraded: frozenset[str] = frozenset()
) -> Situation:
    return Situation(propose(candidates, degraded=degraded), SelectionTerms(budget, offers, Pricing(word_cost)))


def picked(*names: str, **found: Any) -> SearchResult:
    picks = tuple(Pick(f"c/{name}", 0.9 - 0.1 * place, "semantic", f"about {name}") for place, name in enumerate(names))
    return SearchResult(picks, **found)


def names(placed: Sequence[PlacedResource]) -> list[str]:
    return [one.candidate.resource.name for one in placed]


def reasons(lefts: Sequence[Omission]) -> list[tuple[str, str | None]]:
    return [(left.candidate.resource.name, left.reason) for left in lefts]


def search_outcome(found: SearchResult | None) -> CollectorOutcome:
    return CollectorOutcome("semantic", Category.SEMANTIC, Findings(search=found))


def after(before: Situation, found: SearchResult | None) -> Selection:
    return select(before.proposal, before.terms, [search_outcome(found)])


def test_a_pick_is_placed_with_its_score_and_why_and_stays_in_the_catalogue() -> None:
    chosen = after(situation(candidate("a"), candidate("b")), picked("b", scores=(("c/a", 0.2),)))
    (placed,) = chosen.volatile
    assert (placed.candidate.score, placed.candidate.via, placed.candidate.why) == (0.9, "semantic", "about b")
    assert reasons(chosen.catalogue) == [("a", "below_threshold"), ("b", None)]
    assert chosen.catalogue[0].candidate.score == 0.2
    assert chosen.degraded == frozenset()


def test_picks_come_after_what_the_caller_named_in_the_order_of_the_search() -> None:
    named = Candidate(candidate("n", mode=Mode.MANUAL).resource, Level.AGENT, "editor", "contexts", "", named=True)
    chosen = after(situation(named, candidate("a"), candidate("b")), picked("b", "a"))
    assert names(chosen.volatile) == ["n", "b", "a"]


def test_picks_take_only_the_room_that_is_left() -> None:
    before = situation(candidate("always", 70, Mode.ALWAYS), candidate("a", 20), candidate("b", 20), budget=100)
    chosen = after(before, picked("b", "a"))
    assert names(chosen.volatile) == ["b"]
    assert reasons(chosen.catalogue) == [("a", "over_budget"), ("b", None)]
    assert chosen.catalogue[0].candidate.score == pytest.approx(0.8)


def needy(**needs: float) -> SearchResult:
    return SearchResult(tuple(Pick(f"c/{name}", 0.6, "semantic", "", share) for name, share in needs.items()))


def test_the_less_of_the_budget_is_left_the_fewer_come_in() -> None:
    def placed(always: int) -> list[str]:
        before = situation(
            candidate("always", always, Mode.ALWAYS), *(candidate(name, 5) for name in "abc"), budget=100
        )
        return names(after(before, needy(a=0, b=1 / 3, c=2 / 3)).volatile)

    assert [placed(0), placed(40), placed(70), placed(94)] == [["a", "b", "c"], ["a", "b"], ["a"], ["a"]]


def test_what_is_not_worth_its_place_says_that_the_budget_is_why_and_keeps_its_score() -> None:
    before = situation(candidate("always", 90, Mode.ALWAYS), candidate("a", 1), candidate("b", 1), budget=100)
    chosen = after(before, needy(a=0, b=0.5))
    assert reasons(chosen.catalogue) == [("a", None), ("b", "over_budget")]
    assert chosen.catalogue[1].candidate.score == 0.6


def test_a_required_pick_comes_in_however_little_is_left() -> None:
    required = candidate("b", 1)
    required = replace(required, resource=replace(required.resource, required=True))
    before = situation(candidate("always", 90, Mode.ALWAYS), candidate("a", 1), required, budget=100)
    assert names(after(before, needy(a=0, b=0.5)).volatile) == ["a", "b"]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.floats(0, 0.99)), min_size=1, max_size=6),
    st.integers(0, 60),
    st.integers(0, 300),
    st.integers(0, 100),
)
def test_a_larger_budget_never_drops_a_pick(
    picks: list[tuple[int, float]], always: int, budget: int, more: int
) -> None:
    needs = sorted(share for _, share in picks)
    found = needy(**{f"r{number}": share for number, share in enumerate(needs)})

    def kept(budget: int) -> list[str]:
        everyone = [candidate(f"r{number}", size) for number, (size, _) in enumerate(picks)]
        before = situation(candidate("always", always, Mode.ALWAYS), *everyone, budget=budget)
        return names(after(before, found).volatile)

    smaller, larger = kept(budget), kept(budget + more)
    assert larger[: len(smaller)] == smaller


def test_after_the_first_pick_that_does_not_fit_nothing_more_is_placed() -> None:
    before = situation(candidate("a", 90), candidate("b", 20), candidate("c", 5), budget=100)
    assert names(after(before, picked("a", "b", "c")).volatile) == ["a"]


def test_no_pick_takes_room_that_an_always_resource_could_not_use() -> None:
    before = situation(candidate("always", 120, Mode.ALWAYS), candidate("a", 20), budget=100)
    chosen = after(before, picked("a"))
    assert (names(chosen.stable), names(chosen.volatile)) == ([], [])
    assert ("a", "over_budget") in reasons(chosen.catalogue)


def test_a_pick_that_is_cut_short_can_still_be_fetched_whole() -> None:
    chosen = after(situation(candidate("a", 200, truncate="keep_start"), budget=100), picked("a"))
    assert [(one.truncated, one.tokens <= 100) for one in chosen.volatile] == [(True, True)]
    assert [name for name, _ in reasons(chosen.catalogue)] == ["a"]


def test_without_tools_what_is_relevant_is_still_placed() -> None:
    before = situation(candidate("a"), candidate("b"), offers=False)
    chosen = after(before, picked("b"))
    assert names(chosen.volatile) == ["b"]
    assert (chosen.catalogue, reasons(chosen.dropped)) == ((), [("a", "no_tools")])


def test_without_tools_a_truncated_text_does_not_keep_a_pick_out() -> None:
    before = situation(
        candidate("always", 200, Mode.ALWAYS, truncate="keep_start"), candidate("a", 1), budget=150, offers=False
    )
    chosen = after(before, picked("a"))
    assert (names(chosen.stable), chosen.stable[0].truncated) == (["always"], True)
    assert names(chosen.volatile) == (["a"] if chosen.stable[0].tokens < 150 else [])


def test_what_a_scope_places_is_truncated_once_however_many_questions_come() -> None:
    before = situation(candidate("always", 500, Mode.ALWAYS, truncate="keep_start"), candidate("a"), budget=100)
    calls: list[str] = []

    def counted(resource: Resource, text: str) -> int:
        calls.append(resource.name)
        return len(text.split())

    terms = SelectionTerms(100, True, Pricing(counted))
    fills = fill_scope(before.proposal, terms)
    spent = len(calls)
    for found in (picked("a"), picked(), None):
        outcomes = [search_outcome(found)]
        assert select(before.proposal, terms, outcomes, fills) == select(before.proposal, before.terms, outcomes)
    assert spent > 5
    assert calls[spent:] in ([], ["a"])


def test_only_what_the_caller_may_have_injected_is_placed() -> None:
    before = situation(candidate("demand", mode=Mode.ON_DEMAND), candidate("a"))
    assert names(after(before, picked("demand", "elsewhere", "a")).volatile) == ["a"]


@pytest.mark.parametrize(
    ("found", "reason", "degraded"),
    [
        (SearchResult(), "below_threshold", frozenset()),
        (SearchResult(reason="late"), "late", frozenset({"semantic"})),
        (SearchResult(reason="unavailable"), None, frozenset({"semantic"})),
        (SearchResult(reason="unavailable", pending=frozenset({"c/a"})), None, frozenset({"semantic"})),
        (SearchResult(pending=frozenset({"c/a"})), "late", frozenset()),
    ],
    ids=["nothing found", "late", "unavailable", "unavailable and pending", "pending"],
)
def test_why_nothing_was_placed_is_told(found: SearchResult, reason: str | None, degraded: frozenset[str]) -> None:
    chosen = after(situation(candidate("a")), found)
    assert (reasons(chosen.catalogue), chosen.degraded) == ([("a", reason)], degraded)


def test_what_was_degraded_before_stays_so() -> None:
    before = situation(degraded=frozenset({"links"}))
    assert after(before, SearchResult(reason="late")).degraded == {"links", "semantic"}


SIZES = st.lists(st.integers(0, 60), min_size=1, max_size=8)


@given(SIZES, st.data())
def test_whatever_is_picked_the_stable_part_and_the_catalogue_stay(sizes: list[int], data: st.DataObject) -> None:
    modes = data.draw(st.lists(st.sampled_from(list(Mode)), min_size=len(sizes), max_size=len(sizes)))
    numbered = zip(sizes, modes, strict=True)
    everyone = [candidate(f"r{number}", size, mode) for number, (size, mode) in enumerate(numbered)]
    asked = situation(*everyone, budget=data.draw(st.integers(0, 200)))
    before = after(asked, None)
    order = data.draw(st.permutations([one.resource.name for one in everyone]))
    chosen = after(asked, picked(*order[: data.draw(st.integers(0, len(order)))]))
    assert chosen.stable == before.stable
    assert [left.candidate.resource for left in chosen.catalogue] == [
        left.candidate.resource for left in before.catalogue
    ]
    spent = sum(placed.tokens for placed in (*chosen.stable, *chosen.volatile))
    assert spent <= before.budget


def test_picks_that_wait_for_more_room_are_warned_of() -> None:
    """The second needs half of the budget to be left, of which an always text takes most."""
    found = SearchResult((Pick("c/a", 0.9), Pick("c/b", 0.6, needs=0.5), Pick("c/d", 0.6, needs=0.5)))
    outcome = CollectorOutcome("semantic", Category.SEMANTIC, Findings(search=found))
    for words, waits in ((10, False), (600, True)):
        always = candidate("rules", words, Mode.ALWAYS)
        case = situation(always, *(candidate(one) for one in "abd"))
        selection = select(case.proposal, case.terms, [outcome])
        warnings = [(one.code, one.category, one.message) for one in selection.warnings]
        said = "Left out of `semantic`: c/b and 1 more; too little of the budget is left for more picks."
        assert warnings == ([("over_budget", Category.SEMANTIC, said)] if waits else [])
        assert dict(reasons(selection.catalogue))["b"] == ("over_budget" if waits else None)
