"""What is near to what was picked comes along: how far, how much of it, and because of what."""

import math
import time

import numpy as np
import pytest

from gateway.domain.agent import Expansion
from gateway.domain.resource import Resource
from gateway.domain.search import Pick
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.passages import split_resources
from gateway.semantic.index.relations import QUERIES
from gateway.semantic.model.embedder import SearchTimeout
from gateway.semantic.search.expansion import ExpansionRule, expand_picks
from gateway.semantic.search.view import IndexView
from tests.support.search_harness import FakeEmbedder, resource, vector

# Each shares three of four words with the one before it: a cosine of .75, then .5, then .25.
CHAIN = (
    resource("c/a", "one two three four"),
    resource("c/b", "two three four five"),
    resource("c/c", "three four five six"),
    resource("c/d", "four five six seven"),
)


def view(*resources: Resource) -> IndexView:
    passages = split_resources(resources)
    vectors = {passage.key("bag"): vector(passage.text).astype(np.float16) for passage in passages}
    known = PassageIndex.build(1, FakeEmbedder(), passages, vectors)
    return IndexView.build(IndexWords.build(known), [one.id for one in resources])


def expanded(shown: IndexView, *picked: int, depth: int = 1, threshold: float = 0.7, top_n: int = 3) -> list[Pick]:
    picks = [Pick(shown.resources[column], 1.0) for column in picked]
    return expand_picks(shown, picks, ExpansionRule(depth=depth, threshold=threshold, top_n=top_n))


def names(picks: list[Pick]) -> list[str]:
    return [pick.resource for pick in picks]


def test_a_pick_says_which_resource_led_to_it_and_how_near_it_is() -> None:
    (pick,) = expanded(view(*CHAIN), 0)
    assert (pick.resource, pick.via) == ("c/b", "expansion")
    assert pick.score == pytest.approx(0.75, abs=0.01)
    assert pick.why == "its text is near to c/a (cosine 0.75)"


@pytest.mark.parametrize(
    ("depth", "expected"), [(0, []), (1, ["c/b"]), (2, ["c/b", "c/c"]), (3, ["c/b", "c/c", "c/d"])]
)
def test_every_pass_leads_on_from_what_the_last_one_found(depth: int, expected: list[str]) -> None:
    picks = expanded(view(*CHAIN), 0, depth=depth)
    assert names(picks) == expected
    assert [pick.why.split()[5] for pick in picks] == ["c/a", "c/b", "c/c"][:depth]


@pytest.mark.parametrize(("threshold", "expected"), [(0.8, []), (0.7, ["c/b"]), (0.45, ["c/b", "c/c"])])
def test_only_what_is_near_enough_comes_along(threshold: float, expected: list[str]) -> None:
    assert names(expanded(view(*CHAIN), 0, threshold=threshold)) == expected


@pytest.mark.parametrize(("top_n", "expected"), [(0, []), (1, ["c/b"]), (2, ["c/b", "c/c"])])
def test_each_pass_takes_the_nearest_few(top_n: int, expected: list[str]) -> None:
    assert names(expanded(view(*CHAIN), 0, threshold=0.1, top_n=top_n)) == expected


def test_what_was_picked_is_not_picked_again() -> None:
    assert names(expanded(view(*CHAIN), 0, 1, depth=3)) == ["c/c", "c/d"]
    assert expanded(view(*CHAIN), 0, 1, 2, 3) == []


def test_the_nearest_of_several_picks_is_the_reason() -> None:
    shown = view(*CHAIN, resource("c/e", "four five six seven eight"))
    picks = expanded(shown, 0, 3)
    assert {pick.resource: pick.why.split()[5] for pick in picks} == {"c/b": "c/a", "c/c": "c/d", "c/e": "c/d"}


def test_what_is_not_visible_neither_comes_along_nor_leads_on() -> None:
    assert names(expanded(view(CHAIN[0], CHAIN[2], CHAIN[3]), 0, depth=3)) == []


def test_a_long_resource_leads_on_by_its_first_passages_only() -> None:
    pages = [" ".join(f"page{page}word{number}" for number in range(30)) for page in range(QUERIES + 3)]
    long = resource("c/long", "\n\n".join(pages))
    first, last = resource("c/first", pages[0]), resource("c/last", pages[-1])
    assert names(expanded(view(long, first, last), 0, threshold=0.5)) == ["c/first"]


def test_an_expansion_that_nobody_waits_for_any_more_ends() -> None:
    shown = view(*CHAIN)
    with pytest.raises(SearchTimeout):
        expand_picks(shown, [Pick("c/a", 1.0)], ExpansionRule(depth=1, until=time.monotonic() - 1))


def test_a_rule_has_defaults_for_what_nobody_says() -> None:
    rule = ExpansionRule.from_settings(Expansion(depth=2), math.inf)
    assert (rule.depth, rule.threshold, rule.top_n) == (2, 0.75, 3)
