"""What is relevant reaches the model, and nothing else does: a whole gateway with the installed model."""

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from gateway.domain.search import Query, SearchResult
from tests.support.contract_policies import system_text
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.semantic_gateway import (
    ASKED,
    INVOICE,
    PASSWORD,
    POLICIES,
    ask_and_list_injected,
    catalogue,
    run_indexing,
    wait_until_indexed,
)
from tests.support.upstream import Upstream, call, say

IDS = ["help/password", "help/invoice", "help/refund", "help/animals"]
WEATHER = "Will it rain in Lisbon tomorrow morning?"


@pytest.fixture(scope="module")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A gateway with the real model; it gets more time than usual, for tests run on busy machines."""
    semantic = {"enabled": True, "milliseconds": 5000}
    directory = tmp_path_factory.mktemp("semantic")
    started = running_gateway(thread, directory, scripted.base_url, policies=POLICIES, semantic=semantic)
    with started as client, run_indexing(client):
        wait_until_indexed(client)
        yield client


async def test_what_is_relevant_is_placed_and_the_rest_is_offered(
    gateway: Client, upstream: Upstream, stream: bool
) -> None:
    answered, names = await ask_and_list_injected(gateway, upstream, stream=stream)
    assert names == ["Voice", "Password"]
    assert PASSWORD in system_text(upstream.requests[0])
    assert (answered.headers["x-context-injected"], answered.text) == ("2", "Done.")
    assert "x-context-degraded" not in answered.headers
    assert catalogue(upstream.requests[0]) == IDS


async def test_nothing_is_placed_for_a_question_about_something_else(gateway: Client, upstream: Upstream) -> None:
    answered, names = await ask_and_list_injected(gateway, upstream, WEATHER)
    assert (names, catalogue(upstream.requests[0])) == (["Voice"], IDS)
    assert "x-context-degraded" not in answered.headers


async def test_the_stable_block_is_the_same_whatever_was_picked(gateway: Client, upstream: Upstream) -> None:
    for asked in (ASKED, WEATHER, "Where can I download my monthly invoice?"):
        await ask_and_list_injected(gateway, upstream, asked)
    stable = [system_text(request).split("--- End")[0] for request in upstream.requests]
    assert len(set(stable)) == 1
    assert len({system_text(request) for request in upstream.requests}) == 3


async def test_every_part_of_a_question_is_answered(gateway: Client, upstream: Upstream) -> None:
    _, names = await ask_and_list_injected(gateway, upstream, f"{ASKED} And where can I download my monthly invoice?")
    assert sorted(names) == ["Invoice", "Password", "Voice"]


async def test_a_follow_up_is_understood_by_the_turns_before_it(gateway: Client, upstream: Upstream) -> None:
    _, alone = await ask_and_list_injected(gateway, upstream, "And in German?")
    turns = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "On the settings page."}]
    _, names = await ask_and_list_injected(gateway, upstream, [*turns, {"role": "user", "content": "And in German?"}])
    assert (alone, names) == (["Voice"], ["Voice", "Password"])


async def test_agent_and_request_tune_what_is_placed(gateway: Client, upstream: Upstream) -> None:
    _, by_agent = await ask_and_list_injected(gateway, upstream, WEATHER, agent="eager")
    _, by_request = await ask_and_list_injected(
        gateway, upstream, WEATHER, context={"selection": {"preset": "aggressive"}}
    )
    _, by_both = await ask_and_list_injected(
        gateway, upstream, WEATHER, agent="eager", context={"selection": {"preset": "aggressive", "top_n": 1}}
    )
    _, nothing = await ask_and_list_injected(gateway, upstream, agent="strict")
    assert sorted(by_agent) == sorted(by_request) == ["Invoice", "Password", "Refund", "Voice"]
    assert (len(by_both), nothing) == (2, ["Voice"])


async def test_what_is_relevant_is_placed_where_our_tools_cannot_be_registered(
    gateway: Client, upstream: Upstream
) -> None:
    _, names = await ask_and_list_injected(gateway, upstream, tool_choice="none", tools=[])
    assert (names, catalogue(upstream.requests[0])) == (["Voice", "Password"], [])


async def test_picks_take_only_the_room_that_is_left(gateway: Client, upstream: Upstream) -> None:
    _, names = await ask_and_list_injected(gateway, upstream, context={"budget": 70})
    assert (names, catalogue(upstream.requests[0])) == (["Voice"], [])


@pytest.mark.parametrize("context", [{"inject": "off"}, {"exclude": ["help/password"]}])
async def test_what_the_caller_does_not_want_is_not_placed(
    gateway: Client, upstream: Upstream, context: dict[str, Any]
) -> None:
    upstream.will(say("Done."))
    await gateway.chat(ASKED, agent="helper", context=context)
    assert PASSWORD not in upstream.bodies[0].decode()


async def test_a_list_with_a_query_is_ranked_by_meaning(gateway: Client, upstream: Upstream) -> None:
    upstream.will(call("list_context_resources", query="I cannot sign in any more"), say("Done."))
    await gateway.chat(WEATHER, agent="helper")
    result = orjson.loads(upstream.requests[1]["messages"][-1]["content"])
    assert result["resources"][0]["id"] == "help/password"


async def test_a_fetch_with_a_query_gives_the_passages_that_answer_it(gateway: Client, upstream: Upstream) -> None:
    query = "What does the coat of a zebra look like?"
    upstream.will(call("get_context_resource", resource_id="help/animals", query=query), say("Done."))
    await gateway.chat(WEATHER, agent="helper")
    result = upstream.requests[1]["messages"][-1]["content"]
    assert "black and white stripes" in result[:2000]


async def test_a_selection_is_remembered_by_question_scope_and_settings(
    gateway: Client, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[Query] = []
    engine = gateway.app.semantic
    assert engine is not None
    find = engine.find

    async def counting(workspace: str, query: Query, *rest: Any) -> SearchResult:
        searches.append(query)
        return await find(workspace, query, *rest)

    monkeypatch.setattr(engine, "find", counting)
    first = [await ask_and_list_injected(gateway, upstream, "Where is my refund for the parcel?") for _ in range(3)]
    assert (len(searches), len({tuple(names) for _, names in first})) == (1, 1)
    await ask_and_list_injected(gateway, upstream, "Where is my refund for the parcel?", agent="eager")
    await ask_and_list_injected(gateway, upstream, "Where is my refund for the box?")
    await ask_and_list_injected(
        gateway, upstream, "Where is my refund for the parcel?", context={"selection": {"preset": "conservative"}}
    )
    assert len(searches) == 4


def cached(gateway: Client, what: str) -> dict[str, float]:
    shown = gateway.app.metrics.render().decode()
    lines = (line for line in shown.splitlines() if line.startswith(f"gateway_{what}_cache_total{{"))
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


async def test_both_caches_show_in_the_metrics(gateway: Client, upstream: Upstream) -> None:
    before = {what: cached(gateway, what) for what in ("selection", "vector")}
    # Another scope: the selection is not remembered, the vector is. The same again: not even the vector is looked up.
    for agent in ("helper", "eager", "eager", "eager"):
        await ask_and_list_injected(gateway, upstream, "Is there a discount for large orders?", agent=agent)

    def since(what: str) -> dict[str, float]:
        return {name: count - before[what].get(name, 0) for name, count in cached(gateway, what).items()}

    assert (since("selection"), since("vector")) == ({"hit": 2, "miss": 2}, {"hit": 1, "miss": 1})


async def test_a_question_that_stands_alone_is_known_whatever_was_said_before(
    gateway: Client, upstream: Upstream
) -> None:
    asked = "How long does it take until a refund for a parcel arrives?"
    before = cached(gateway, "selection")
    for earlier in ("Hello there!", "What about the weather in Lisbon today?"):
        turns = [{"role": "user", "content": earlier}, {"role": "assistant", "content": "Yes?"}]
        await ask_and_list_injected(gateway, upstream, [*turns, {"role": "user", "content": asked}])
    after = cached(gateway, "selection")
    assert (after["hit"] - before["hit"], after["miss"] - before["miss"]) == (1, 1)


async def test_agents_without_semantic_resources_search_nothing(gateway: Client, upstream: Upstream) -> None:
    before = dict(gateway.app.semantic.cache_counts if gateway.app.semantic else {})
    _, names = await ask_and_list_injected(gateway, upstream, "Something never asked before, honestly", agent="kind")
    assert names == ["Kind"]
    assert gateway.app.semantic is not None
    assert gateway.app.semantic.cache_counts == before


async def test_the_same_words_in_any_number_of_requests_give_the_same_bytes(
    gateway: Client, upstream: Upstream
) -> None:
    upstream.will(*[say("Done.")] * 8)
    await asyncio.gather(*(gateway.chat(f"{ASKED} {INVOICE}", agent="helper") for _ in range(8)))
    assert len(set(upstream.bodies)) == 1
