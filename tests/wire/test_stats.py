"""Figures over a socket: real exchanges of every kind against a recount of their receipts, and who may see what."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import aiohttp
import pytest

from gateway.analytics.reports import Period
from gateway.domain.receipt import ReceiptFilter
from gateway.domain.statistics import RESOURCES, Bucket, Span, Tally, UncountedBatch
from gateway.receipts.views import describe_receipt
from gateway.recording import build_counter
from tests.support.gateway import STYLE, Client, ClientReply, Start, read
from tests.support.recount import check, recount
from tests.support.upstream import Gate, Upstream, call, hang_up, say, status, wait_for

ADMIN, EDITOR, CHAT, OTHER = "an admin's key", "an editor's key", "a chat key", "another workspace's key"
KEYS = [
    {"name": "ours", "sha256": sha256(ADMIN.encode()).hexdigest(), "role": "admin"},
    {"name": "editing", "sha256": sha256(EDITOR.encode()).hexdigest(), "role": "editor"},
    {"name": "chatting", "sha256": sha256(CHAT.encode()).hexdigest()},
    {"name": "theirs", "sha256": sha256(OTHER.encode()).hexdigest(), "role": "admin", "workspace": "other"},
]
FACTS = "The warehouse in Rotterdam ships every parcel before nine in the morning, except on Sundays."
POLICIES: dict[str, Any] = {
    "contexts": {
        "facts": {
            "resources": {
                "shipping": {"type": "text", "kind": "reference", "name": "Shipping", "data": {"content": FACTS}},
                "returns": {
                    "type": "text",
                    "kind": "reference",
                    "name": "Returns",
                    "data": {"content": "Damaged goods go back to the depot in Antwerp within four weeks."},
                },
            }
        }
    },
    "agents": {"clerk": {"contexts": ["facts"]}},
}


@contextmanager
def recording(client: Client) -> Iterator[Client]:
    """A gateway that writes receipts as a running one does."""
    recorder = client.app.pipeline.receipts
    assert recorder is not None
    task = asyncio.run_coroutine_threadsafe(recorder.run(), client.thread.loop)
    try:
        yield client
    finally:
        task.cancel()


async def get(client: Client, path: str, key: str = "") -> ClientReply:
    url = f"http://127.0.0.1:{client.port}/api/v1/stats{path}"
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return await read(response)


def count(client: Client) -> int:
    """Count whatever waits, once everything is written."""
    recorder = client.app.pipeline.receipts
    assert recorder is not None
    wait_for(lambda: recorder.waiting == 0)
    app = client.app
    return client.thread.run(build_counter(app.settings, app.statistics, app.semantic).count())


def read_receipts(client: Client, workspace: str = "default") -> list[dict[str, Any]]:
    page = client.thread.run(client.app.receipts.list_page(workspace, ReceiptFilter(), None, 1000, whole=True))
    return [describe_receipt(one) for one in page.receipts]


async def leave_in_a_stream(client: Client, upstream: Upstream) -> None:
    gate = Gate()
    upstream.will(say("Done.").but(after_text=(gate,)))
    async with client.asking("Tidy this", agent="editor", stream=True) as response:
        await response.content.readany()
    gate.open()


async def test_the_figures_of_real_exchanges_are_those_of_their_receipts(start: Start, upstream: Upstream) -> None:
    with recording(start(prices={"m-large": {"input": 2, "output": 8}}, analytics={"sample": 1})) as client:
        upstream.will(call("get_context_resource", resource_id=STYLE), say("Use the serial comma."))
        await client.chat("Tidy this", agent="editor", session="one")
        upstream.will(call("get_context_resource", resource_id="made/up"), say("Done."))
        await client.chat("Tidy this", agent="editor", session="one", stream=True)
        upstream.will(say("Done."))
        await client.chat("Tidy this", agent="greeter", session="two", stream=True)
        upstream.will(status(500))
        await client.chat("Tidy this", agent="editor")
        upstream.will(hang_up())
        await client.chat("Tidy this", agent="greeter", session="three")
        await leave_in_a_stream(client, upstream)
        assert (await client.chat("Tidy this", agent="nobody")).status == 400
        assert count(client) == 7
        summary, resources, contexts = [
            (await get(client, f"{path}?sessions=true")).json for path in ("", "/resources", "/contexts")
        ]
        raw = read_receipts(client)
        check(summary, [*resources["items"], *contexts["items"]], recount(raw))
        statuses = summary["totals"]["statuses"]
        assert (statuses["ok"], statuses["aborted"], statuses["error"]) == (3, 1, 3)
        assert summary["totals"]["cost"] == pytest.approx(sum(one["cost"] or 0 for one in raw), abs=1e-6)
        fetched = {one["name"]: one["fetched"] for one in resources["items"] if one["fetched"]}
        assert fetched == {STYLE: 1}  # what the model made up is nobody's figure
        hours = (await get(client, "?bucket=hour")).json
        assert sum(point["requests"] for point in hours["points"]) == 7
        assert count(client) == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_what_an_answer_shows_of_each_resource_is_measured_and_not_stored(
    start: Start, upstream: Upstream, stream: bool
) -> None:
    with recording(start(policies=POLICIES, analytics={"sample": 1})) as client:
        upstream.will(say("It ships every parcel before nine in the morning, except on Sundays, says the warehouse."))
        await client.chat("When does the warehouse in Rotterdam send things?", agent="clerk", stream=stream)
        upstream.will(say("I do not know."))
        await client.chat("Who are you?", agent="clerk", stream=stream)
        count(client)
        items = {one["name"]: one for one in (await get(client, "/resources")).json["items"]}
        assert (items["facts/shipping"]["measured"], items["facts/shipping"]["shown"]) == (2, 1)
        assert (items["facts/returns"]["measured"], items["facts/returns"]["shown"]) == (2, 0)
        assert 0.2 < items["facts/shipping"]["overlap"] < 0.5
        assert items["facts/returns"]["overlap"] == 0
        for receipt in read_receipts(client):
            assert "text" not in receipt
            assert "every parcel" not in str(receipt)
            assert {one["id"] for one in receipt["overlap"]} == {"facts/shipping", "facts/returns"}


async def test_only_sampled_answers_are_looked_at(start: Start, upstream: Upstream) -> None:
    with recording(start(policies=POLICIES, analytics={"sample": 0})) as client:
        upstream.will(say(FACTS))
        await client.chat("When?", agent="clerk")
        count(client)
        assert [one["measured"] for one in (await get(client, "/resources")).json["items"]] == [0, 0]
        assert "overlap" not in read_receipts(client)[0]


async def test_whatever_a_client_calls_its_model_is_one_name(start: Start, upstream: Upstream) -> None:
    """Otherwise a chat key could make the figures of its workspace unreadable, or count as another agent's."""
    with recording(start()) as client:
        upstream.will(say("Done."))
        assert (await client.chat("Tidy this", agent="editor", model="m\nm-large\nturn\n")).status == 200
        assert count(client) == 1
        models = (await get(client, "/models")).json["items"]
        assert [one["name"] for one in models] == ["m m-large turn "]
        for query, requests in (("agent=editor", 1), ("model=m%20m-large%20turn%20", 1), ("placement=m-large", 0)):
            reply = await get(client, f"?{query}")
            assert reply.status == 200, reply.raw
            assert reply.json["totals"]["requests"] == requests


async def test_without_analytics_nothing_is_counted(start: Start, upstream: Upstream) -> None:
    with recording(start(analytics={"enabled": False})) as client:
        upstream.will(say("Done."))
        await client.chat("Tidy this", agent="editor")
        assert count(client) == 0
        assert (await get(client, "")).json["totals"]["requests"] == 0


async def test_each_workspace_sees_its_own_figures(start: Start, upstream: Upstream) -> None:
    with recording(start(auth={"keys": KEYS})) as client:
        for key, times in ((ADMIN, 2), (OTHER, 1)):
            for _ in range(times):
                upstream.will(say("Done."))
                await client.chat("Tidy this", agent="editor", session="same", key=key)
        count(client)
        for key, times in ((ADMIN, 2), (EDITOR, 2), (OTHER, 1)):
            assert (await get(client, "", key)).json["totals"]["requests"] == times
            assert (await get(client, "/quality", key)).json["totals"]["requests"] == times
            series = (await get(client, "/series?name=house/voice", key)).json
            assert [point["injected"] for point in series["points"]] == [times]
        for path in ("", "/resources", "/suggestions", "/cache"):
            assert (await get(client, path, CHAT)).status == 403


async def test_the_provider_s_cache_is_shown_by_placement_agent_and_model(start: Start, upstream: Upstream) -> None:
    with recording(start()) as client:
        for cached in (0, 30):
            usage = {"prompt_tokens": 40, "completion_tokens": 2, "total_tokens": 42}
            upstream.will(say("Done.").but(usage={**usage, "prompt_tokens_details": {"cached_tokens": cached}}))
            await client.chat("Tidy this", agent="greeter")
        count(client)
        shown = (await get(client, "/cache")).json
        (agent,) = shown["prompt"]["agents"]
        assert agent == {
            "name": "greeter", "requests": 2, "prompt_tokens": 80, "cached_tokens": 30, "cached_share": 0.375
        }  # fmt: skip
        assert [one["name"] for one in shown["prompt"]["placements"]] == ["system"]
        assert [one["name"] for one in shown["prompt"]["models"]] == ["m-large"]
        assert shown["query_embeddings"] == {"hits": 0, "misses": 0, "hit_share": None}


def seed(client: Client, start: int, rows: dict[str, dict[str, int]]) -> None:
    def make(values: dict[str, int]) -> Tally:
        return Tally([values.get(name, 0) for name in RESOURCES.counters], [set() for _ in RESOURCES.sketches])

    tallies = {Bucket("default", RESOURCES.name, Span.DAY, start): {name: make(one) for name, one in rows.items()}}
    assert client.thread.run(client.app.statistics.add(tallies, UncountedBatch(), start))


async def test_a_suggestion_can_be_applied_as_it_says(start: Start) -> None:
    client = start(policies=POLICIES)
    url = f"http://127.0.0.1:{client.port}"
    context = {"alias": "manual", "resources": [{"id": "old", "type": "text", "kind": "reference", "data": "Long."}]}
    async with aiohttp.ClientSession() as session:
        context["resources"][0]["data"] = {"content": "An old text."}  # type: ignore[index]
        async with session.post(f"{url}/api/v1/contexts", json=context) as response:
            assert response.status == 201
        shown = {"injected": 60, "measured": 25, "tokens": 600}
        today = Period.choose(time.time(), None, None).end - 86_400
        seed(client, today, {"manual/old": shown, "facts/shipping": {**shown, "tokens": 500}})
        items = (await get(client, "/suggestions")).json["items"]
        assert [(one["code"], one["resource"]) for one in items] == [
            ("never_shown", "manual/old"), ("never_shown", "facts/shipping")
        ]  # fmt: skip
        first, second = (one["change"] for one in items)
        assert second["read_only"]  # it comes from a file
        assert items[0]["reason"] == "Injected 60 times; none of the 25 answers that were compared shows it."
        async with session.get(url + first["path"]) as response:
            body = await response.json()
        async with session.put(url + first["path"], json=body | first["merge"]) as response:
            assert (response.status, (await response.json())["mode"]) == (200, "on_demand")
        assert [one["resource"] for one in (await get(client, "/suggestions")).json["items"]] == ["facts/shipping"]
