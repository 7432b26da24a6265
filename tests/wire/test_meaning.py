"""What is found by meaning alone goes upstream, except what the caller may not read: entities and retrievers."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.gateway import Client, Thread, running_gateway
from tests.support.knowledge_graph import list_system_text, make_key
from tests.support.search_server import SearchServer
from tests.support.semantic_gateway import run_indexing, wait_until_indexed
from tests.support.tool_gateway import connected
from tests.support.upstream import Upstream, say

MONEY = "Will I be reimbursed if my parcel arrives damaged?"  # no word of it is in what it is about
REFUNDED = "How does the money for broken goods go back to me?"
WEATHER = "Will it rain in Lisbon tomorrow morning?"
ENTITIES: dict[str, Any] = {
    "refund": {"type": "Term", "name": "Refund", "properties": {"meaning": "Money goes back for broken goods"}},
    "goodwill": {
        "type": "Term",
        "name": "Goodwill refund",
        "properties": {"meaning": "Money goes back for broken goods without a receipt"},
        "readers": ["group:staff"],
    },
    "lamp": {"type": "Product", "name": "Lumo lamp", "properties": {"colour": "red"}},
}
ABOUT = "Refunds: how money goes back to customers for broken goods"


def make_policies(address: str) -> dict[str, Any]:
    def describe(readers: list[str]) -> dict[str, Any]:
        data = {"url": f"{address}/search", "seconds": 5, "cache_seconds": 0}
        said = {"name": "Handbook", "description": ABOUT, "mode": "semantic", "readers": readers, "data": data}
        return {"resources": {"handbook": {"type": "retriever", **said}}}

    return {
        "contexts": {"open": describe([]), "private": describe(["group:staff"])},
        "agents": {
            "open": {"contexts": ["open"]},
            "private": {"contexts": ["private"]},
            "graph": {"inject": True},
            "words": {"inject": True, "collectors": {"knowledge": {"semantic": False}}},
        },
        "knowledge": {"entities": ENTITIES},
    }


@pytest.fixture(scope="module")
def gateway(
    thread: Thread, scripted: Upstream, served: SearchServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """A gateway with the real model, and more time than usual: machines are busy."""
    keys = [make_key("one", tier="teams"), make_key("staff", tier="teams", groups=["staff"])]
    started = running_gateway(
        thread,
        tmp_path_factory.mktemp("meaning"),
        scripted.base_url,
        policies=make_policies(served.address),
        auth={"keys": keys},
        links={"allow": ["127.0.0.1"]},
        semantic={"enabled": True, "milliseconds": 10_000},
        limits={"collect_milliseconds": 20_000, "drain_seconds": 1},
    )
    with started as client, connected(client), run_indexing(client):
        wait_until_indexed(client)
        assert client.app.semantic is not None
        scripted.will(say("Done."))  # whoever asks first has the entities embedded
        client.thread.run(client.chat(MONEY, agent="graph", key="one"))
        client.thread.run(asyncio.wait_for(client.app.semantic.documents.wait_until_indexed(), 60))
        yield client


async def ask(gateway: Client, upstream: Upstream, agent: str, question: str = MONEY, key: str = "one") -> None:
    upstream.will(say("Done."))
    answered = await gateway.chat(question, agent=agent, key=key)
    assert answered.status == 200, answered.text
    assert "x-context-degraded" not in answered.headers


async def test_an_entity_is_found_that_shares_no_word_with_the_question(gateway: Client, upstream: Upstream) -> None:
    await ask(gateway, upstream, "graph")
    system = list_system_text(upstream.requests[-1])
    assert "name: Refund\n" in system
    assert "Lumo lamp" not in system
    await ask(gateway, upstream, "words")
    assert "Refund" not in list_system_text(upstream.requests[-1])
    await ask(gateway, upstream, "graph", WEATHER)
    assert "Refund" not in list_system_text(upstream.requests[-1])


async def test_an_entity_is_found_by_meaning_only_by_those_who_may_read_it(gateway: Client, upstream: Upstream) -> None:
    shown = {}
    for key in ("one", "staff"):
        await ask(gateway, upstream, "graph", key=key)
        shown[key] = "Goodwill refund" in list_system_text(upstream.requests[-1])
    assert shown == {"one": False, "staff": True}


async def test_a_semantic_retriever_is_asked_when_its_description_matches(
    gateway: Client, upstream: Upstream, search: SearchServer
) -> None:
    await ask(gateway, upstream, "open", REFUNDED)
    assert [call.asked for call in search.calls] == [{"query": REFUNDED, "limit": 5}]
    system = list_system_text(upstream.requests[-1])
    assert "[Refunds] [passage]\nHandbook, source: handbook/refunds.md\nRefunds take five days." in system


async def test_a_semantic_retriever_is_not_asked_about_something_else(
    gateway: Client, upstream: Upstream, search: SearchServer
) -> None:
    await ask(gateway, upstream, "open", WEATHER)
    assert search.calls == []
    assert "Refunds take" not in list_system_text(upstream.requests[-1])


async def test_a_semantic_retriever_is_asked_only_for_those_who_may_read_it(
    gateway: Client, upstream: Upstream, search: SearchServer
) -> None:
    await ask(gateway, upstream, "private", REFUNDED)
    assert search.calls == []
    assert "Refunds take" not in list_system_text(upstream.requests[-1])
    await ask(gateway, upstream, "private", REFUNDED, key="staff")
    assert len(search.calls) == 1
    assert "Refunds take" in list_system_text(upstream.requests[-1])
