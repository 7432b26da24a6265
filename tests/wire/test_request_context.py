"""What is recorded is what was used: the blocks of every outgoing request against the items of its receipt."""

import asyncio
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.contract_policies import TAG, names_in, text
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.semantic_gateway import (
    catalogue,
    run_indexing,
    running_embeddings,
    wait_until_indexed,
    write_cosine_calibration,
)
from tests.support.upstream import Upstream, call, say

WORDS = ("harbour", "bridge", "winter", "keeper", "ferry", "market", "garden", "museum")
MODES = ("always", "semantic", "on_demand", "manual")
BLOCK = re.compile(rf"--- Context \[{TAG}\] ---\n(.*?)(?=\n\n--- Available|\n--- End \[{TAG}\])", re.DOTALL)
STEPS = 40


def marker(context: str, key: str) -> str:
    return f"marker-{context}-{key}."


def make_resources(context: str, drawn: random.Random) -> dict[str, Any]:
    """Resources of every mode, some of them long, each with a sentence that nothing else says."""
    found = {}
    for number, mode in enumerate(MODES * 3):
        words = " ".join(drawn.sample(WORDS, 3) + drawn.sample(WORDS, 2) * drawn.choice((1, 1, 30)))
        found[f"r{number}"] = text(
            f"{marker(context, f'r{number}')} {words}.",
            name=f"{context.title()} {number}",
            mode=mode,
            truncate=drawn.choice(("keep_start", "none")),
        )
    found["must"] = text(marker(context, "must"), name=f"{context.title()} must", mandatory=True)
    return found


def make_policies() -> dict[str, Any]:
    drawn = random.Random(7)
    contexts = {name: {"resources": make_resources(name, drawn)} for name in ("site", "desk", "spare")}
    return {
        "contexts": contexts,
        "agents": {
            "editor": {"contexts": ["desk"], "instructions": "You edit."},
            "turner": {"contexts": ["desk"], "placement": "turn", "selection": {"preset": "aggressive"}},
            "wide": {"contexts": ["desk"], "selection": {"expansion": {"depth": 1, "threshold": 0.2}}},
        },
        "content": {"site": {"title": "Big Site", "contexts": ["site"]}, "other": {"title": "Other Site"}},
    }


POLICIES = make_policies()
IDS = [f"{context}/{key}" for context, one in POLICIES["contexts"].items() for key in one["resources"]]
NAMES = {
    f"{context}/{key}": resource["name"]
    for context, one in POLICIES["contexts"].items()
    for key, resource in one["resources"].items()
}


@pytest.fixture(scope="module")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory: Path = tmp_path_factory.mktemp("recorded")
    with running_embeddings(thread) as embeddings:
        semantic = {
            **{"enabled": True, "embedder": embeddings.settings, "milliseconds": 5000},
            "calibration": write_cosine_calibration(directory),
        }
        started = running_gateway(thread, directory, scripted.base_url, policies=POLICIES, semantic=semantic)
        with started as client, run_indexing(client):
            wait_until_indexed(client)
            assert client.app.pipeline.receipts is not None
            writing = asyncio.run_coroutine_threadsafe(client.app.pipeline.receipts.run(), thread.loop)
            yield client
            writing.cancel()
            with suppress(BaseException):
                writing.result(5)


def draw_request(drawn: random.Random, session: str) -> dict[str, Any]:
    """Any request: who asks, about what, with which items, budget, pins and settings."""

    def some(most: int) -> list[str]:
        return drawn.sample(IDS, drawn.randint(0, most)) if drawn.random() < 0.4 else []

    context: dict[str, Any] = {"session": session, "agent": drawn.choice(("editor", "turner", "wide"))}
    context |= {"pin": some(3), "unpin": some(3), "include": some(2), "exclude": some(3)}
    if drawn.random() < 0.4:
        context["budget"] = drawn.choice((0, 20, 60, 150, 400, 4000))
    if drawn.random() < 0.3:
        context["content"] = drawn.choice(("site", "other"))
    if drawn.random() < 0.2:
        context["items"] = [{"name": f"Note {drawn.random()}", "text": "From the caller."}]
    if drawn.random() < 0.2:
        context["inject"] = drawn.choice(("on", "off"))
    if drawn.random() < 0.2:
        context["selection"] = {"enabled": drawn.random() < 0.5, "expansion": {"depth": drawn.randint(0, 2)}}
    return {"asked": f"Where is the {' '.join(drawn.sample(WORDS, 3))}?", "context": context}


def draw_settings(drawn: random.Random) -> dict[str, Any]:
    return {
        "inject": drawn.choice((None, None, True, False)),
        "budget": drawn.choice((None, 100, 1000)),
        "placement": drawn.choice((None, "system", "turn", "turn_user")),
        "retain": drawn.choice((None, False, "session")),
        "announce": drawn.choice((None, True)),
        "selection": {"top_n": drawn.choice((None, 0, 2, 8)), "preset": drawn.choice((None, "aggressive"))},
    }


async def read_receipt(gateway: Client, identity: str) -> dict[str, Any]:
    for _ in range(400):
        receipt = await manage(gateway, "GET", f"/receipts/{identity}")
        if receipt.status == 200 and receipt.json["status"] == "ok":
            return receipt.json
        await asyncio.sleep(0.01)
    raise AssertionError("the receipt was not written")


def read_texts(request: dict[str, Any]) -> str:
    """All text of a request, as the model reads it, without what tools answered."""
    texts = []
    for message in request["messages"]:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        texts += [part.get("text") or "" for part in parts if message["role"] != "tool"]
    return "\n\n".join(texts)


def find_differences(request: dict[str, Any], receipt: dict[str, Any], headers: dict[str, str]) -> list[str]:
    """What a request says and its receipt does not, and the other way round."""
    texts, selection = read_texts(request), receipt["selection"]
    injected = {one["id"]: one for one in selection["injected"]}
    recorded = [NAMES[identity] for identity in injected] + [one["name"] for one in selection["items"]]
    told = [line[1:-1] for block in BLOCK.findall(texts) for line in block.split("\n") if re.fullmatch(r"\[.*\]", line)]
    wrong = [] if told == recorded else [f"told {told}, recorded {recorded}"]
    if [injected[one]["position"] for one in injected] != list(range(len(injected))):
        wrong.append("positions")
    for identity in IDS:
        here = marker(*identity.split("/")) in texts
        expected = identity in injected
        if here != expected and not (expected and injected[identity]["truncated"]):
            wrong.append(f"{identity}: text {here}, recorded {expected}")
    if catalogue(request) != (selection["catalogue"][:50] if request.get("tools") else []):
        wrong.append(f"catalogue {catalogue(request)}, recorded {selection['catalogue']}")
    counted = (int(headers["x-context-injected"]), int(headers["x-context-tokens"]))
    if counted != (len(injected), receipt["tokens"]["total"]):
        wrong.append(f"headers {counted}")
    return wrong


@pytest.mark.parametrize("seed", range(4))
async def test_the_outgoing_request_holds_what_its_receipt_says_and_nothing_else(
    gateway: Client, upstream: Upstream, seed: int
) -> None:
    drawn = random.Random(seed)
    picked = 0
    for step in range(STEPS):
        session = f"random-{seed}-{drawn.randint(0, 2)}"
        if drawn.random() < 0.2:
            body = {"settings": draw_settings(drawn), "content": drawn.choice((None, "site"))}
            assert (await manage(gateway, "PUT", f"/sessions/{session}", body)).status == 200
        request = draw_request(drawn, session)
        fetches = drawn.random() < 0.3
        upstream.will(*[call("get_context_resource", resource_id=drawn.choice(IDS))] * fetches, say("Done."))
        answered = await gateway.chat(request["asked"], context=request["context"], stream=step % 2 == 1)
        assert answered.status == 200, answered.text
        upstream.script.clear()  # without tools of ours, the call was the client's
        receipt = await read_receipt(gateway, answered.headers["x-context-receipt"])
        sent = upstream.requests[len(upstream.requests) - receipt["turn_count"]]
        assert find_differences(sent, receipt, answered.headers) == [], request
        picked += sum(one["via"] in ("semantic", "expansion") for one in receipt["selection"]["injected"])
    assert picked  # searches took part


async def test_a_difference_would_be_found(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    context = {"session": "mutants", "agent": "editor", "include": ["spare/r3"]}
    answered = await gateway.chat("Hello", context={**context, "items": [{"name": "Mine", "text": "My text."}]})
    receipt, sent = await read_receipt(gateway, answered.headers["x-context-receipt"]), upstream.requests[-1]
    assert find_differences(sent, receipt, answered.headers) == []
    assert {"Spare 3", "Mine", "Desk 0"} <= set(names_in(sent))
    less = {**receipt, "selection": {**receipt["selection"], "injected": receipt["selection"]["injected"][:-1]}}
    assert find_differences(sent, less, answered.headers)
    unnamed = {**receipt, "selection": {**receipt["selection"], "items": []}}
    assert find_differences(sent, unnamed, answered.headers)
    more = orjson.loads(orjson.dumps(sent).replace(b"You edit.", f"You edit. {marker('site', 'r1')}".encode()))
    assert find_differences(more, receipt, answered.headers)


async def test_what_a_tool_fetched_is_what_the_receipt_says(gateway: Client, upstream: Upstream) -> None:
    upstream.will(call("get_context_resource", resource_id="desk/r2"), say("Done."))
    answered = await gateway.chat("Hello", context={"session": "fetches", "agent": "editor"})
    receipt = await read_receipt(gateway, answered.headers["x-context-receipt"])
    (run,), result = receipt["tools"], upstream.requests[-1]["messages"][-1]["content"]
    assert (run["resource"], run["characters"], run["failed"]) == ("desk/r2", len(result), False)
    assert marker("desk", "r2") in result
