"""Tools and texts are chosen apart, and whose thresholds hold: a whole gateway to which words are meaning."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.contract_policies import text
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.semantic_gateway import (
    ask_and_list_injected,
    run_indexing,
    running_embeddings,
    wait_until_indexed,
    write_cosine_calibration,
)
from tests.support.upstream import Upstream

ASKED = "alpha beta gamma delta epsilon zeta"
# The cosines with the question are those of the words they share: .71, .58 and .5.
NEAR, MIDDLE, FAR = "alpha beta gamma", "alpha beta", "alpha beta gamma one two three"


def found(words: str, **more: Any) -> dict[str, Any]:
    return text(words, name=words, mode="semantic", **more)


def callable_(words: str) -> dict[str, Any]:
    """A tool that is found by these words."""
    first, _, others = words.partition(" ")
    data = {"url": "https://example.com/"}
    return {"type": "http-tool", "name": first, "description": others, "mode": "semantic", "data": data}


RESOURCES: dict[str, Any] = {
    "near": found(NEAR),
    "middle": found(MIDDLE),
    "far": found(FAR),
    "near-tool": callable_(f"{NEAR} tool"),
    "far-tool": callable_(f"{FAR} tool"),
}
TOOLS = {"near-tool", "far-tool"}
POLICIES: dict[str, Any] = {
    "contexts": {"all": {"resources": RESOURCES}},
    "agents": {
        "plain": {"contexts": ["all"]},
        "picky": {
            "contexts": ["all"],
            "selection": {"include_score": 1.0, "min_score": 0.0, "top_n": 2, "kinds": {"tool": {"top_n": 1}}},
        },
        "closed": {"contexts": ["all"], "selection": {"include_score": 1.0, "min_score": 1.0}},
    },
}


@pytest.fixture(scope="module")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("domains")
    with running_embeddings(thread) as endpoint:
        calibration = write_cosine_calibration(directory)
        semantic = {
            "enabled": True, "milliseconds": 5000, "embedder": endpoint.settings, "calibration": calibration,
        }  # fmt: skip
        started = running_gateway(thread, directory, scripted.base_url, policies=POLICIES, semantic=semantic)
        with started as client, run_indexing(client):
            wait_until_indexed(client)
            yield client


async def placed(gateway: Client, upstream: Upstream, agent: str, **selection: Any) -> tuple[int, int]:
    """How many texts and how many tools a question got."""
    more = {"context": {"selection": selection}} if selection else {}
    _, names = await ask_and_list_injected(gateway, upstream, ASKED, agent=agent, **more)
    offered = {tool["function"]["name"] for tool in upstream.requests[-1].get("tools", ())}
    return len(set(names)), len(offered & TOOLS)


async def test_everything_near_is_placed_where_nobody_says_otherwise(gateway: Client, upstream: Upstream) -> None:
    assert await placed(gateway, upstream, "plain") == (3, 2)


async def test_an_agent_gives_each_kind_its_own_number(gateway: Client, upstream: Upstream) -> None:
    assert await placed(gateway, upstream, "picky") == (2, 1)


async def test_a_request_goes_before_its_agent_kind_by_kind(gateway: Client, upstream: Upstream) -> None:
    assert await placed(gateway, upstream, "picky", kinds={"tool": {"top_n": 2}}) == (2, 2)
    assert await placed(gateway, upstream, "picky", kinds={"tool": {"top_n": 0}, "reference": {"top_n": 1}}) == (1, 0)


async def test_a_preset_of_the_request_defeats_thresholds_of_its_agent(gateway: Client, upstream: Upstream) -> None:
    assert await placed(gateway, upstream, "closed") == (0, 0)
    assert await placed(gateway, upstream, "closed", top_n=4) == (0, 0)
    assert await placed(gateway, upstream, "closed", preset="normal") == (3, 2)
    assert await placed(gateway, upstream, "picky", preset="normal") == (3, 2)


@pytest.mark.parametrize("kind", ["rule", "toll", ""])
async def test_a_kind_that_there_is_not_is_refused_and_named(gateway: Client, kind: str) -> None:
    answered = await gateway.chat(ASKED, agent="plain", context={"selection": {"kinds": {kind: {"top_n": 1}}}})
    assert answered.status == 400
    assert answered.json["error"]["param"].startswith(f"context.selection.kinds.{kind}")
