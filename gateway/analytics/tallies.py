"""Receipts become tallies: what each row of the figures grows by.

Receipts with the same injection are added up first, then what they have by hour, agent and name, and only then is it
spread over the rows of hours, days, agents and all time: a batch has far fewer of each than of receipts.
"""

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from operator import add
from typing import NamedTuple

from gateway.analytics.facts import BY_HAND, ItemFacts, ReceiptFacts, SelectionFacts
from gateway.domain.price import ModelPrice, TokenCount
from gateway.domain.statistics import (
    AGENT_RESOURCES,
    EXCHANGES,
    RESOURCES,
    SEPARATOR,
    Bucket,
    Series,
    Span,
    Tallies,
    Tally,
    add_tally,
)
from gateway.receipts.prices import count_tokens

NANO = 1_000_000_000  # costs are kept in billionths of a dollar
MILLIONTH = 1_000_000  # shares are kept in millionths
MAX_TOKENS = 10**12  # of one exchange, whatever its upstream says
MAX_DOLLARS, MAX_SECONDS = 1e6, 1e6
STATUSES = EXCHANGES.counters[1:6]

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


@dataclass(slots=True)
class SelectionUse:
    """The receipts of one batch that have the same injection, hour and agent."""

    selection: SelectionFacts
    contexts: tuple[str, ...]
    receipts: int = 0
    dollars: float = 0.0  # that one injected token cost, summed up
    last: float = 0.0
    sessions: set[bytes] = field(default_factory=set)


class TallySheet:
    """The tallies of a batch of receipts."""

    def __init__(self, find_price: FindPrice) -> None:
        self._find_price = cache(find_price)
        self._names: defaultdict[NameUse, Tally] = defaultdict(lambda: make_tally(RESOURCES))
        self._exchanges: dict[ExchangeUse, Tally] = {}
        self._uses: dict[tuple[str, int, str, int, tuple[str, ...]], SelectionUse] = {}

    def add(self, facts: ReceiptFacts) -> None:
        """Count a receipt."""
        receipt, tokens = facts.receipt, count_exchange_tokens(facts)
        hour = Span.HOUR.find_start(facts.at)
        self._add_exchange(hour, facts, tokens)
        self._add_use(hour, facts, self._price_token(facts, tokens))
        if facts.fetched or facts.overlap:
            rows = NameRows(self._names, receipt.workspace, hour, receipt.agent or "")
            add_fetches(rows, facts)
            add_overlap(rows, facts)

    def finish(self) -> Tallies:
        """Everything that was counted, by row."""
        for (workspace, hour, agent, *_), use in self._uses.items():
            add_selection(NameRows(self._names, workspace, hour, agent), use)
        spread = TallySpread()
        for name, tally in self._names.items():
            for span in (Span.HOUR, Span.DAY, Span.EVER):
                spread.add(Bucket(name.workspace, RESOURCES.name, span, span.find_start(name.hour)), name.name, tally)
            if name.agent:
                day = Bucket(name.workspace, AGENT_RESOURCES.name, Span.DAY, Span.DAY.find_start(name.hour))
                spread.add(day, f"{name.agent}{SEPARATOR}{name.name}", Tally(tally.counters, []))
        for one, tally in self._exchanges.items():
            for span in (Span.HOUR, Span.DAY):
                spread.add(Bucket(one.workspace, EXCHANGES.name, span, span.find_start(one.hour)), one.key, tally)
        return spread.rows

    def _add_exchange(self, hour: int, facts: ReceiptFacts, tokens: TokenCount) -> None:
        receipt, summary = facts.receipt, facts.summary
        model = (summary.model or "").replace(SEPARATOR, " ")  # the client's own word
        key = SEPARATOR.join((receipt.agent or "", model, summary.placement or ""))
        use = ExchangeUse(receipt.workspace, hour, key)
        tally = self._exchanges.get(use)
        if tally is None:
            tally = self._exchanges[use] = make_tally(EXCHANGES)
            tally.established = False
        tally.established = tally.established or receipt.status == "ok"
        tally.counters = list(map(add, tally.counters, list_exchange_values(facts, tokens)))
        if facts.session is not None:
            tally.sketches[0].add(facts.session)

    def _add_use(self, hour: int, facts: ReceiptFacts, dollars: float) -> None:
        receipt, selection = facts.receipt, facts.selection
        if not (facts.contexts or selection.injected or selection.over_budget):
            return
        key = (receipt.workspace, hour, receipt.agent or "", id(selection), facts.contexts)
        use = self._uses.get(key)
        if use is None:  # which keeps the selection, so that no other gets its id
            use = self._uses[key] = SelectionUse(selection, facts.contexts)
        use.receipts += 1
        use.dollars += dollars
        use.last = max(use.last, facts.at)
        if facts.session is not None:
            use.sessions.add(facts.session)

    def _price_token(self, facts: ReceiptFacts, tokens: TokenCount) -> float:
        """What one injected token cost: it is sent with every turn, and cached as often as all others."""
        model = facts.summary.model
        price = self._find_price(model) if model is not None else None
        if price is None:
            return 0.0
        turns = max(facts.summary.turn_count, 0)
        if not tokens.prompt:
            return turns * price.compute_cost(TokenCount(prompt=1))
        return turns * price.compute_cost(TokenCount(tokens.prompt, tokens.cached)) / tokens.prompt


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


class TallySpread:
    """Tallies of rows."""

    def __init__(self) -> None:
        self.rows: dict[Bucket, dict[str, Tally]] = {}

    def add(self, bucket: Bucket, key: str, tally: Tally) -> None:
        rows = self.rows.setdefault(bucket, {})
        known = rows.get(key)
        if known is None:
            # Only days have sketches, so that other rows need no copy.
            sketches = [set(one) for one in tally.sketches] if bucket.span == Span.DAY else []
            rows[key] = Tally(list(tally.counters), sketches, tally.established)
        else:
            add_tally(bucket.series, known, tally)


def add_selection(rows: NameRows, use: SelectionUse) -> None:
    """Count the contexts that applied, what was injected and what the budget left out."""
    for context in use.contexts:
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


def add_injection(counters: list[int], tokens: int, use: SelectionUse) -> None:
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


def list_exchange_values(facts: ReceiptFacts, tokens: TokenCount) -> list[int]:
    """What one exchange adds, in the order of the counters."""
    summary, selection, fetched, cost = facts.summary, facts.selection, facts.fetched, facts.summary.cost
    status, picks = facts.receipt.status, selection.picks
    seen = [one for one in facts.overlap if one.id in picks] if picks else []
    return [
        1,
        *[int(status == name) for name in STATUSES],
        int(bool(summary.degraded)),
        int("semantic" in summary.degraded),
        int(bool(selection.injected)),
        int(bool(picks)),
        int(bool(fetched)),
        int(any(one.left_out == "below_threshold" for one in fetched.values())),
        int(bool(selection.over_budget)),
        len(seen),
        sum(one.is_shown for one in seen),
        min(summary.context_tokens, MAX_TOKENS),
        summary.turn_count,
        summary.tools_run,
        int(summary.usage is not None),
        tokens.prompt,
        tokens.cached,
        tokens.completion,
        int(cost is not None),
        round(min(max(cost or 0.0, 0.0), MAX_DOLLARS) * NANO),
        round(min(summary.seconds or 0.0, MAX_SECONDS) * 1000),
    ]


def count_exchange_tokens(facts: ReceiptFacts) -> TokenCount:
    """What the upstream reports, within reason."""
    said = count_tokens(facts.summary.usage)
    prompt = min(said.prompt, MAX_TOKENS)
    return TokenCount(prompt, min(said.cached, prompt), min(said.completion, MAX_TOKENS))


def make_tally(series: Series) -> Tally:
    return Tally([0] * len(series.counters), [set() for _ in series.sketches])
