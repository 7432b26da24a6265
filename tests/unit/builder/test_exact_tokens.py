"""What is reported is what a tokenizer counts in all that is placed (CONTRACT §6, §9), and it is within the budget."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.builder.prices import make_pricing
from gateway.domain.injection import ClientTools, Injection
from gateway.domain.resource import Mode, ResourceKind
from gateway.domain.scope import RequestItem
from gateway.domain.selection import Selection
from gateway.domain.session import StickyPick
from gateway.injection.anchors import render_sticky
from gateway.injection.blocks import add_items, build_volatile_block, count_frame, price_entry, render, render_stable
from gateway.injection.called_tools import settle_called_tools
from gateway.injection.tools import PLAIN_TOOLS
from gateway.selection.collected import select
from gateway.selection.select import SelectionTerms, fill_scope, propose
from gateway.selection.sticky import keep_picks
from gateway.tokens import BpeCounter
from tests.unit.selection.test_budget_properties import Case, make_text

TAG = "0badcafe"
COUNTER = BpeCounter()
MODELS = ["gpt-4o", "gpt-4"]  # counted exactly, each with an encoding of its own

seeds, budgets, models = st.integers(0, 10**9), st.integers(0, 3000), st.sampled_from(MODELS)


class DrawnBuild:
    """The injections for something drawn from a seed: plain, with the caller's items, with picks that stay."""

    def __init__(self, seed: int, budget: int, model: str) -> None:
        self.case, self.draw, self.model = Case.draw(seed), Random(seed), model
        pricing = make_pricing(PLAIN_TOOLS, TAG, self.count)
        categories = frozenset(one.category for one in self.case.outcomes)
        self.terms = SelectionTerms(budget, self.case.offers, pricing, self.case.shares, categories)
        proposal = propose(self.case.candidates)
        self.fills = fill_scope(proposal, self.terms)
        # As in a builder, the stable block is made before anybody asks.
        stable = render_stable(select(proposal, self.terms, (), self.fills), PLAIN_TOOLS, TAG, self.count)
        self.plain = render(select(proposal, self.terms, self.case.outcomes, self.fills), stable, (), TAG, self.count)

    def count(self, text: str) -> int:
        return COUNTER.count(text, self.model)

    def make_items(self) -> tuple[RequestItem, ...]:
        sizes = self.draw.choice([(), (3,), (40, 5)])
        return tuple(RequestItem(f"Item {size}", make_text(self.draw, size)) for size in sizes)

    def add_items(self) -> Injection:
        items = self.make_items()
        return add_items(self.plain, items, TAG, self.count) if items else self.plain

    def keep_picks(self, *, apart: bool) -> Injection:
        """The injection for the fourth user message: any semantic resource may have been picked for one of them."""
        digests = [f"d{message}" for message in range(4)]
        semantic = [one for one in self.case.candidates if one.resource.mode is Mode.SEMANTIC]
        known = [one.resource.id for one in semantic if one.resource.kind is not ResourceKind.TOOL]
        places = sorted((self.draw.randrange(4), id) for id in known if self.draw.random() < 0.6)
        former = [StickyPick(id, message, digests[message], message) for message, id in places]
        kept = keep_picks(self.plain.selection, former, digests, self.fills.room, self.terms.pricing, apart=apart)
        return render_sticky(self.plain, kept, self.make_items(), apart, TAG, self.count)

    def settle_tools(self, injection: Injection) -> Injection:
        """The injection for a client that has tools of the same names; some servers are down."""
        if injection.tools is None or not injection.tools.called:
            return injection
        names = frozenset(name for name in injection.tools.called if self.draw.random() < 0.5)
        client = ClientTools(names=names)
        return settle_called_tools(injection, client, lambda tool: self.draw.random() < 0.8, self.count)

    def count_placed(self, injection: Injection) -> int:
        texts = [injection.stable, injection.volatile, *(one.text for one in injection.texts.anchored)]
        schemas = [bytes(one).decode() for one in injection.tools.schemas] if injection.tools is not None else []
        return sum(map(self.count, [*texts, *schemas]))


def is_warned_of(selection: Selection) -> bool:
    return any(one.code == "over_budget" for one in selection.warnings)


def check(build: DrawnBuild, injection: Injection) -> None:
    selection = injection.selection
    assert injection.tokens == build.count_placed(injection)
    assert injection.tokens == sum(selection.tokens.values()), "categories add up to the total"
    assert injection.tokens <= selection.budget or is_warned_of(selection)


@given(seed=seeds, budget=budgets, model=models)
@settings(max_examples=300, deadline=None)
def test_what_is_reported_is_what_is_placed(seed: int, budget: int, model: str) -> None:
    build = DrawnBuild(seed, budget, model)
    for injection in (build.plain, build.add_items()):
        check(build, injection)
        check(build, build.settle_tools(injection))


@pytest.mark.parametrize("apart", [False, True])
@given(seed=seeds, budget=budgets, model=models)
@settings(max_examples=300, deadline=None)
def test_what_stays_in_a_session_is_reported_as_it_is_placed(apart: bool, seed: int, budget: int, model: str) -> None:
    build = DrawnBuild(seed, budget, model)
    injection = build.keep_picks(apart=apart)
    check(build, injection)
    check(build, build.settle_tools(injection))


@given(entries=st.lists(st.text(max_size=30), min_size=1, max_size=4), model=models)
@settings(max_examples=500, deadline=None)
def test_prices_of_entries_less_what_they_save_are_the_tokens_of_a_block(entries: list[str], model: str) -> None:
    def count(text: str) -> int:
        return COUNTER.count(text, model)

    items = tuple(RequestItem("Name", one) for one in entries)
    block = build_volatile_block(Selection(items=items), TAG)
    frame = count_frame(Selection(items=items), TAG, count)
    prices = [price_entry(entry, count) for entry in block.entries]
    assert frame + sum(prices) - block.count_saved(count) == count(block.text)
