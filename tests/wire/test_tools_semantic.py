"""Tools that a question brings: of servers, of the client's own list, and of what another tool answered."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import orjson
import pytest

from tests.support.contract_policies import text
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.semantic_gateway import (
    Embeddings,
    run_indexing,
    running_embeddings,
    wait_until_indexed,
    write_cosine_calibration,
)
from tests.support.tool_gateway import connected, run_server, server, wait_for_tool
from tests.support.upstream import Upstream, call, say, tool_call
from tests.wire.test_tools import names, read_receipt


def make_files() -> dict[str, Any]:
    """A new object each time: policy files have no anchors."""
    allow = ["echo", "read_file", "write_file", "weather"]
    return server(mode="semantic", data={"allow": allow, "tools": {"echo": {"mode": "always"}}})


RULED = server(data={"allow": ["weather", "fail"], "tools": {
    "weather": {"mode": "semantic", "brings": ["fail"]}, "fail": {"mode": "manual"},
}})  # fmt: skip
POLICIES: dict[str, Any] = {
    "contexts": {
        "ops": {"resources": {"files": make_files()}},
        "ruled": {"resources": {"files": RULED}},
        "mixed": {
            "resources": {
                "files": make_files(),
                "parcels": text("We refund a damaged parcel.", name="Parcels", mode="semantic", description="parcel"),
            }
        },
    },
    "agents": {
        "helper": {"contexts": ["ops"]},
        "ruled": {"contexts": ["ruled"]},
        "expanding": {"contexts": ["mixed"], "tool_expansion": 1},
        "plain": {"contexts": ["mixed"]},
        "narrow": {"inject": False, "client_tools": {"narrow": 3, "keep": ["submit_*"]}},
    },
}
WEATHER_ASKED = "What is the weather forecast for the city tomorrow?"


@pytest.fixture(scope="module")
def embeddings(thread: Thread) -> Iterator[Embeddings]:
    with running_embeddings(thread) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def gateway(
    thread: Thread, scripted: Upstream, embeddings: Embeddings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("semantic-tools")
    calibration = write_cosine_calibration(directory)
    semantic = {"enabled": True, "milliseconds": 2000, "embedder": embeddings.settings, "calibration": calibration}
    with ExitStack() as stack:
        started = running_gateway(
            thread,
            directory,
            scripted.base_url,
            policies=POLICIES,
            semantic=semantic,
            tool_servers={"files": run_server()},
        )
        client = stack.enter_context(started)
        stack.enter_context(connected(client))
        stack.enter_context(run_indexing(client))
        wait_for_tool(client, "mixed/files.echo")
        wait_until_indexed(client)
        yield client


async def ask(gateway: Client, upstream: Upstream, asked: str, **said: Any) -> list[str]:
    upstream.will(say("Done."))
    answered = await gateway.chat(asked, **{"agent": "helper", **said})
    assert answered.status == 200, answered.text
    return names(upstream.requests[-1])


async def test_semantic_tools_come_only_with_a_question_that_they_suit(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, WEATHER_ASKED) == ["files__echo", "files__weather"]
    about_files = await ask(gateway, upstream, "Read the contents of the file")
    assert about_files == ["files__echo", "files__read_file", "files__write_file"]
    assert await ask(gateway, upstream, "Hello there, how are you doing?") == ["files__echo"]


def test_tools_are_indexed_by_name_and_description_and_nothing_else(gateway: Client, embeddings: Embeddings) -> None:
    assert "files.weather: The weather forecast of a city for tomorrow" in embeddings.texts
    assert not any("properties" in one for one in embeddings.texts)
    assert not any("echo" in one for one in embeddings.texts if ":" in one), "what is always there is not searched"


async def test_the_receipt_says_why_a_tool_came(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    receipt = await read_receipt(gateway, await gateway.chat(WEATHER_ASKED, agent="helper"))
    item = next(one for one in receipt["selection"]["injected"] if one["id"] == "ops/files.weather")
    assert (item["via"], item["mode"]) == ("semantic", "semantic")
    assert item["score"] > 0.5
    assert item["why"].startswith("relevant with probability")


async def test_a_rule_holds_for_tools_that_a_question_brings(gateway: Client, upstream: Upstream) -> None:
    assert await ask(gateway, upstream, WEATHER_ASKED, agent="ruled") == ["files__weather", "files__fail"]
    assert await ask(gateway, upstream, "Hello there, how are you?", agent="ruled") == []


async def test_a_result_may_bring_texts_and_tools_for_the_next_turn(
    gateway: Client, upstream: Upstream, stream: bool
) -> None:
    said = "The weather forecast of the city for tomorrow. We refund a damaged parcel."
    # What a tool of a server calls its argument is no resource that was fetched.
    upstream.will(call("files__echo", text=said), call("files__weather", resource_id="mixed/parcels"), say("Done."))
    answered = await gateway.chat("Hello there, how are you?", agent="expanding", stream=stream)
    assert answered.text == "Done."
    before, after, last = upstream.requests[-3:]
    assert "files__weather" not in names(before)
    assert "files__weather" in names(after)
    assert after["messages"][-1]["content"] == f"echo: {said}\n\n[Parcels]\nWe refund a damaged parcel."
    assert last["messages"][-1]["content"] == "weather was called"
    receipt = await read_receipt(gateway, answered)
    assert {one["id"] for one in receipt["expanded"]} == {"mixed/files.weather", "mixed/parcels"}
    assert {one["via"] for one in receipt["expanded"]} == {"tool_result"}
    ran = [(one["name"], one["resource"], one["server"], one["left_out"]) for one in receipt["tools"]]
    echo = ("files__echo", "mixed/files.echo", "mixed/files", None)
    assert ran == [echo, ("files__weather", "mixed/files.weather", "mixed/files", None)]


async def test_results_bring_nothing_unless_the_agent_wants_it(gateway: Client, upstream: Upstream) -> None:
    upstream.will(call("files__echo", text=WEATHER_ASKED), say("Done."))
    await gateway.chat("Hello there, how are you?", agent="plain")
    before, after = upstream.requests[-2:]
    assert names(before) == names(after)


def make_tool(name: str, description: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "x-odd": 1.0}}


OWN_LIST = [
    make_tool("paint", "Paint a picture of something"),
    make_tool("submit_form", "Send the form"),
    make_tool("forecast", "The weather forecast of a city"),
    make_tool("sing", "Sing a song"),
    make_tool("dance", "Dance a waltz"),
    make_tool("tomorrow", "What the city will do tomorrow"),
]


async def test_a_clients_long_list_is_narrowed_in_its_order_and_with_its_bytes(
    gateway: Client, upstream: Upstream, stream: bool
) -> None:
    upstream.will(say("Done."))
    answered = await gateway.chat(WEATHER_ASKED, agent="narrow", tools=OWN_LIST, stream=stream)
    assert upstream.requests[-1]["tools"] == [OWN_LIST[1], OWN_LIST[2], OWN_LIST[5]]
    receipt = await read_receipt(gateway, answered)
    assert receipt["client_tools"] == {"omitted": 3, "names": ["paint", "sing", "dance"]}


async def test_what_the_history_or_the_choice_names_always_stays(gateway: Client, upstream: Upstream) -> None:
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Sing!"},
        {"role": "assistant", "content": None, "tool_calls": [tool_call("sing", "c1")]},
        {"role": "tool", "tool_call_id": "c1", "content": "la"},
        {"role": "user", "content": WEATHER_ASKED},
    ]
    choice = {"type": "function", "function": {"name": "dance"}}
    upstream.will(say("Done."))
    await gateway.chat(history, agent="narrow", tools=OWN_LIST, tool_choice=choice)
    assert names(upstream.requests[-1]) == ["submit_form", "sing", "dance"]


async def test_a_list_within_the_limit_is_relayed_as_it_is(gateway: Client, upstream: Upstream) -> None:
    body = orjson.dumps(
        {"model": "m-large", "messages": [{"role": "user", "content": WEATHER_ASKED}], "tools": OWN_LIST[:3]}
    )
    upstream.will(say("Done."))
    await gateway.post(body, x_context_agent="narrow")
    assert upstream.seen[-1].body == body


async def test_where_nothing_can_be_compared_all_tools_are_sent(
    gateway: Client, upstream: Upstream, embeddings: Embeddings
) -> None:
    embeddings.fault = "fails"
    try:
        upstream.will(say("Done."))
        answered = await gateway.chat("Something quite different is asked now.", agent="narrow", tools=OWN_LIST)
    finally:
        embeddings.fault = ""
    assert upstream.requests[-1]["tools"] == OWN_LIST
    assert answered.headers["x-context-degraded"] == "semantic"
