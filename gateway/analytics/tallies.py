"""Receipts become tallies: what each row of the figures grows by.

Receipts that differ in their figures only are added up first, then what they have by hour, agent and name, and only
then is it spread over the rows of hours, days, agents and all time (`gateway/analytics/sheets.py`): a batch has far
fewer of each than of receipts.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from gateway.analytics.facts import BY_HAND, ItemFacts, ReceiptFacts, SelectionFacts, SummaryFacts
from gateway.domain.price import ModelPrice, TokenCount
from gateway.domain.receipt import ReceiptFigures
from gateway.domain.receipt_note import NULL, ReceiptNote
from gateway.domain.statistics import EXCHANGES, RESOURCES, Series, Span, Tally

NANO = 1_000_000_000  # costs are kept in billionths of a dollar
MILLIONTH = 1_000_000  # shares are kept in millionths
MAX_TOKENS = 10**12  # of one exchange, whatever its upstream says
MAX_DOLLARS, MAX_SECONDS = 1e6, 1e6
STATUSES = EXCHANGES.counters[1:6]
HOUR = int(Span.HOUR)

read_figures = attrgetter("usage", "seconds", "cost", "tokens")  # of a note

FindPrice = Callable[[str], ModelPrice | None]

# The places of the counters and sketches of resources.
APPLIED, INJECTED, PICKED, PINNED, RETAINED, TRUNCATED, OVER_BUDGET, FETCHED, MISSED = range(9)
TOKENS, CHARACTERS, COST, MEASURED, SHOWN, OVERLAP, LAST_INJECTED, LAST_FETCHED = range(9, 17)
APPLIED_IN, INJECTED_IN, FETCHED_IN = range(len(RESOURCES.sketches))


class NameUse(NamedTuple):
    """Where a resource or a context was used."""

    workspace: str
    hour: int
    agent: str
    name: str


class ExchangeUse(NamedTuple):
    """What an exchange was."""

    workspace: str
    hour: int
    key: str  # agent, model and placement


class GroupKey(NamedTuple):
    """What the receipts of a group have in common."""

    workspace: str
    hour: int
    agent: str
    status: str
    model: str | None
    placement: str | None
    degraded: tuple[str, ...]
    selection: int  # the identity of an object, which the group keeps
    contexts: tuple[str, ...]


class ReceiptGroup(msgspec.Struct):
    """The receipts of one batch that differ in their figures only, added up."""

    selection: SelectionFacts
    receipts: int = 0
    context_tokens: int = 0
    turns: int = 0
    tools_run: int = 0
    with_usage: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    priced: int = 0
    cost: int = 0  # in billionths of a dollar
    milliseconds: int = 0
    fetched: int = 0
    missed: int = 0
    measured_picks: int = 0
    shown_picks: int = 0
    dollars: float = 0.0  # that one injected token cost
    last: float = 0.0
    sessions: set[bytes] = msgspec.field(default_factory=set)

    def add(self, summary: SummaryFacts, figures: ReceiptFigures, tokens: TokenCount, dollars: float) -> None:
        """Count a receipt; of the summary, what receipts that are alike have in common."""
        self.receipts += 1
        self.context_tokens += min(summary.context_tokens, MAX_TOKENS)
        self.turns += summary.turn_count
        self.tools_run += summary.tools_run
        self.with_usage += figures.used
        self.prompt += tokens.prompt
        self.cached += tokens.cached
        self.completion += tokens.completion
        cost = figures.cost
        if cost is not None:
            self.priced += 1
            self.cost += count_nano(cost)
        self.milliseconds += round(min(figures.seconds or 0.0, MAX_SECONDS) * 1000)
        self.dollars += dollars

    def add_notes(self, summary: SummaryFacts, notes: Sequence[ReceiptNote], price: ModelPrice | None) -> None:
        """Count noted receipts, column by column; of the summary, what they have in common."""
        count = len(notes)
        usages, seconds, costs, tokens = zip(*map(read_figures, notes), strict=True)
        prompts, cached, completions = zip(*map(astuple, tokens), strict=True)
        if max(prompts) > MAX_TOKENS or max(completions) > MAX_TOKENS:
            tokens = tuple(map(limit_tokens, tokens))
            prompts, cached, completions = zip(*map(astuple, tokens), strict=True)
        if max(seconds) > MAX_SECONDS:
            seconds = tuple([min(one, MAX_SECONDS) for one in seconds])
        self.receipts += count
        self.context_tokens += count * min(summary.context_tokens, MAX_TOKENS)
        self.turns += count * summary.turn_count
        self.tools_run += count * summary.tools_run
        self.with_usage += count - usages.count(NULL)
        self.prompt += sum(prompts)
        self.cached += sum(cached)
        self.completion += sum(completions)
        if (priced := count - costs.count(None)) > 0:
            self.priced += priced
            self.cost += sum([count_nano(cost) for cost in costs if cost is not None])
        self.milliseconds += sum([round(1000 * one) for one in seconds])
        if price is not None:
            self.dollars = sum([price_token(price, summary.turn_count, one) for one in tokens], self.dollars)

    def add_evidence(self, facts: ReceiptFacts) -> None:
        """Count what the model fetched, and what of it the answer shows."""
        self.fetched += bool(facts.fetched)
        self.missed += any(one.left_out == "below_threshold" for one in facts.fetched.values())
        seen = [one for one in facts.overlap if one.id in self.selection.picks]
        self.measured_picks += len(seen)
        self.shown_picks += sum(one.is_shown for one in seen)

    def list_values(self, key: GroupKey) -> list[int]:
        """What the exchanges add, in the order of the counters."""
        count, selection = self.receipts, self.selection
        return [
            count,
            *[count * (key.status == name) for name in STATUSES],
            count * bool(key.degraded),
            count * ("semantic" in key.degraded),
            count * bool(selection.injected),
            count * bool(selection.picks),
            self.fetched,
            self.missed,
            count * bool(selection.over_budget),
            self.measured_picks,
            self.shown_picks,
            self.context_tokens,
            self.turns,
            self.tools_run,
            self.with_usage,
            self.prompt,
            self.cached,
            self.completion,
            self.priced,
            self.cost,
            self.milliseconds,
        ]


class NameRows(NamedTuple):
    """The tallies of whatever is named at one time for one agent."""

    tallies: defaultdict[NameUse, Tally]
    workspace: str
    hour: int
    agent: str

    def find(self, name: str, sketch: int | None = None, sessions: Collection[bytes] = ()) -> list[int]:
        """The counters of a resource or context, with the sessions noted in one of its sketches."""
        tally = self.tallies[NameUse(self.workspace, self.hour, self.agent, name)]
        if sketch is not None and sessions:
            tally.sketches[sketch].update(sessions)
        return tally.counters


def add_selection(rows: NameRows, contexts: tuple[str, ...], use: ReceiptGroup) -> None:
    """Count the contexts that applied, what was injected and what the budget left out."""
    for context in contexts:
        rows.find(context, APPLIED_IN, use.sessions)[APPLIED] += use.receipts
    of_context: dict[str, int] = {}
    for item in use.selection.injected:
        of_context[item.context] = of_context.get(item.context, 0) + item.tokens
        counters = rows.find(item.id, INJECTED_IN, use.sessions)
        add_injection(counters, item.tokens, use)
        add_reasons(counters, item, use.receipts)
    for context, tokens in of_context.items():
        add_injection(rows.find(context, INJECTED_IN, use.sessions), tokens, use)
    if use.selection.over_budget:
        placed = {item.id for item in use.selection.injected}
        for id in use.selection.over_budget:
            if id not in placed:  # what was truncated is there in part
                rows.find(id)[OVER_BUDGET] += use.receipts


def add_injection(counters: list[int], tokens: int, use: ReceiptGroup) -> None:
    counters[INJECTED] += use.receipts
    counters[TOKENS] += tokens * use.receipts
    counters[COST] += round(min(tokens * use.dollars, MAX_DOLLARS) * NANO)
    counters[LAST_INJECTED] = max(counters[LAST_INJECTED], round(use.last * 1000))


def add_reasons(counters: list[int], item: ItemFacts, times: int) -> None:
    """Count how an item came in."""
    if item.via in BY_HAND:
        counters[PINNED] += times
    elif item.via == "retained":
        counters[RETAINED] += times
    elif item.picked:
        counters[PICKED] += times
    if item.truncated:
        counters[TRUNCATED] += times


def add_fetches(rows: NameRows, facts: ReceiptFacts) -> None:
    """Count what the model fetched."""
    at, sessions = round(facts.at * 1000), [facts.session] if facts.session is not None else []
    for id, tool in facts.fetched.items():
        counters = rows.find(id, FETCHED_IN, sessions)
        counters[FETCHED] += 1
        counters[CHARACTERS] += tool.characters
        counters[MISSED] += tool.left_out == "below_threshold"
        counters[LAST_FETCHED] = max(counters[LAST_FETCHED], at)
    for context in {id.partition("/")[0] for id in facts.fetched}:
        counters = rows.find(context, FETCHED_IN, sessions)
        counters[FETCHED] += 1
        counters[LAST_FETCHED] = max(counters[LAST_FETCHED], at)


def add_overlap(rows: NameRows, facts: ReceiptFacts) -> None:
    """Count how much of each resource the answer shows."""
    for one in facts.overlap:
        counters = rows.find(one.id)
        counters[MEASURED] += 1
        counters[SHOWN] += one.is_shown
        counters[OVERLAP] += round(one.shown / one.phrases * MILLIONTH) if one.phrases else 0


def limit_tokens(said: TokenCount) -> TokenCount:
    """What the upstream reports, within reason."""
    if said.prompt <= MAX_TOKENS and said.completion <= MAX_TOKENS:
        return said
    prompt = min(said.prompt, MAX_TOKENS)
    return TokenCount(prompt, min(said.cached, prompt), min(said.completion, MAX_TOKENS))


def count_nano(dollars: float) -> int:
    """Billionths of dollars, within reason."""
    return round(min(max(dollars, 0.0), MAX_DOLLARS) * NANO)


def price_token(price: ModelPrice, turn_count: int, tokens: TokenCount) -> float:
    """What one injected token cost: it is sent with every turn, and cached as often as all others."""
    turns = max(turn_count, 0)
    if not tokens.prompt:
        return turns * price.compute_cost(TokenCount(prompt=1))
    return turns * price.compute_cost(TokenCount(tokens.prompt, tokens.cached)) / tokens.prompt


def make_tally(series: Series) -> Tally:
    return Tally([0] * len(series.counters), [set() for _ in series.sketches])
