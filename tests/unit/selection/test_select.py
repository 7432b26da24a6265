"""What is placed, offered or dropped under one budget."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.domain.agent import Agent, Budget, Profile
from gateway.domain.candidate import Candidate, Level
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.selection import PlacedResource, Selection
from gateway.selection.collected import select
from gateway.selection.pricing import Pricing
from gateway.selection.select import SelectionTerms, choose_budget, propose


def word_cost(resource: Resource, text: str) -> int:
    return len(text.split())


def candidate(name: str, words: int = 10, mode: Mode = Mode.ALWAYS, **more: object) -> Candidate:
    flags = {key: bool(more.pop(key, False)) for key in ("named", "mandatory")}
    resource = Resource(
        **{  # type: ignore[arg-type]
            "id": f"c/{name}",
            "context": "c",
            "type": "text",
            "name": name,
            "mode": mode,
            "kind": ResourceKind.RULE,
            "description": "",
            "languages": (),
            "conflict_key": None,
            "priority": 100,
            "required": False,
            "mandatory": False,
            "readers": (),
            "examples": (),
            "truncate": "keep_start",
            "data": None,
            "text": " ".join(f"{name}{number}" for number in range(words)),
            **more,
        }
    )
    return Candidate(resource, Level.AGENT, "editor", "contexts", "assigned", **flags)


def chosen(*candidates: Candidate, budget: int = 1000, offers: bool = True) -> Selection:
    return select(propose(candidates), SelectionTerms(budget, offers, Pricing(word_cost)))


def names(placed: Sequence[PlacedResource]) -> list[str]:
    return [one.candidate.resource.name for one in placed]


def offered(selection: Selection) -> list[tuple[str, str | None]]:
    return [(left.candidate.resource.name, left.reason) for left in selection.catalogue]


def test_modes_decide_what_is_placed_and_what_is_offered() -> None:
    selection = chosen(
        candidate("a"),
        candidate("b", mode=Mode.ON_DEMAND),
        candidate("c", mode=Mode.SEMANTIC),
        candidate("d", mode=Mode.ON_DEMAND, named=True),
        candidate("e", mode=Mode.MANUAL, named=True),
    )
    assert (names(selection.stable), names(selection.volatile)) == (["a"], ["d", "e"])
    assert offered(selection) == [("b", None), ("c", None)]


def test_a_lower_priority_number_comes_first_and_equal_ones_keep_their_order() -> None:
    selection = chosen(candidate("a"), candidate("b", priority=5), candidate("c"), candidate("d", priority=200))
    assert names(selection.stable) == ["b", "a", "c", "d"]


def test_after_the_first_that_does_not_fit_nothing_more_is_placed() -> None:
    selection = chosen(candidate("a", 30), candidate("b", 40), candidate("c", 5), budget=50)
    assert names(selection.stable) == ["a"]
    assert offered(selection) == [("b", "over_budget"), ("c", "over_budget")]


def test_what_does_not_fit_is_truncated_if_enough_room_remains() -> None:
    selection = chosen(candidate("a", 30), candidate("b", 100), candidate("c", 5), budget=80)
    whole, cut = selection.stable
    assert (whole.truncated, cut.truncated) == (False, True)
    assert cut.tokens <= 50
    assert cut.text.startswith("b0 b1 ")
    assert offered(selection) == [("b", "over_budget"), ("c", "over_budget")]  # the whole of b can still be fetched


def test_49_tokens_are_not_worth_a_cut() -> None:
    assert names(chosen(candidate("a", 30), candidate("b", 100), budget=79).stable) == ["a"]


def test_a_resource_may_refuse_to_be_cut() -> None:
    assert names(chosen(candidate("a", 100, truncate="none"), budget=80).stable) == []


def test_required_and_mandatory_resources_are_never_degraded() -> None:
    fixed = [candidate("a", 30, required=True), candidate("b", 30, mandatory=True)]
    selection = chosen(candidate("x", 20), *fixed, budget=50)
    assert names(selection.stable) == ["a", "b"]
    assert offered(selection) == [("x", "over_budget")]
    overdrawn, left = selection.warnings
    assert {(one.code, one.category) for one in selection.warnings} == {("over_budget", "always")}
    assert overdrawn.message == "Required resources need 60 tokens, 10 more than the budget."
    assert left.message == "Cut or left out of `always`: c/x, 20 tokens in full; 50 were available."


def test_a_budget_that_suffices_warns_of_nothing() -> None:
    assert chosen(candidate("a", 30, required=True), budget=30).warnings == ()


def test_a_budget_of_zero_places_nothing_and_offers_everything() -> None:
    selection = chosen(candidate("a", 1), candidate("b", 1, mode=Mode.ON_DEMAND), budget=0)
    assert (selection.stable, offered(selection)) == ((), [("a", "over_budget"), ("b", None)])


def test_named_resources_get_what_always_resources_leave() -> None:
    selection = chosen(candidate("a", 30), candidate("n", 20, mode=Mode.ON_DEMAND, named=True), budget=50)
    assert (names(selection.stable), names(selection.volatile)) == (["a"], ["n"])


def test_room_that_always_resources_could_not_use_is_not_passed_on() -> None:
    some = [candidate("a", 30), candidate("b", 40), candidate("n", 20, mode=Mode.ON_DEMAND, named=True)]
    assert names(chosen(*some, budget=60).volatile) == []
    assert names(chosen(*some, budget=70).volatile) == []  # b takes what n would have had


def test_without_tools_nothing_is_offered_and_the_reason_is_told() -> None:
    selection = chosen(
        candidate("a", 30), candidate("b", 30), candidate("c", mode=Mode.ON_DEMAND), budget=30, offers=False
    )
    assert selection.catalogue == ()
    told = [(left.candidate.resource.name, left.reason) for left in selection.dropped]
    assert told == [("c", "no_tools"), ("b", "over_budget")]


def test_without_tools_a_cut_resource_is_placed_and_not_dropped() -> None:
    selection = chosen(candidate("a", 100), budget=60, offers=False)
    assert (names(selection.stable), selection.dropped) == (["a"], ())


def test_the_catalogue_stands_in_the_order_of_its_resources() -> None:
    selection = chosen(
        candidate("a", mode=Mode.ON_DEMAND), candidate("b", 99), candidate("c", mode=Mode.SEMANTIC), budget=5
    )
    assert [name for name, _ in offered(selection)] == ["a", "b", "c"]


candidates = st.lists(
    st.builds(
        lambda words, mode, required, priority, truncate: (words, mode, required, priority, truncate),
        st.integers(1, 120),
        st.sampled_from([Mode.ALWAYS, Mode.ALWAYS, Mode.ON_DEMAND]),
        st.sampled_from([False, False, False, True]),
        st.integers(1, 3),
        st.sampled_from(["keep_start", "keep_end", "extractive", "none"]),
    ),
    max_size=7,
).map(
    lambda drawn: [
        candidate(f"r{at}x", words, mode, named=True, required=required, priority=priority, truncate=truncate)
        for at, (words, mode, required, priority, truncate) in enumerate(drawn)
    ]
)


@given(some=candidates, budget=st.integers(0, 500), more=st.integers(0, 200))
def test_a_larger_budget_never_drops_a_kept_item(some: list[Candidate], budget: int, more: int) -> None:
    def kept(total: int) -> dict[str, int]:
        selection = chosen(*some, budget=total)
        return {one.candidate.resource.id: one.tokens for one in (*selection.stable, *selection.volatile)}

    small, large = kept(budget), kept(budget + more)
    assert small.keys() <= large.keys()


@given(some=candidates, budget=st.integers(0, 500))
def test_nothing_disappears_and_only_required_resources_overdraw(some: list[Candidate], budget: int) -> None:
    selection = chosen(*some, budget=budget)
    placed = (*selection.stable, *selection.volatile)
    seen = {one.candidate.resource.id for one in placed} | {left.candidate.resource.id for left in selection.catalogue}
    assert seen == {one.resource.id for one in some}
    assert sum(one.tokens for one in placed if not one.candidate.resource.required) <= budget


def scope(asked: int | None = None, agent: Budget | None = None, profile: Budget | None = None) -> Scope:
    return Scope(
        request=replace(ContextRequest(), budget=asked),
        agent=Agent("a", "A", budget=agent) if agent else None,
        profile=Profile("p", "P", budget=profile) if profile else None,
        prompt=None,
        node=None,
        takes_part=True,
        readers=frozenset(),
        bound=False,
    )


@pytest.mark.parametrize(
    ("given_scope", "expected"),
    [
        (scope(), 4000),
        (scope(profile=Budget(900)), 900),
        (scope(agent=Budget(700), profile=Budget(900)), 700),
        (scope(agent=Budget(), profile=Budget(900)), 900),
        (scope(50, agent=Budget(700)), 50),
        (scope(0, agent=Budget(700)), 0),
        (scope(9000, agent=Budget(700, maximum=2000)), 2000),
        (scope(1500, agent=Budget(700, maximum=2000)), 1500),
        (scope(9000), 9000),
    ],
)
def test_the_budget_is_the_requests_within_the_agents_maximum_else_the_agents_the_profiles_the_default(
    given_scope: Scope, expected: int
) -> None:
    assert choose_budget(given_scope, 4000) == expected
