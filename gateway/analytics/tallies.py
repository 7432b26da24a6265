"""Receipts become tallies: what each row of the figures grows by."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache

from gateway.analytics.facts import BY_HAND, ReceiptFacts, SelectionFacts
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
)
from gateway.receipts.prices import count_tokens

NANO = 1_000_000_000  # costs are kept in billionths of a dollar
MILLIONTH = 1_000_000  # shares are kept in millionths
MAX_TOKENS = 10**12  # of one exchange, whatever its upstream says

FindPrice = Callable[[str], ModelPrice | None]


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
        self._uses: dict[tuple[str, int, str, int, tuple[str, ...]], SelectionUse] = {}
        self._tallies: defaultdict[Bucket, dict[str, Tally]] = defaultdict(dict)

    def add(self, facts: ReceiptFacts) -> None:
        tokens = count_exchange_tokens(facts)
        self._add_exchange(facts, tokens)
        self._add_use(facts, tokens)
        self._add_fetches(facts)
        self._add_overlap(facts)

    def finish(self) -> Tallies:
        """Everything that was added."""
        for (workspace, hour, agent, *_), use in self._uses.items():
            self._add_selection(ResourceRows(self, workspace, hour, agent), use)
        self._uses.clear()
        return self._tallies

    def get_tally(self, bucket: Bucket, series: Series, key: str) -> Tally:
        rows = self._tallies[bucket]
        tally = rows.get(key)
        if tally is None:
            tally = rows[key] = Tally([0] * len(series.counters), [set() for _ in series.sketches])
        return tally

    def _add_exchange(self, facts: ReceiptFacts, tokens: TokenCount) -> None:
        summary, receipt, picks = facts.summary, facts.receipt, facts.selection.picks
        seen = [one for one in facts.overlap if one.id in picks]
        cost = summary.cost
        values = {
            "requests": 1,
            receipt.status: 1,
            "degraded": int(bool(summary.degraded)),
            "degraded_semantic": int("semantic" in summary.degraded),
            "injected": int(bool(facts.selection.injected)),
            "picked": int(bool(picks)),
            "fetched": int(bool(facts.fetched)),
            "missed": int(any(one.left_out == "below_threshold" for one in facts.fetched.values())),
            "over_budget": int(bool(facts.selection.over_budget)),
            "measured_picks": len(seen),
            "shown_picks": sum(one.is_shown for one in seen),
            "context_tokens": min(summary.context_tokens, MAX_TOKENS),
            "turns": summary.turn_count,
            "tools_run": summary.tools_run,
            "with_usage": int(summary.usage is not None),
            "prompt_tokens": tokens.prompt,
            "cached_tokens": tokens.cached,
            "completion_tokens": tokens.completion,
            "priced": int(cost is not None),
            "cost": round(min(max(cost or 0.0, 0.0), 1e6) * NANO),
            "milliseconds": round((summary.seconds or 0.0) * 1000),
        }
        key = SEPARATOR.join((receipt.agent or "", summary.model or "", summary.placement or ""))
        for span in (Span.DAY, Span.HOUR):
            bucket = Bucket(receipt.workspace, EXCHANGES.name, span, span.find_start(facts.at))
            fresh = key not in self._tallies[bucket]
            tally = self.get_tally(bucket, EXCHANGES, key)
            tally.established = receipt.status == "ok" or (tally.established and not fresh)
            for name, value in values.items():
                if value and name in EXCHANGES.places:
                    tally.counters[EXCHANGES.places[name]] += value
            if facts.session is not None:
                tally.sketches[0].add(facts.session)

    def _add_use(self, facts: ReceiptFacts, tokens: TokenCount) -> None:
        receipt = facts.receipt
        if not (facts.contexts or facts.selection.injected or facts.selection.over_budget):
            return
        hour = Span.HOUR.find_start(facts.at)
        key = (receipt.workspace, hour, receipt.agent or "", id(facts.selection), facts.contexts)
        use = self._uses.get(key)
        if use is None:  # which keeps the selection, so that no other gets its id
            use = self._uses[key] = SelectionUse(facts.selection, facts.contexts)
        use.receipts += 1
        use.dollars += self._price_token(facts, tokens)
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

    def _add_selection(self, rows: "ResourceRows", use: SelectionUse) -> None:
        count, last = use.receipts, round(use.last * 1000)
        for context in use.contexts:
            rows.add(context, {"applied": count}, applied=use.sessions)
        of_context: defaultdict[str, int] = defaultdict(int)
        for item in use.selection.injected:
            tokens = min(item.tokens, MAX_TOKENS)
            of_context[item.context] += tokens
            values = {
                "injected": count,
                "picked": count * item.picked,
                "pinned": count * (item.via in BY_HAND),
                "retained": count * (item.via == "retained"),
                "truncated": count * item.truncated,
                "tokens": count * tokens,
                "cost": round(tokens * use.dollars * NANO),
                "last_injected": last,
            }
            rows.add(item.id, values, injected=use.sessions)
        for context, tokens in of_context.items():
            values = {"injected": count, "tokens": count * tokens, "cost": round(tokens * use.dollars * NANO)}
            rows.add(context, values | {"last_injected": last}, injected=use.sessions)
        placed = {item.id for item in use.selection.injected}
        for id in use.selection.over_budget:
            if id not in placed:  # what was truncated is there in part
                rows.add(id, {"over_budget": count})

    def _add_fetches(self, facts: ReceiptFacts) -> None:
        if not facts.fetched:
            return
        rows = ResourceRows(self, facts.receipt.workspace, int(facts.at), facts.receipt.agent or "")
        sessions = {facts.session} if facts.session is not None else set()
        at = round(facts.at * 1000)
        for id, tool in facts.fetched.items():
            missed = int(tool.left_out == "below_threshold")
            values = {"fetched": 1, "missed": missed, "fetched_characters": tool.characters, "last_fetched": at}
            rows.add(id, values, fetched=sessions)
        for context in {id.partition("/")[0] for id in facts.fetched}:
            rows.add(context, {"fetched": 1, "last_fetched": at}, fetched=sessions)

    def _add_overlap(self, facts: ReceiptFacts) -> None:
        if facts.overlap:
            rows = ResourceRows(self, facts.receipt.workspace, int(facts.at), facts.receipt.agent or "")
            for one in facts.overlap:
                share = round(one.shown / one.phrases * MILLIONTH) if one.phrases else 0
                rows.add(one.id, {"measured": 1, "shown": int(one.is_shown), "overlap": share})


@dataclass(frozen=True, slots=True)
class ResourceRows:
    """The rows of resources and contexts that one moment and agent belong to."""

    sheet: TallySheet
    workspace: str
    at: int
    agent: str

    def add(self, name: str, values: dict[str, int], **sessions: Iterable[bytes]) -> None:
        for span in (Span.DAY, Span.HOUR, Span.EVER):
            bucket = Bucket(self.workspace, RESOURCES.name, span, span.find_start(self.at))
            tally = self.sheet.get_tally(bucket, RESOURCES, name)
            self._add_values(tally, values)
            if span is Span.DAY:
                for sketch, seen in sessions.items():
                    tally.sketches[RESOURCES.sketches.index(sketch)] |= set(seen)
        if self.agent:
            bucket = Bucket(self.workspace, AGENT_RESOURCES.name, Span.DAY, Span.DAY.find_start(self.at))
            key = f"{self.agent}{SEPARATOR}{name}"
            self._add_values(self.sheet.get_tally(bucket, AGENT_RESOURCES, key), values)

    def _add_values(self, tally: Tally, values: dict[str, int]) -> None:
        places, counters = RESOURCES.places, tally.counters
        for name, value in values.items():
            if name in RESOURCES.maxima:
                counters[places[name]] = max(counters[places[name]], value)
            elif value:
                counters[places[name]] += value


def count_exchange_tokens(facts: ReceiptFacts) -> TokenCount:
    """What the upstream reports, within reason."""
    said = count_tokens(facts.summary.usage)
    prompt = min(said.prompt, MAX_TOKENS)
    return TokenCount(prompt, min(said.cached, prompt), min(said.completion, MAX_TOKENS))
