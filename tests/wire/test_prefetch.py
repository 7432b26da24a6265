"""Where the gateway's tools cannot be called, a search brings what they would have fetched."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.contract_policies import system_text, text
from tests.support.gateway import WEATHER, Client, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.semantic_gateway import ASKED, INVOICE, PASSWORD, run_indexing, wait_until_indexed
from tests.support.upstream import Upstream, call, say

POLICIES: dict[str, Any] = {
    "contexts": {
        "guides": {
            "resources": {
                "voice": text("Write plainly.", name="Voice"),
                "password": text(PASSWORD, name="Password", mode="on_demand", description="What to do about passwords"),
                "invoice": text(INVOICE, name="Invoice", mode="on_demand", description="Where invoices are"),
                "secret": text(PASSWORD, name="Secret", mode="on_demand", readers=["group:board"]),
            }
        }
    },
    "agents": {"helper": {"contexts": ["guides"]}},
}
NAMED = {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}


@pytest.fixture(scope="module")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    semantic = {"enabled": True, "milliseconds": 5000}
    directory = tmp_path_factory.mktemp("prefetch")
    started = running_gateway(thread, directory, scripted.base_url, policies=POLICIES, semantic=semantic)
    with started as client, run_indexing(client):
        scripted.reset()
        scripted.will(say("Done."))
        # Nothing here is semantic, so that the model is not loaded before somebody needs it.
        thread.run(client.chat(ASKED, agent="helper", **NAMED))
        wait_until_indexed(client)
        yield client


@pytest.mark.parametrize(
    "said",
    [
        NAMED,
        {"tools": [WEATHER], "tool_choice": "none"},
        {"n": 2},
        {"functions": [WEATHER["function"]]},
        {"prediction": {"type": "content", "content": "x"}},
    ],
    ids=["named", "none", "n", "functions", "prediction"],
)
async def test_what_is_on_demand_comes_by_search(gateway: Client, upstream: Upstream, said: dict[str, Any]) -> None:
    upstream.will(say("Done."))
    reply = await gateway.chat(ASKED, agent="helper", **said)
    sent = system_text(upstream.requests[0])
    assert PASSWORD in sent
    assert INVOICE not in sent
    assert "Available Reference Materials" not in sent
    assert upstream.requests[0].get("tools") == said.get("tools")
    assert reply.headers["x-context-injected"] == "2"


async def test_a_named_tool_streams_as_before(gateway: Client, upstream: Upstream) -> None:
    upstream.will(call("get_weather", city="Oslo"))
    reply = await gateway.chat(ASKED, agent="helper", stream=True, **NAMED)
    assert reply.tool_calls == [("get_weather", {"city": "Oslo"})]
    assert PASSWORD in system_text(upstream.requests[0])


async def test_where_the_tools_can_be_called_nothing_is_fetched_ahead(gateway: Client, upstream: Upstream) -> None:
    for said in ({}, {"tools": [WEATHER]}, {"tools": [WEATHER], "tool_choice": "required"}):
        upstream.will(call("get_weather", city="Oslo") if "tool_choice" in said else say("Done."))
        await gateway.chat(ASKED, agent="helper", **said)
        sent = system_text(upstream.requests[-1])
        assert PASSWORD not in sent
        assert "(ID: guides/password)" in sent


async def test_the_account_says_how_it_came_in_and_why_the_rest_did_not(gateway: Client) -> None:
    request = {"model": "m-large", "messages": [{"role": "user", "content": ASKED}], **NAMED}
    shown = (await manage(gateway, "POST", "/resolve", {"context": {"agent": "helper"}, "request": request})).json
    injected = {one["id"]: one for one in shown["selection"]["injected"]}
    assert (injected["guides/password"]["via"], injected["guides/password"]["mode"]) == ("prefetch", "on_demand")
    assert injected["guides/password"]["score"] >= 0.5
    assert "the tools cannot be called" in injected["guides/password"]["why"]
    assert [(one["id"], one["reason"]) for one in shown["selection"]["dropped"]] == [("guides/invoice", "no_tools")]
    assert shown["tokens"]["by_category"]["semantic"] == injected["guides/password"]["tokens"]


async def test_it_stays_within_the_budget(gateway: Client) -> None:
    request = {"model": "m-large", "messages": [{"role": "user", "content": ASKED}], **NAMED}
    for budget in (0, 20, 60):
        context = {"agent": "helper", "budget": budget}
        shown = (await manage(gateway, "POST", "/resolve", {"context": context, "request": request})).json
        assert shown["tokens"]["total"] <= budget
    switched_off = {"agent": "helper", "selection": {"enabled": False}}
    shown = (await manage(gateway, "POST", "/resolve", {"context": switched_off, "request": request})).json
    assert [one["id"] for one in shown["selection"]["injected"]] == ["guides/voice"]


async def test_a_question_about_something_else_brings_nothing(gateway: Client, upstream: Upstream) -> None:
    upstream.will(call("get_weather", city="Lisbon"))
    await gateway.chat("Will it rain in Lisbon tomorrow morning?", agent="helper", **NAMED)
    assert PASSWORD not in system_text(upstream.requests[0])
