"""What collectors found competes for what a scope leaves of its budget, category by category."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from gateway.domain.candidate import Candidate
from gateway.domain.collector import NO_FINDINGS, Category, CollectorOutcome, CollectorReport, FoundItem
from gateway.domain.selection import CategoryCost, Notice, Omission, PlacedResource, SectionNote, Selection
from gateway.selection.allotment import VOLATILE_ORDER, Need
from gateway.selection.cutter import PLAIN_CUTTER, Cutter
from gateway.selection.fill import CategoryFill, fill, is_fixed, measure_need
from gateway.selection.found import make_found_candidate
from gateway.selection.picks import NO_PICKS, PREFETCH, RankedPicks, rank_picks
from gateway.selection.pricing import BlockPrices, Pricing
from gateway.selection.rank import RankedItems, Ranker
from gateway.selection.select import Proposal, ScopeFills, SelectionTerms, fill_scope, select_stable
from gateway.selection.tool_rules import is_tool, list_waiting

RETRIEVERS = "retrievers"  # the collector that asks them
NOTHING_RELEVANT = "_No relevant content found._"


class CollectedFills(msgspec.Struct):
    """What the volatile categories got."""

    placed: tuple[PlacedResource, ...] = ()
    dropped: tuple[Omission, ...] = ()
    costs: tuple[CategoryCost, ...] = ()
    notes: tuple[SectionNote, ...] = ()
    warnings: tuple[Notice, ...] = ()

    @property
    def texts(self) -> tuple[PlacedResource, ...]:
        return tuple(one for one in self.placed if not is_tool(one.candidate))

    @property
    def tools(self) -> tuple[PlacedResource, ...]:
        return tuple(one for one in self.placed if is_tool(one.candidate))


def select(
    proposal: Proposal,
    terms: SelectionTerms,
    outcomes: Sequence[CollectorOutcome] = (),
    fills: ScopeFills | None = None,
    ranker: Ranker | None = None,
    cutter: Cutter = PLAIN_CUTTER,
) -> Selection:
    """Always resources first, then what the caller named, then what collectors found; the rest is offered.

    Semantic resources stay in the catalogue whether they are picked or not, so that it is the same from turn to turn.
    """
    fills = fills if fills is not None else fill_scope(proposal, terms, cutter)
    selection = select_stable(proposal, terms, fills)
    if not outcomes:
        return finish_block(selection, (), terms.pricing.prices)
    found = next((one.findings.search for one in outcomes if one.findings.search is not None), None)
    picks = NO_PICKS
    if found is not None:
        part = fills.allotment.measure_part(fills.carry)
        taken = frozenset(one.candidate.resource.id for one in fills.tools.placed)
        picks = rank_picks(proposal.candidates, found, part, taken, callable_=terms.offers)
    filled = fill_collected(fills, terms.pricing, outcomes, picks, ranker or Ranker(), cutter)
    placed = frozenset(one.candidate.resource.id for one in filled.placed)
    left = {one.candidate.resource.id: one.reason for one in filled.dropped}
    offered = fills.offered
    gone = [
        one for one in filled.dropped if not (one.candidate.resource.id in picks.searchable or is_tool(one.candidate))
    ]
    answered = find_answered(filled.placed)
    kept = (one for one in offered.dropped if one.candidate.resource.id not in placed | answered)
    tools = (*fills.tools.placed, *(replace(one, category=Category.TOOLS) for one in filled.tools))
    waiting = list_waiting(fills.callable, tools) if fills.callable else ()
    chosen = replace(
        selection,
        volatile=(*selection.volatile, *filled.texts),
        tools=tools,
        waiting=tuple(picks.explain(one, placed, left) for one in waiting),
        catalogue=tuple(picks.explain(one, placed, left) for one in offered.catalogue),
        dropped=(
            *(picks.explain(one, placed, left) for one in kept),
            *fills.tools.left,
            *gone,
            *list_unanswered(proposal.looked_up, answered, outcomes),
        ),
        warnings=(*selection.warnings, *filled.warnings, *warn_unread(outcomes)),
        degraded=selection.degraded | picks.degraded | find_degraded(outcomes),
        collectors=tuple(make_report(one, filled.placed) for one in outcomes),
        costs=(*selection.costs, *filled.costs),
    )
    return finish_block(chosen, filled.notes, terms.pricing.prices)


def warn_unread(outcomes: Sequence[CollectorOutcome]) -> Iterator[Notice]:
    """That nodes were left out before anybody ranked them."""
    for one in outcomes:
        if one.findings.unread:
            nodes = "1 node was" if one.findings.unread == 1 else f"{one.findings.unread} nodes were"
            message = f"{nodes} not read: the texts of all that `{one.name}` found are too large together."
            yield Notice("content_too_large", one.category, message)


def find_answered(placed: Sequence[PlacedResource]) -> frozenset[str]:
    """Ids of the retrievers of which a passage is placed."""
    items = (one.candidate.resource.data for one in placed)
    return frozenset(item.origin for item in items if isinstance(item, FoundItem) and item.origin)


def list_unanswered(
    retrievers: Sequence[Candidate], answered: frozenset[str], outcomes: Sequence[CollectorOutcome]
) -> Iterator[Omission]:
    """The retrievers that were to be asked and of which nothing is placed, and why."""
    missed = {id: why for one in outcomes for id, why in one.findings.missed.items()}
    failed = next((one.failure for one in outcomes if one.name == RETRIEVERS), None)
    for candidate in retrievers:
        id = candidate.resource.id
        why = missed.get(id) or (f"all retrievers were {failed}" if failed else None)
        if why is not None:
            yield Omission(replace(candidate, why=why), "late")
        elif id not in answered:
            yield Omission(candidate, "below_threshold")


class VolatileCategory(msgspec.Struct, frozen=True):
    """What a category has to place: picks of the search before and after what collectors found."""

    category: Category
    ranked: RankedItems
    picks: RankedPicks
    pricing: Pricing
    once: Pricing  # of items, of which nothing is kept
    cutter: Cutter

    @property
    def heading(self) -> int:
        return self.pricing.prices.section(self.category) if self.ranked.candidates else 0

    @property
    def owed(self) -> int:
        """Tokens of items that are never left out."""
        fixed = [self.once.price(one) for one in self.ranked.candidates if is_fixed(one)]
        return sum(fixed) + (self.heading if fixed else 0)

    def measure(self, room: int) -> Need:
        """What it needs; picks that wait for a larger budget need more than they can say."""
        owed, heading = self.owed, self.heading
        spent, complete = measure_need(self.picks.sure, room - owed, self.pricing)
        if complete:
            items = measure_need(self.ranked.candidates, room - spent - heading, self.once)
            spent, complete = spent + heading + items.tokens, items.complete
        if complete:
            likely = measure_need(self.picks.likely, room - spent, self.pricing)
            spent, complete = spent + likely.tokens, likely.complete
        if complete and not self.picks.reasons:
            return Need(spent, True)
        return Need(owed + sum(self.pricing.price(one) for one in self.picks.sure if is_fixed(one)), False)

    def fill(self, room: int) -> "VolatileFill":
        """What is placed of it, each part only after all of those before it."""
        category, heading, reserved = self.category, self.heading, min(room, self.owed)
        sure = fill(self.picks.sure, room - reserved, category, self.pricing, self.cutter)
        left = (room - sure.spent if sure.exhausted else reserved) - heading
        items = fill(self.ranked.candidates, max(0, left), category, self.once, self.cutter)
        left = left - items.spent if sure.exhausted and items.exhausted else 0
        likely = fill(self.picks.likely, max(0, left), category, self.pricing, self.cutter)
        return VolatileFill(sure, items, likely, heading if items.placed else 0)


class VolatileFill(NamedTuple):
    """What a category placed."""

    sure: CategoryFill
    items: CategoryFill
    likely: CategoryFill
    overhead: int  # tokens of its heading


def fill_collected(
    fills: ScopeFills,
    pricing: Pricing,
    outcomes: Sequence[CollectorOutcome],
    picks: RankedPicks,
    ranker: Ranker,
    cutter: Cutter,
) -> CollectedFills:
    """The volatile categories in their order; what they do not need goes to those that have too little."""
    once, prices, seen = pricing.forget(), pricing.prices, set[str]()
    asked = {one: [outcome for outcome in outcomes if outcome.category is one] for one in VOLATILE_ORDER}
    searched = any(one.findings.considered for one in outcomes if one.findings.search is None)
    notes = [note for category, mine in asked.items() for note in _list_notes(mine, category, searched=searched)]
    parts = []
    for category, mine in asked.items():
        ranked, found = ranker.rank(list(_list_new(mine, seen))), picks if category is Category.SEMANTIC else NO_PICKS
        parts.append(VolatileCategory(category, ranked, found, pricing, once, cutter))
    reserved = sum(prices.section(note.category) + prices.note(note.text) for note in notes)
    rooms = fills.allotment.divide(fills.carry, {one.category: one.measure for one in parts}, reserved)
    result = CollectedFills(notes=tuple(notes))
    for one in parts:
        sure, items, likely, overhead = one.fill(rooms[one.category])
        result = CollectedFills(
            (*result.placed, *sure.placed, *likely.placed, *items.placed),
            (*result.dropped, *sure.left, *likely.left, *_list_unplaced(items), *one.ranked.excluded),
            (*result.costs, *((CategoryCost(one.category, overhead),) if overhead else ())),
            result.notes,
            (*result.warnings, *sure.warnings, *items.warnings, *likely.warnings, *one.picks.warn()),
        )
    return result


def _list_new(outcomes: Sequence[CollectorOutcome], seen: set[str]) -> Iterator[Candidate]:
    """Each item once: what a category before has found, or a collector before, is not repeated."""
    for outcome in outcomes:
        for item in outcome.findings.items:
            if item.id not in seen:
                seen.add(item.id)
                yield make_found_candidate(item, outcome.name)


def _list_unplaced(items: CategoryFill) -> Iterator[Omission]:
    """What was cut is placed: it is not dropped too."""
    ids = {one.candidate.resource.id for one in items.placed}
    return (one for one in items.left if one.candidate.resource.id not in ids)


def _list_notes(outcomes: Sequence[CollectorOutcome], category: Category, *, searched: bool) -> Iterator[SectionNote]:
    """A section in which nothing was found says so; a collector that only searches resources has no section.

    Where there was nothing to look at in any section (`searched`), only those speak that have something to say.
    """
    answers = [one for one in outcomes if one.findings is not NO_FINDINGS]
    asked = [one for one in answers if one.findings.search is None and one.failure is None]
    note = next((one.findings.note for one in asked if one.findings.note), NOTHING_RELEVANT if searched else "")
    # What was found may stand in another section, or not fit.
    if asked and note and not any(one.findings.items for one in outcomes):
        yield SectionNote(category, note)


def finish_block(selection: Selection, notes: Sequence[SectionNote], prices: BlockPrices) -> Selection:
    """The selection with the markers of its volatile block, and with notes as far as anything is left for them."""
    resources = any(not isinstance(one.candidate.resource.data, FoundItem) for one in selection.volatile)
    remaining = selection.budget - selection.count_tokens()
    remaining -= prices.frame(resources=resources, anything=bool(selection.volatile or notes))
    costs, kept = list(selection.costs), []
    for note in notes:
        cost = prices.section(note.category) + prices.note(note.text)
        if cost <= remaining:
            kept.append(note)
            costs.append(CategoryCost(note.category, cost))
            remaining -= cost
    frame = prices.frame(resources=resources, anything=bool(selection.volatile or kept))
    costs += [CategoryCost(Category.FRAME, frame)] if frame else []
    return replace(selection, costs=tuple(costs), notes=tuple(kept))


def find_degraded(outcomes: Sequence[CollectorOutcome]) -> frozenset[str]:
    return frozenset(one.findings.degraded for one in outcomes if one.findings.degraded is not None)


def is_composed(placed: PlacedResource) -> bool:
    """Whether its text is about several things, some of which may be left out."""
    data = placed.candidate.resource.data
    return isinstance(data, FoundItem) and bool(data.parts)


def make_report(outcome: CollectorOutcome, placed: Sequence[PlacedResource]) -> CollectorReport:
    """What is told about a collector."""
    findings = outcome.findings
    names = {outcome.name, *(["expansion", PREFETCH] if findings.search is not None else [])}
    mine = [one for one in placed if one.category is outcome.category and one.candidate.via in names]
    items = [one.candidate.resource.data for one in mine if isinstance(one.candidate.resource.data, FoundItem)]
    counts = Counter(findings.counts)
    for item in items:
        counts.update(item.counts)
    return CollectorReport(
        outcome.name,
        outcome.category,
        findings.considered,
        sum(len(one.parts) or 1 for one in items) + len(mine) - len(items),
        outcome.failure,
        findings.total_available,
        findings.truncated or any(one.truncated and is_composed(one) for one in mine),
        findings.note,
        counts,
    )
