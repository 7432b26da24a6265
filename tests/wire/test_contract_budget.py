"""CONTRACT §6: one budget, a strict prefix, nothing lost."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.contract_policies import BODY, about, ask, names_in, text
from tests.support.gateway import Client, ClientReply, Thread, running_gateway
from tests.support.upstream import Upstream, say

SENTENCE = "Every answer names its source and says how old it is. "  # 12 tokens
POLICIES: dict[str, Any] = {
    "contexts": {
        "three": {
            "resources": {
                "last": text(SENTENCE * 10, name="Last", priority=200),
                "first": text(SENTENCE * 10, name="First"),
                "second": text(SENTENCE * 10, name="Second"),
            }
        },
        "fixed": {
            "resources": {
                "loose": text(SENTENCE, name="Loose"),
                "must": text(SENTENCE * 10, name="Must", required=True),
            }
        },
    },
    "profiles": {"thrifty": {"budget": {"total": 150}}},
    "agents": {
        "free": {"contexts": ["three"]},
        "bounded": {"contexts": ["three"], "budget": {"total": 150, "max": 280}},
        "thrifty": {"contexts": ["three"], "profile": "thrifty"},
        "fixed": {"contexts": ["fixed"]},
    },
}


@pytest.fixture(scope="module")
def house(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_gateway(thread, tmp_path_factory.mktemp("budget"), scripted.base_url, POLICIES) as client:
        yield client


async def asked(house: Client, upstream: Upstream, **said: str) -> tuple[ClientReply, dict[str, Any]]:
    upstream.reset()
    upstream.will(say("Done."))
    answer = await ask(house, about(**said), BODY | {"model": "gpt-4o"})
    return answer, upstream.requests[0]


def catalogue(request: dict[str, Any]) -> list[str]:
    lines = request["messages"][0]["content"].split("\n")
    return [line.split("**")[1] for line in lines if line.startswith("- **")]


async def test_a_lower_priority_number_comes_first(house: Client, upstream: Upstream) -> None:
    answer, request = await asked(house, upstream, agent="free")
    assert names_in(request) == ["First", "Second", "Last"]
    assert (catalogue(request), answer.headers["x-context-injected"]) == ([], "3")
    assert "tools" not in request


async def test_what_does_not_fit_and_everything_below_it_is_offered(house: Client, upstream: Upstream) -> None:
    answer, request = await asked(house, upstream, agent="free", budget="150")
    assert (names_in(request), catalogue(request)) == (["First"], ["Second", "Last"])
    assert (answer.headers["x-context-injected"], len(request["tools"])) == ("1", 2)


async def test_the_first_that_does_not_fit_is_truncated_if_50_tokens_remain(house: Client, upstream: Upstream) -> None:
    _, request = await asked(house, upstream, agent="free", budget="190")
    assert (names_in(request), catalogue(request)) == (["First", "Second"], ["Second", "Last"])
    assert "[…]" in request["messages"][0]["content"]


async def test_a_budget_of_zero_places_nothing(house: Client, upstream: Upstream) -> None:
    answer, request = await asked(house, upstream, agent="free", budget="0")
    assert (names_in(request), catalogue(request)) == ([], ["First", "Second", "Last"])
    assert answer.headers["x-context-injected"] == "0"


async def test_the_first_of_header_agent_and_profile_counts(house: Client, upstream: Upstream) -> None:
    for said, names in (
        ({"agent": "bounded"}, ["First"]),
        ({"agent": "thrifty"}, ["First"]),
        ({"agent": "bounded", "budget": "0"}, []),
        ({"agent": "thrifty", "budget": "1000"}, ["First", "Second", "Last"]),
    ):
        _, request = await asked(house, upstream, **said)
        assert names_in(request) == names


async def test_the_header_is_held_to_the_agents_maximum(house: Client, upstream: Upstream) -> None:
    _, request = await asked(house, upstream, agent="bounded", budget="99999999999999999999999")
    assert names_in(request) == ["First", "Second"]


async def test_required_resources_are_never_degraded(house: Client, upstream: Upstream) -> None:
    _, request = await asked(house, upstream, agent="fixed", budget="20")
    assert (names_in(request), catalogue(request)) == (["Must"], ["Loose"])


async def test_a_larger_budget_never_drops_a_kept_item(house: Client, upstream: Upstream) -> None:
    kept: set[str] = set()
    for budget in range(0, 500, 35):
        _, request = await asked(house, upstream, agent="free", budget=str(budget))
        now = set(names_in(request))
        assert kept <= now
        kept = now
    assert kept == {"First", "Second", "Last"}


async def test_tokens_count_blocks_and_tool_schemas(house: Client, upstream: Upstream) -> None:
    def tokens(answer: ClientReply) -> int:
        return int(answer.headers["x-context-tokens"])

    everything, _ = await asked(house, upstream, agent="free")
    offered, request = await asked(house, upstream, agent="free", budget="0")
    count = house.app.counter.count
    assert tokens(everything) == count(
        (await asked(house, upstream, agent="free"))[1]["messages"][0]["content"], "gpt-4o"
    )
    assert tokens(offered) > count(request["messages"][0]["content"], "gpt-4o")


async def test_the_clients_history_is_never_trimmed(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    history = [{"role": "user", "content": SENTENCE * 500}, {"role": "assistant", "content": "x"}] * 3
    await ask(house, about(agent="free", budget="10"), {"model": "gpt-4o", "messages": history})
    assert upstream.requests[0]["messages"][1:] == history
