"""What the figures suggest: each rule at its threshold and just below it."""

import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.analytics import suggestions
from gateway.analytics.reports import Period, Reports
from gateway.analytics.suggestions import Advisor
from gateway.domain.agent import Agent, Budget
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.sketch import hash_name
from gateway.domain.snapshot import Snapshot
from gateway.domain.statistics import AGENT_RESOURCES, RESOURCES, Bucket, Series, Span, Tally, UncountedBatch
from gateway.stores.memory_receipts import MemoryReceiptStore
from gateway.stores.memory_statistics import MemoryStatisticsStore

NOW = time.time()
TODAY = Span.DAY.find_start(NOW)


def make_resource(mode: Mode, **changes: Any) -> Resource:
    fields: dict[str, Any] = {
        **{"id": "c/r", "context": "c", "type": "text", "name": "R", "mode": mode, "kind": ResourceKind.REFERENCE},
        **{"description": "", "languages": (), "conflict_key": None, "priority": 0, "required": False},
        **{"mandatory": False, "readers": (), "examples": (), "truncate": "none", "data": None, "text": "Text."},
    }
    return Resource(**{**fields, **changes})


def make_tally(series: Series, counters: dict[str, int], sessions: dict[str, int] | None = None) -> Tally:
    counts = [(sessions or {}).get(name, 0) for name in series.sketches]
    hashes = [{hash_name(str(one)) for one in range(count)} for count in counts]
    return Tally([counters.get(name, 0) for name in series.counters], hashes)


async def suggest(
    resource: Resource, own: Tally, context: Tally, agent: Tally | None = None, stored: bool = True
) -> list[dict[str, Any]]:
    store = MemoryStatisticsStore(MemoryReceiptStore())
    rows = {Bucket("default", RESOURCES.name, Span.DAY, TODAY): {"c/r": own, "c": context}}
    if agent is not None:
        rows[Bucket("default", AGENT_RESOURCES.name, Span.DAY, TODAY)] = {"a\nc/r": agent}
    await store.add(rows, UncountedBatch(), NOW)
    agents = {"a": Agent("a", "A", budget=Budget(total=1000))}
    snapshot = Snapshot("0" * 64, 0, {}, {}, agents, {}, {resource.id: resource})
    advisor = Advisor(Reports(store), snapshot, lambda kind, alias: stored, 4000)
    return await advisor.suggest("default", Period.choose(NOW, None, None))


def of(**counters: int) -> Tally:
    return make_tally(RESOURCES, counters)


CASES: dict[str, tuple[Resource, Tally, Tally, Tally, dict[str, Any]]] = {
    "never_shown": (
        make_resource(Mode.ALWAYS),
        of(injected=50, measured=20),
        of(injected=50, measured=19),
        of(applied=50),
        {"method": "PUT", "merge": {"mode": "on_demand"}},
    ),
    "never_used": (
        make_resource(Mode.ON_DEMAND),
        of(),
        of(fetched=1),
        of(applied=200),
        {"method": "DELETE", "merge": {}},
    ),
    "fetched_often": (
        make_resource(Mode.ON_DEMAND),
        make_tally(RESOURCES, {"fetched": 12}, {"fetched": 12}),
        make_tally(RESOURCES, {"fetched": 11}, {"fetched": 11}),
        make_tally(RESOURCES, {"applied": 40}, {"applied": 20}),
        {"method": "PUT", "merge": {"mode": "always"}},
    ),
    "never_picked": (
        make_resource(Mode.SEMANTIC),
        of(fetched=3, missed=3),
        of(injected=1, picked=1),
        of(applied=100),
        {"method": "PUT", "asks": ("examples", "description")},
    ),
    "truncated_often": (
        make_resource(Mode.ALWAYS),
        of(injected=50, truncated=15),
        of(injected=50, truncated=14),
        of(applied=50),
        {"method": "PUT", "asks": ("data",)},
    ),
    "over_budget_often": (
        make_resource(Mode.ALWAYS),
        of(injected=35, over_budget=15, tokens=35 * 90),
        of(injected=35, over_budget=14, tokens=35 * 90),
        of(applied=50),
        {"method": "PUT", "merge": {"mode": "on_demand"}},
    ),
}


@pytest.mark.parametrize("code", CASES)
async def test_a_suggestion_needs_its_evidence(code: str) -> None:
    resource, enough, too_little, context, change = CASES[code]
    (found,) = await suggest(resource, enough, context)
    assert (found["code"], found["resource"]) == (code, "c/r")
    assert found["change"]["path"] == "/api/v1/contexts/c/resources/r"
    assert {name: found["change"][name] for name in change} == change
    assert not found["change"]["read_only"]
    assert await suggest(resource, too_little, context) == []


async def test_the_agent_whose_budget_is_too_small_gets_a_larger_one() -> None:
    own = of(injected=35, over_budget=15, tokens=35 * 90 - 5)
    agent = make_tally(AGENT_RESOURCES, {"over_budget": 15})
    (found,) = await suggest(make_resource(Mode.ALWAYS), own, of(applied=50), agent)
    assert found["change"]["path"] == "/api/v1/agents/a"
    assert found["change"]["merge"] == {"budget": {"total": 1090, "max": None}}


async def test_rules_are_obeyed_and_need_not_show() -> None:
    never = of(injected=500, measured=200)
    assert await suggest(make_resource(Mode.ALWAYS, kind=ResourceKind.RULE), never, of(applied=500)) == []
    assert await suggest(make_resource(Mode.ALWAYS, mandatory=True), never, of(applied=500)) == []


@pytest.mark.parametrize("code", CASES)
async def test_nothing_is_said_about_tools(code: str) -> None:
    """They cannot be on_demand, no answer quotes their definitions, and those of servers are no objects of the API."""
    resource, enough, _, context, _ = CASES[code]
    assert await suggest(replace(resource, kind=ResourceKind.TOOL), enough, context) == []


async def test_what_comes_from_a_file_is_read_only() -> None:
    own = of(injected=500, measured=200)
    (found,) = await suggest(make_resource(Mode.ALWAYS), own, of(applied=500), stored=False)
    assert found["change"]["read_only"]


def test_every_threshold_is_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "ANALYTICS.md").read_text(encoding="utf-8")
    for name in ("MIN_INJECTIONS", "MIN_MEASURED", "MIN_APPLIED", "MIN_SEARCHES", "MIN_SESSIONS"):
        assert f"{getattr(suggestions, name)} " in page, name
    assert f"{suggestions.MOST_SESSIONS:.0%}".replace("%", " %") in page
    assert f"{suggestions.OFTEN:.0%}".replace("%", " %") in page
