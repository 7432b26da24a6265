"""CONTRACT §6 over all categories: never over budget, deterministic, monotone, nothing vanishes without a reason."""

import dataclasses
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.builder.prices import make_pricing
from gateway.domain.candidate import Candidate, Level
from gateway.domain.collector import Category, CollectorOutcome, Findings, FoundItem
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.search import Pick, SearchResult
from gateway.domain.selection import Selection
from gateway.domain.tool import CallableTool, ToolServerAddress
from gateway.injection.tools import PLAIN_TOOLS
from gateway.selection import allotment
from gateway.selection.allotment import Allotment, BudgetShares, Need
from gateway.selection.collected import select
from gateway.selection.select import SelectionTerms, propose

VOLATILE = [Category.FOCUS, Category.SEMANTIC, Category.RELATIONS, Category.ACTIVITY, Category.KNOWLEDGE]
# Before one line break some of them have more tokens than before two, some fewer.
ENDINGS = ["", "", ".", "\n", ".\r\n", "[...]", " [[...]]", "^", "&", " “", "。", ").", "’", "." * 64, ":" * 16, " \n "]


def count_words(text: str) -> int:
    return len(text.split())


def make_text(draw: Random, words: int) -> str:
    word = draw.choice(["alpha", "Beta-2", "naïve", "数据", "x=1;", "the"])
    text = " ".join(word + (". " if draw.random() < 0.2 else "") for _ in range(words)).strip()
    return text + draw.choice(ENDINGS)


def make_candidate(draw: Random, place: int) -> Candidate:
    mode = draw.choice([Mode.ALWAYS, Mode.ALWAYS, Mode.SEMANTIC, Mode.SEMANTIC, Mode.ON_DEMAND])
    facts: dict[str, Any] = {"languages": (), "conflict_key": None, "mandatory": False, "readers": (), "examples": ()}
    resource = Resource(
        id=f"c/r{place}",
        context="c",
        type="text",
        name=f"Resource {place}",
        mode=mode,
        kind=ResourceKind.REFERENCE,
        description=draw.choice(["", "Some words about it", "A much longer description " * 3]),
        priority=draw.choice([50, 100]),
        required=draw.random() < 0.05,
        truncate=draw.choice(["keep_start", "keep_end", "extractive", "none"]),
        data=None,
        text=make_text(draw, draw.choice([1, 20, 60, 200])),
        **facts,
    )
    named = mode is not Mode.ALWAYS and draw.random() < 0.2
    return Candidate(resource, Level.AGENT, "a", "contexts", "assigned", named=named)


def make_tool(draw: Random, place: int) -> Candidate:
    """A tool of a server; some bring others along, and two may have one name."""
    name = f"tool_{draw.choice([place, place, 1])}"
    brings = (f"c/t{draw.randrange(6)}",) if draw.random() < 0.3 else ()
    tool = CallableTool(name, ToolServerAddress(url="https://example.com/mcp"), name, "c/server", brings=brings)
    words = make_text(draw, draw.choice([5, 30, 120]))
    definition = orjson.dumps({"type": "function", "function": {"name": name, "description": words}}).decode()
    one = make_candidate(draw, place)
    resource = replace(
        one.resource, id=f"c/t{place}", name=name, kind=ResourceKind.TOOL, data=tool, text=definition, truncate="none"
    )
    return replace(one, resource=resource)


def make_outcome(draw: Random, category: Category) -> CollectorOutcome:
    items = tuple(
        FoundItem(
            f"{draw.choice(['n', category])}/{place}",
            "node",
            draw.choice(["page", "task"]),
            f"Item {place}",
            make_text(draw, draw.choice([5, 40, 150])),
            draw.random(),
            "found",
            breadcrumb=draw.choice([(), ("Site", "News")]),
            distance=draw.choice([None, 1, 3]),
            truncate=draw.choice(["extractive", "keep_start", "none"]),
            required=draw.random() < 0.03,
            max_tokens=draw.choice([None, None, None, 60]),
        )
        for place in range(draw.choice([0, 1, 5]))
    )
    return CollectorOutcome(str(category), category, Findings(items, considered=9))


@dataclass(frozen=True)
class Case:
    """Something to select from, drawn from a seed."""

    candidates: list[Candidate]
    outcomes: list[CollectorOutcome]
    shares: BudgetShares
    offers: bool

    @classmethod
    def draw(cls, seed: int) -> "Case":
        draw = Random(seed)
        candidates = [make_candidate(draw, place) for place in range(draw.choice([0, 1, 4, 12]))]
        candidates += [make_tool(draw, place) for place in range(draw.choice([0, 0, 2, 6]))]
        outcomes = [make_outcome(draw, one) for one in VOLATILE if draw.random() < 0.6]
        searchable = [one.resource.id for one in candidates if one.resource.mode is Mode.SEMANTIC and not one.named]
        picks = [Pick(one, draw.random(), needs=draw.choice([0, 0, 0.4])) for one in searchable if draw.random() < 0.7]
        picks.sort(key=lambda pick: (pick.needs, -pick.score))
        if searchable:
            found = Findings(search=SearchResult(tuple(picks)))
            outcomes.append(CollectorOutcome("search", Category.SEMANTIC, found))
        chosen = [
            one for one in [Category.ALWAYS, Category.TOOLS, Category.CATALOGUE, *VOLATILE] if draw.random() < 0.8
        ]
        shares = BudgetShares(tuple((one, draw.randint(1, 2000)) for one in chosen), draw.choice([1, 1000, 4000]))
        return cls(candidates, outcomes, shares, draw.random() < 0.8)

    def select(self, budget: int) -> Selection:
        pricing = make_pricing(PLAIN_TOOLS, "0badcafe", count_words)
        categories = frozenset(one.category for one in self.outcomes)
        terms = SelectionTerms(budget, self.offers, pricing, self.shares, categories)
        return select(propose(self.candidates), terms, self.outcomes)

    def find_overdraft(self) -> int:
        """Words of what is never left out."""
        fixed = [f"[{one.resource.name}] {one.resource.text}" for one in self.candidates if one.resource.required]
        items = [item for one in self.outcomes for item in one.findings.items if item.required]
        fixed += [f"{item.title} {item.type} {' '.join(item.breadcrumb)} {item.text} {'-' * 20}" for item in items]
        return sum(map(count_words, fixed)) + (40 if fixed else 0) + 20 * len(items)


def kept(selection: Selection) -> set[str]:
    return {one.candidate.resource.id for one in (*selection.stable, *selection.volatile, *selection.tools)}


seeds, budgets = st.integers(0, 10**9), st.integers(0, 3000)


@given(seed=seeds, budget=budgets)
@settings(max_examples=300, deadline=None)
def test_the_total_never_exceeds_the_budget_but_for_what_is_required(seed: int, budget: int) -> None:
    case = Case.draw(seed)
    assert sum(case.select(budget).tokens.values()) <= budget + case.find_overdraft()


@given(seed=seeds, budget=budgets, more=st.integers(1, 400))
@settings(max_examples=500, deadline=None)
def test_a_larger_budget_never_drops_a_kept_item(seed: int, budget: int, more: int) -> None:
    case = Case.draw(seed)
    small, large = case.select(budget), case.select(budget + more)
    assert kept(small) <= kept(large)
    if len(small.catalogue) == len(large.catalogue):
        assert (small.view.listed, small.view.described) <= (large.view.listed, large.view.described)


needs = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 400), st.integers(0, 100)), min_size=1, max_size=5)


@given(needs=needs, carry=st.integers(-50, 200), budget=budgets, more=st.integers(1, 400), notes=st.integers(0, 50))
@settings(max_examples=500, deadline=None)
def test_rooms_grow_with_the_budget_and_nobody_pays_for_what_goes_back(
    needs: list[tuple[int, int, int]], carry: int, budget: int, more: int, notes: int
) -> None:
    """Categories with a share, what all that they have takes, and what is never left out of it."""
    order = VOLATILE[: len(needs)]
    shares = {one: share for one, (share, _, _) in zip(order, needs, strict=True)}
    wanted = {one: (max(all_, fixed), fixed) for one, (_, all_, fixed) in zip(order, needs, strict=True)}
    whole = max(1000, sum(shares.values()))

    def divide(budget: int, reserved: int) -> dict[Category, int]:
        def measure(category: Category, room: int) -> Need:
            all_, fixed = wanted[category]
            return Need(all_, True) if all_ <= room or all_ == fixed else Need(fixed, False)

        measures = {one: partial(measure, one) for one in order}
        return Allotment(budget, shares, whole).divide(carry * whole, measures, reserved)

    small, large, forward = divide(budget, notes), divide(budget + more, notes), divide(budget, 10**6)
    spent = {one: max(min(room, wanted[one][0]), wanted[one][1]) for one, room in small.items()}
    assert all(min(small[one], wanted[one][0]) <= large[one] for one in order)
    assert all(forward[one] <= small[one] for one in order)
    if any(room < wanted[one][0] and room > forward[one] for one, room in small.items()):
        total = budget * sum(shares.values()) // whole + carry
        assert total - notes - len(order) <= sum(spent.values()) <= total, "all of it is used"


def loses_something(seed: int) -> bool:
    """Whether a little more budget drops what a smaller one kept."""
    case = Case.draw(seed)
    return any(kept(case.select(budget)) - kept(case.select(budget + 1)) for budget in range(0, 900, 7))


@pytest.mark.parametrize("mutant", ["rounded", "passed on"])
def test_rounded_shares_or_leftovers_of_unfinished_categories_would_be_noticed(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def round_start(self: Allotment) -> int:
        return (self.budget - sum(self.budget * one // self.whole for one in self.shares.values())) * self.whole

    def pass_everything(self: Allotment, category: Category, carry: int, spent: int, exhausted: bool) -> int:
        return self._sum(category, carry) - spent * self.whole

    if mutant == "rounded":
        monkeypatch.setattr(allotment.Allotment, "start", property(round_start))
        monkeypatch.setattr(
            allotment.Allotment,
            "_sum",
            lambda self, category, carry: self.budget * self.shares.get(category, 0) // self.whole * self.whole + carry,
        )
    else:
        monkeypatch.setattr(allotment.Allotment, "pass_on", pass_everything)
    noticed = next((seed for seed in range(300) if loses_something(seed)), None)
    assert noticed is not None
    monkeypatch.undo()
    assert not loses_something(noticed), "it is the mutant that loses something"


@given(seed=seeds, budget=budgets)
@settings(max_examples=200, deadline=None)
def test_nothing_vanishes_without_a_reason(seed: int, budget: int) -> None:
    case = Case.draw(seed)
    selection = case.select(budget)
    listed = {one.candidate.resource.id for one in selection.catalogue}
    dropped = {one.candidate.resource.id: one.reason for one in selection.dropped}
    listed |= {one.candidate.resource.id for one in selection.waiting}
    everything = {one.resource.id for one in case.candidates}
    everything |= {item.id for one in case.outcomes for item in one.findings.items}
    assert kept(selection) | listed | dropped.keys() == everything
    assert all(dropped.values())
    cut = {one.category for one in (*selection.stable, *selection.volatile) if one.truncated}
    warned = {one.category for one in selection.warnings}
    assert cut <= warned, "whoever was cut is warned of"
    gone = {name for name, reason in dropped.items() if reason == "over_budget" and name not in listed}
    assert not gone or warned
    searches = [one.findings.search for one in case.outcomes if one.findings.search is not None]
    scarce = {pick.resource for found in searches for pick in found.picks if pick.needs}
    untaken = (*selection.catalogue, *selection.dropped, *selection.waiting)
    if any(one.reason == "over_budget" and one.candidate.resource.id in scarce for one in untaken):
        assert warned & {Category.SEMANTIC, Category.TOOLS}, "picks that wait for more room are warned of"


@given(seed=seeds, budget=budgets)
@settings(max_examples=50, deadline=None)
def test_the_same_is_selected_every_time(seed: int, budget: int) -> None:
    assert Case.draw(seed).select(budget) == Case.draw(seed).select(budget)


def test_a_long_page_has_what_other_sections_do_not_need_but_for_their_notes() -> None:
    long = FoundItem("n", "node", "page", "Page", "word " * 5000, 1.0, "focus", distance=0, truncate="keep_start")
    empty = [CollectorOutcome(str(one), one, Findings((), considered=9)) for one in VOLATILE if one != Category.FOCUS]
    shares = BudgetShares(((Category.FOCUS, 1500), (Category.SEMANTIC, 1200), (Category.RELATIONS, 800)), 4000)
    outcomes = [CollectorOutcome("focus", Category.FOCUS, Findings((long,), considered=9)), *empty]
    selection = Case([], outcomes, shares, offers=False).select(4000)
    assert len(selection.notes) == len(empty), "each empty section says so"
    assert 3990 <= sum(selection.tokens.values()) <= 4000


def test_a_reserved_share_is_there_however_much_always_text_there_is() -> None:
    case = Case.draw(1)
    always = [replace(make_candidate(Random(place), place), named=False) for place in range(30)]
    long = [
        replace(one, resource=replace(one.resource, mode=Mode.ALWAYS, required=False, text="word " * 300))
        for one in always
    ]
    item = FoundItem("n", "node", "page", "Page", "word " * 1400, 1.0, "focus", distance=0, truncate="keep_start")
    outcome = CollectorOutcome("focus", Category.FOCUS, Findings((item,)))
    shares = BudgetShares(((Category.ALWAYS, 1600), (Category.FOCUS, 1500)), 4000)
    selection = dataclasses.replace(case, candidates=long, outcomes=[outcome], shares=shares, offers=False).select(4000)
    assert selection.tokens["focus"] > 1400
    assert selection.tokens["always"] > 2000, "what nobody reserved is there for everyone"
