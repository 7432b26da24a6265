"""CONTRACT §6: one budget, a strict prefix, nothing lost."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from gateway.tokens import BpeCounter
from tests.support.contract_policies import BODY, about, ask, names_in, text
from tests.support.gateway import Client, ClientReply, Thread, running_gateway
from tests.support.upstream import Upstream, say

SENTENCE = "Every answer names its source and says how old it is. "  # 12 tokens
LONG = SENTENCE * 90  # of a budget, always resources have three quarters as long as there is something to fetch
POLICIES: dict[str, Any] = {
    "contexts": {
        "three": {
            "resources": {
                "last": text(LONG, name="Last", priority=200),
                "first": text(LONG, name="First"),
                "second": text(LONG, name="Second"),
            }
        },
        "fixed": {
            "resources": {
                "loose": text(SENTENCE, name="Loose"),
                "must": text(SENTENCE * 10, name="Must", required=True),
            }
        },
        "cut": {"resources": {"quote": text("As the author says: [...]", name="Quote")}},
        "many": {
            "resources": {
                f"r{number}": text(SENTENCE, mode="on_demand", name=f"R{number}", description=SENTENCE * 2)
                for number in range(20)
            }
        },
    },
    "profiles": {"thrifty": {"budget": {"total": 1500}}},
    "agents": {
        "free": {"contexts": ["three"]},
        "bounded": {"contexts": ["three"], "budget": {"total": 1500, "max": 2800}},
        "thrifty": {"contexts": ["three"], "profile": "thrifty"},
        "fixed": {"contexts": ["fixed"]},
        "many": {"contexts": ["many"]},
        "cut": {"contexts": ["cut"]},
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
    answer, request = await asked(house, upstream, agent="free", budget="1500")
    assert (names_in(request), catalogue(request)) == (["First"], ["Second", "Last"])
    assert (answer.headers["x-context-injected"], len(request["tools"])) == ("1", 2)


async def test_the_first_that_does_not_fit_is_truncated_if_50_tokens_remain(house: Client, upstream: Upstream) -> None:
    _, request = await asked(house, upstream, agent="free", budget="2000")
    assert (names_in(request), catalogue(request)) == (["First", "Second"], ["Second", "Last"])
    assert "[…]" in request["messages"][0]["content"]


async def test_a_budget_of_zero_adds_nothing(house: Client, upstream: Upstream) -> None:
    answer, request = await asked(house, upstream, agent="free", budget="0")
    assert request["messages"] == BODY["messages"]
    assert "tools" not in request
    assert (answer.headers["x-context-injected"], answer.headers["x-context-tokens"]) == ("0", "0")


async def test_the_first_of_header_agent_and_profile_counts(house: Client, upstream: Upstream) -> None:
    for said, names in (
        ({"agent": "bounded"}, ["First"]),
        ({"agent": "thrifty"}, ["First"]),
        ({"agent": "bounded", "budget": "0"}, []),
        ({"agent": "thrifty", "budget": "4000"}, ["First", "Second", "Last"]),
    ):
        _, request = await asked(house, upstream, **said)
        assert names_in(request) == names


async def test_the_header_is_held_to_the_agents_maximum(house: Client, upstream: Upstream) -> None:
    _, request = await asked(house, upstream, agent="bounded", budget="99999999999999999999999")
    assert names_in(request) == ["First", "Second"]


async def test_required_resources_are_never_degraded(house: Client, upstream: Upstream) -> None:
    _, request = await asked(house, upstream, agent="fixed", budget="20")
    assert names_in(request) == ["Must"]
    assert "tools" not in request


async def test_a_larger_budget_never_drops_a_kept_item(house: Client, upstream: Upstream) -> None:
    kept: set[str] = set()
    for budget in range(0, 4000, 173):
        _, request = await asked(house, upstream, agent="free", budget=str(budget))
        now = set(names_in(request))
        assert kept <= now
        kept = now
        tokens = house.app.counter.count(str(request["messages"][0]["content"]), "gpt-4o")
        tokens += sum(house.app.counter.count(orjson.dumps(one).decode(), "gpt-4o") for one in request.get("tools", []))
        assert tokens <= max(budget, 1), "the user's own word is all that is left of a budget of 0"
    assert kept == {"First", "Second", "Last"}


async def test_tokens_count_blocks_and_tool_schemas(house: Client, upstream: Upstream) -> None:
    def tokens(answer: ClientReply) -> int:
        return int(answer.headers["x-context-tokens"])

    def count(one: Any) -> int:
        return house.app.counter.count(one if isinstance(one, str) else orjson.dumps(one).decode(), "gpt-4o")

    for said in ({"agent": "free"}, {"agent": "free", "budget": "2000"}, {"agent": "many"}):
        answer, request = await asked(house, upstream, **said)
        assert tokens(answer) == sum(map(count, [request["messages"][0]["content"], *request.get("tools", [])]))


async def test_the_catalogue_gives_up_descriptions_then_entries_then_all_but_one_line(
    house: Client, upstream: Upstream
) -> None:
    seen: list[tuple[int, int]] = []
    for budget in range(0, 2000, 50):
        answer, request = await asked(house, upstream, agent="many", budget=str(budget))
        assert int(answer.headers["x-context-tokens"]) <= budget
        lines = request["messages"][0]["content"].split("\n")
        entries = sum(line.startswith("- **") for line in lines)
        described = sum(line.startswith("  Every") for line in lines)
        assert described == 0 or entries == 20, "entries go only when all descriptions are gone"
        if "tools" in request:
            assert entries == 20 or f"{20 - entries} more: list_context_resources finds them." in lines
        seen.append((entries, described))
    assert seen == sorted(seen), "a larger budget never hides anything"
    assert (seen[0], seen[-1]) == ((0, 0), (20, 20))
    assert any(0 < entries < 20 for entries, _ in seen)
    assert any(0 < described < 20 for _, described in seen)


async def test_the_clients_history_is_never_trimmed(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    history = [{"role": "user", "content": SENTENCE * 500}, {"role": "assistant", "content": "x"}] * 3
    await ask(house, about(agent="free", budget="10"), {"model": "gpt-4o", "messages": history})
    assert upstream.requests[0]["messages"] == history


async def test_the_models_window_is_respected(house: Client, upstream: Upstream) -> None:
    async def send(**fields: Any) -> int:
        upstream.reset()
        upstream.will(say("Done."))
        answer = await ask(house, about(agent="free"), {"model": "gpt-4", "messages": BODY["messages"], **fields})
        return int(answer.headers["x-context-tokens"])

    assert await send() > 3000
    assert 0 < await send(max_tokens=7000) <= 8192 - 7000
    assert await send(max_completion_tokens=8192) == 0
    long = {"role": "user", "content": SENTENCE * 500}
    assert await send(messages=[long], max_tokens=500) <= 8192 - 500 - 6000


async def test_the_reported_tokens_are_those_of_the_system_message(house: Client, upstream: Upstream) -> None:
    answer, request = await asked(house, upstream, agent="cut")
    block = request["messages"][0]["content"]
    assert block.endswith("[...]\n" + block.splitlines()[-1]), "before one line break it has two tokens more"
    assert int(answer.headers["x-context-tokens"]) == BpeCounter().count(block, "gpt-4o")
    alone, _ = await asked(house, upstream, agent="cut", budget=answer.headers["x-context-tokens"])
    assert alone.headers["x-context-tokens"] == answer.headers["x-context-tokens"], "what fits exactly is placed"
