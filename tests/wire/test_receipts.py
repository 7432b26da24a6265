"""Receipts over a socket: what is stored about an exchange, when, and who may see it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from gateway.domain.receipt import Receipt, ReceiptFilter, ReceiptPage
from gateway.errors import StoreError
from gateway.ids import make_id
from tests.support.gateway import NAMES, STYLE, WEATHER, Client, ClientReply, Start, read
from tests.support.redis_server import running_redis
from tests.support.upstream import (
    USAGE,
    Canned,
    Gate,
    Response,
    Upstream,
    call,
    chunks,
    hang_up,
    mixed,
    raw_events,
    say,
    status,
    tool_call,
    wait_for,
)

ANY = ReceiptFilter()
ADMIN, OTHER = "an admin's key", "another workspace's key"
KEYS = [
    {"name": "ours", "sha256": sha256(ADMIN.encode()).hexdigest(), "role": "admin"},
    {"name": "theirs", "sha256": sha256(OTHER.encode()).hexdigest(), "role": "admin", "workspace": "other"},
]


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


@pytest.fixture
def client(start: Start) -> Iterator[Client]:
    with recording(start()) as client:
        yield client


async def ask(client: Client, path: str = "", method: str = "GET", key: str = "") -> ClientReply:
    url = f"http://127.0.0.1:{client.port}/api/v1/receipts{path}"
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession() as session, session.request(method, url, headers=headers) as response:
        return await read(response)


def list_stored(client: Client, workspace: str = "default") -> list[dict[str, Any]]:
    page = client.thread.run(client.app.receipts.list_page(workspace, ANY, None, 1000, whole=True))
    return [
        {"id": one.id, "status": one.status, **orjson.loads(one.summary), **orjson.loads(one.details)}
        for one in page.receipts
    ]


def wait_finished(client: Client, count: int = 1) -> list[dict[str, Any]]:
    """The receipts as soon as so many are finished."""
    wait_for(lambda: sum(one["status"] != "started" for one in list_stored(client)) >= count)
    return list_stored(client)


async def get_receipt(client: Client, reply: ClientReply) -> dict[str, Any]:
    wait_finished(client)
    return (await ask(client, f"/{reply.headers['x-context-receipt']}")).json


async def test_a_receipt_tells_what_was_sent_and_why(client: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(call("get_context_resource", resource_id=STYLE), say("Done."))
    asked = {"stream": stream, "stream_options": {"include_usage": True}} if stream else {}
    reply = await client.chat("Tidy this", agent="editor", session="s-1", **asked)
    receipt = await get_receipt(client, reply)
    assert receipt["status"] == "ok"
    assert (receipt["agent"], receipt["session"], receipt["principal"]) == ("editor", "s-1", "anonymous")
    assert (receipt["asked_model"], receipt["model"], receipt["upstream"]) == ("m-large", "m-large", "scripted")
    assert (receipt["http_status"], receipt["dialect"], receipt["degraded"]) == (200, "chat", [])
    assert receipt["snapshot"].startswith(reply.headers["x-context-snapshot"])
    assert str(receipt["injected"]) == reply.headers["x-context-injected"]
    assert str(receipt["context_tokens"]) == reply.headers["x-context-tokens"] == str(receipt["tokens"]["total"])
    (item,) = receipt["selection"]["injected"]
    assert set(item) == {
        *("id", "name", "type", "kind", "mode", "via", "level", "entity", "context", "version", "score"),
        *("tokens", "position", "truncated", "reason", "why"),
    }
    assert (item["id"], item["mode"], item["level"], item["entity"]) == ("house/voice", "always", "agent", "editor")
    assert item["tokens"] > 0
    assert item["position"] == 0
    assert {STYLE, NAMES} <= set(receipt["selection"]["catalogue"])
    (tool,) = receipt["tools"]
    assert (tool["name"], tool["resource"], tool["failed"]) == ("get_context_resource", STYLE, False)
    assert tool["characters"] == len("[House style]\nUse the serial comma.")
    assert "arguments" not in tool
    assert [(turn["upstream"], turn["status"], turn["usage"]) for turn in receipt["turns"]] == [
        ("scripted", 200, USAGE)
    ] * 2
    assert receipt["usage"]["total_tokens"] == 24
    assert (receipt["turn_count"], receipt["tools_run"]) == (2, 1)
    timings = receipt["timings"]
    assert list(timings) == ["decode_ms", "scope_ms", "build_ms", "compose_ms", "first_byte_ms", "total_ms"]
    assert all(value >= 0 for value in timings.values())
    assert timings["first_byte_ms"] <= timings["total_ms"]
    assert "text" not in receipt


async def test_the_usage_of_a_relayed_reply_is_read(client: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(say("Done."))
    asked = {"stream": stream, "stream_options": {"include_usage": True}} if stream else {}
    reply = await client.chat("Tidy this", agent="bare", **asked)
    receipt = await get_receipt(client, reply)
    assert receipt["usage"] == USAGE
    assert receipt["turns"][0]["usage"] == USAGE


@pytest.mark.parametrize("total", [b"9" * 400, b"[" * 300 + b"]" * 300])
async def test_a_usage_that_cannot_be_shown_breaks_neither_lists_nor_exports(
    client: Client, upstream: Upstream, total: bytes
) -> None:
    for used in (b"8", total, b"8"):
        usage = b'{"prompt_tokens":5,"completion_tokens":3,"total_tokens":%b}' % used
        choices = b'[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"Done."}}]'
        body = b'{"id":"c","object":"chat.completion","choices":%b,"usage":%b}' % (choices, usage)
        upstream.will(Canned(Response(200, "application/json", (body,))))
        assert (await client.chat("Tidy this", agent="bare")).status == 200
    wait_finished(client, 3)
    counts = {"prompt_tokens": 5, "completion_tokens": 3}
    expected = [counts | {"total_tokens": 8}, counts, counts | {"total_tokens": 8}]
    listed = (await ask(client)).json["items"]
    assert [one["usage"] for one in listed] == expected
    assert (await ask(client, f"/{listed[1]['id']}")).json["turns"][0]["usage"] == counts
    exported = (await ask(client, "/export")).raw.splitlines()
    assert [orjson.loads(line)["usage"] for line in exported] == expected


async def test_cost_follows_the_price_table(start: Start, upstream: Upstream) -> None:
    prices = {"m-*": {"input": 1, "output": 10}, "m-large": {"input": 2, "output": 20, "cached_input": 0.5}}
    used = {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}
    with recording(start(prices=prices)) as client:
        upstream.will(say("Done.").but(usage=used))
        receipt = await get_receipt(client, await client.chat("Tidy this", agent="bare"))
    assert receipt["cached_tokens"] == 4
    assert receipt["cost"] == pytest.approx((6 * 2 + 4 * 0.5 + 2 * 20) / 1e6)
    assert receipt["turns"][0]["cost"] == receipt["cost"]


async def test_a_started_receipt_is_stored_while_the_upstream_is_silent(client: Client, upstream: Upstream) -> None:
    gate = Gate()
    upstream.will(say("Done.").but(before=(gate,)))
    asking = asyncio.create_task(client.chat("Tidy this", agent="editor"))
    await asyncio.to_thread(gate.reached.wait, 10)
    await asyncio.to_thread(wait_for, lambda: len(list_stored(client)) == 1)
    (begun,) = list_stored(client)
    assert (begun["status"], begun["seconds"], begun["injected"]) == ("started", None, 1)
    listed = (await ask(client, "?status=started")).json["items"]
    assert [one["id"] for one in listed] == [begun["id"]]
    gate.open()
    reply = await asking
    (done,) = wait_finished(client)
    assert (done["id"], done["status"]) == (reply.headers["x-context-receipt"], "ok")


CUT = raw_events(chunks({"role": "assistant", "content": "Do"}), end="reset")
LOOPING = [call("get_context_resource", resource_id=STYLE)] * 2


@pytest.mark.parametrize(
    ("script", "said", "expected"),
    [
        ([say("Done.")], {}, ("ok", 200, None)),
        ([say("Done.")], {"stream": True}, ("ok", 200, None)),
        ([status(500)], {}, ("error", 500, None)),
        ([hang_up()], {}, ("error", 502, "upstream_unreachable")),
        ([CUT], {"stream": True}, ("upstream_truncated", 200, "upstream_invalid")),
        ([CUT], {"stream": True, "agent": "bare"}, ("upstream_truncated", 200, "upstream_invalid")),
        (LOOPING, {"agent": "hasty"}, ("loop_limit", 502, "loop_limit")),
        ([], {"agent": "nobody"}, ("error", 400, "unknown_agent")),
        ([], {"messages": 5}, ("error", 400, "invalid_request")),
    ],
)
async def test_each_end_is_recorded_once(
    client: Client, upstream: Upstream, script: list[Any], said: dict[str, Any], expected: tuple[str, int, str | None]
) -> None:
    upstream.will(*script)
    reply = await client.chat("Tidy this", **{"agent": "editor", **said})
    (receipt,) = wait_finished(client)
    assert receipt["id"] == reply.headers["x-context-receipt"]
    assert (receipt["status"], receipt["http_status"], receipt["error"]) == expected


async def leave_while_preparing(client: Client, upstream: Upstream) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n")
    writer.write(b"content-length: 100\r\n\r\n{")
    await writer.drain()
    await asyncio.sleep(0.1)
    writer.close()
    await writer.wait_closed()


async def leave_before_the_head(client: Client, upstream: Upstream) -> None:
    gate = Gate()
    upstream.will(say("Done.").but(before=(gate,)))
    asking = asyncio.create_task(client.chat("Tidy this", agent="editor"))
    await asyncio.to_thread(gate.reached.wait, 10)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    gate.open()


async def leave_in_a_stream(client: Client, upstream: Upstream) -> None:
    gate = Gate()
    upstream.will(say("Done.").but(after_text=(gate,)))
    async with client.asking("Tidy this", agent="editor", stream=True) as response:
        await response.content.readany()
    gate.open()


async def leave_while_a_tool_result_is_awaited(client: Client, upstream: Upstream) -> None:
    gate = Gate()
    upstream.will(call("get_context_resource", resource_id=STYLE), say("Done.").but(before=(gate,)))
    async with client.asking("Tidy this", agent="editor", stream=True):
        await asyncio.to_thread(gate.reached.wait, 10)
    gate.open()


async def leave_a_relay(client: Client, upstream: Upstream) -> None:
    gate = Gate()
    upstream.will(say("Done.").but(after_text=(gate,)))
    async with client.asking("Tidy this", agent="bare", stream=True) as response:
        await response.content.readany()
    gate.open()


LEAVE = [
    leave_while_preparing,
    leave_before_the_head,
    leave_in_a_stream,
    leave_while_a_tool_result_is_awaited,
    leave_a_relay,
]


@pytest.mark.parametrize("leave", LEAVE, ids=lambda leave: leave.__name__)
async def test_a_client_that_leaves_has_one_aborted_receipt(client: Client, upstream: Upstream, leave: Any) -> None:
    for _ in range(3):
        await leave(client, upstream)
    found = await asyncio.to_thread(wait_finished, client, 3)
    assert [receipt["status"] for receipt in found] == ["aborted"] * 3
    recorder = client.app.pipeline.receipts
    assert recorder is not None
    await asyncio.to_thread(wait_for, lambda: recorder.waiting == 0)


async def test_a_failure_of_ours_inside_a_stream_is_an_error(
    start: Start, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, Any]] = []
    with recording(start(log={"exchanges": True})) as client:
        recorder = client.app.pipeline.receipts
        assert recorder is not None

        def watch(exchange: Any, reply: Any) -> Any:
            async def fail(writer: Any) -> None:
                writer.write(b'data: {"choices": []}\n\n')
                raise KeyError("of ours")

            reply.stream = fail
            return reply

        monkeypatch.setattr(recorder, "watch", watch)
        monkeypatch.setattr(client.app.log, "queue", lambda queued: lines.extend(map(orjson.loads, queued)))
        upstream.will(say("Never read."))
        reply = await client.chat("Tidy this", agent="bare", stream=True)
        assert (reply.status, reply.broken) == (200, True)
        (receipt,) = await asyncio.to_thread(wait_finished, client)
        client.app.recorder.drain()
    assert (receipt["status"], receipt["error"], receipt["http_status"]) == ("error", "internal_error", 200)
    assert [(line["status"], line["http_status"]) for line in lines if line["event"] == "exchange"] == [("error", 200)]


async def test_two_workspaces_never_see_each_other(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    with recording(start(auth={"keys": KEYS}, store=f"sqlite:///{tmp_path}/gateway.db")) as client:
        upstream.will(say("Ours."), say("Theirs."))
        ours = await client.chat("Tidy this", agent="editor", session="same", key=ADMIN)
        theirs = await client.chat("Tidy this", agent="editor", session="same", key=OTHER)
        wait_for(lambda: len(list_stored(client)) == len(list_stored(client, "other")) == 1)
        for key, own, foreign in ((ADMIN, ours, theirs), (OTHER, theirs, ours)):
            mine, other = own.headers["x-context-receipt"], foreign.headers["x-context-receipt"]
            for path in ("", "?session=same", "?agent=editor", "?resource=house/voice", "?status=ok"):
                assert [one["id"] for one in (await ask(client, path, key=key)).json["items"]] == [mine]
            exported = (await ask(client, "/export", key=key)).raw.splitlines()
            assert [orjson.loads(line)["id"] for line in exported] == [mine]
            assert (await ask(client, f"/{mine}", key=key)).status == 200
            for method in ("GET", "DELETE"):
                refused = await ask(client, f"/{other}", method, key)
                unknown = await ask(client, f"/{'0' * 26}", method, key)
                assert (refused.status, refused.raw) == (404, unknown.raw)
        assert (await ask(client)).status == 401


async def test_a_receipt_is_there_as_soon_as_the_answer_is(client: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    reply = await client.chat("Tidy this")
    found = await ask(client, f"/{reply.headers['x-context-receipt']}")
    assert (found.status, found.json["status"]) == (200, "ok")


async def test_receipts_can_be_listed_exported_and_deleted(client: Client, upstream: Upstream) -> None:
    upstream.will(*[say("Done.")] * 5)
    ids: list[str] = []
    for number in range(5):
        reply = await client.chat("Tidy this", agent="editor" if number % 2 else "greeter", session=f"s{number // 2}")
        ids.insert(0, reply.headers["x-context-receipt"])
    wait_finished(client, 5)
    first = (await ask(client, "?take=3")).json
    rest = (await ask(client, f"?take=3&after={first['next']}")).json
    assert [one["id"] for one in (*first["items"], *rest["items"])] == ids
    assert rest["next"] is None
    assert "selection" not in first["items"][0]
    assert [one["id"] for one in (await ask(client, "?agent=editor")).json["items"]] == [ids[1], ids[3]]
    assert [one["id"] for one in (await ask(client, "?session=s1&resource=plain/tone")).json["items"]] == [ids[2]]
    lines = (await ask(client, "/export?agent=greeter")).raw.splitlines()
    assert [orjson.loads(line)["selection"]["injected"][0]["id"] for line in lines] == ["plain/tone"] * 3
    assert (await ask(client, f"/{ids[0]}", "DELETE")).status == 204
    assert (await ask(client, f"/{ids[0]}", "DELETE")).status == 404
    assert [one["id"] for one in (await ask(client, "?from=2020-01-01")).json["items"]] == ids[1:]
    assert (await ask(client, "?to=2020-01-01T00:00:00Z")).json == {"items": [], "next": None}
    for wrong in ("?take=0", "?take=1001", "?status=fine", "?after=x", "?from=yesterday", "?unknown=1"):
        assert (await ask(client, wrong)).status == 422, wrong
    head = await ask(client, "/export", "HEAD")
    assert (head.status, head.raw) == (200, b"")


class EndlessStore:
    """A store that always has another page."""

    def __init__(self, store: Any) -> None:
        self.store, self.pages = store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def list_page(self, *_: Any) -> ReceiptPage:
        self.pages += 1
        await asyncio.sleep(0.005)
        receipt = Receipt(make_id(), "default", "ok", details=b'{"filler":"%s"}' % (b"x" * 1000))
        return ReceiptPage([receipt] * 200, receipt.id)


async def test_an_export_ends_when_its_reader_leaves(start: Start) -> None:
    client = start()
    endless = EndlessStore(client.app.receipts)
    client.app.receipts = endless
    url = f"http://127.0.0.1:{client.port}/api/v1/receipts/export"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.headers["content-type"] == "application/jsonl"
        await response.content.readline()
    await asyncio.sleep(0.5)
    before = endless.pages
    await asyncio.sleep(0.5)
    assert endless.pages == before > 0
    client.app.receipts = endless.store


SECRET = "sk-verysecret123"


async def test_text_is_stored_only_if_configured_and_never_with_secrets(
    start: Start, upstream: Upstream, stream: bool
) -> None:
    asked = f"Tidy this with {SECRET} and Authorization: Bearer {SECRET}x"
    with recording(start(receipts={"text": True})) as client:
        upstream.will(call("get_context_resource", resource_id=STYLE), say(f"Use {SECRET} then."))
        await client.chat(asked, agent="editor", stream=stream)
        (receipt,) = wait_finished(client)
    text = receipt["text"]
    assert "Tidy this with [redacted]" in text["request"]
    assert "Write plainly." in text["blocks"]
    assert (text["answer"], text["truncated"]) == ("Use [redacted] then.", False)
    assert receipt["tools"][0]["arguments"] == '{"resource_id":"house/style"}'
    assert SECRET not in str(receipt)
    assert "sk-upstream" not in str(receipt)


async def test_without_text_nothing_that_was_said_is_stored(client: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(call("get_context_resource", resource_id="a wild guess"), say("An answer."))
    await client.chat("A question", agent="editor", stream=stream)
    (receipt,) = wait_finished(client)
    stored = str(receipt)
    assert receipt["tools"][0]["failed"]
    for said in ("A question", "An answer", "a wild guess", "Write plainly", "sk-upstream"):
        assert said not in stored


async def test_long_text_is_cut(start: Start, upstream: Upstream) -> None:
    with recording(start(receipts={"text": True})) as client:
        upstream.will(say("x" * 300_000).but(pieces=50_000))
        reply = await client.chat("y" * 300_000, agent="editor", stream=True)
        assert len(reply.text) == 300_000
        (receipt,) = wait_finished(client)
    assert receipt["text"]["truncated"]
    assert len(receipt["text"]["request"]) == 256 * 1024
    assert 0 < len(receipt["text"]["answer"]) < 256 * 1024


async def test_what_finds_no_place_in_the_queue_is_counted_and_said(start: Start, upstream: Upstream) -> None:
    client = start(receipts={"queue": 2})  # nobody writes yet
    upstream.will(*[say("Done.")] * 5)
    replies = [await client.chat("Tidy this", agent="editor") for _ in range(4)]
    assert [reply.status for reply in replies] == [200] * 4
    degraded = [reply.headers.get("x-context-degraded") for reply in replies]
    assert degraded == [None, None, "receipt", "receipt"]
    recorder = client.app.pipeline.receipts
    assert recorder is not None
    assert recorder.waiting == 2
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{client.port}/metrics") as shown:
        metrics = await shown.text()
    assert "gateway_receipts_lost_total 2.0" in metrics
    assert "gateway_receipts_waiting 2.0" in metrics
    assert 'gateway_degraded_total{reason="receipt"} 2.0' in metrics
    with recording(client):
        wait_for(lambda: recorder.waiting == 0)
        reply = await client.chat("Tidy this", agent="editor")
        assert "x-context-degraded" not in reply.headers
        wait_finished(client, 3)
    assert recorder.lost == 2


class FailingStore:
    """A store whose disk is full until it is not."""

    def __init__(self, store: Any) -> None:
        self.store, self.full, self.calls = store, True, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def write(self, *arguments: Any) -> None:
        self.calls += 1
        if self.full:
            raise StoreError("The disk is full.")
        await self.store.write(*arguments)


@pytest.mark.parametrize("durability", ["batch", "strict"])
async def test_a_store_that_fails_delays_receipts_and_no_chat(
    start: Start, upstream: Upstream, durability: str
) -> None:
    client = start(receipts={"durability": durability})
    recorder = client.app.pipeline.receipts
    assert recorder is not None
    failing = recorder._store = FailingStore(client.app.receipts)
    upstream.will(*[say("Done.")] * 2)
    with recording(client):
        reply = await client.chat("Tidy this", agent="editor")
        assert reply.status == 200
        assert reply.headers.get("x-context-degraded") == ("receipt" if durability == "strict" else None)
        wait_for(lambda: failing.calls > 1)
        assert list_stored(client) == []
        failing.full = False
        (receipt,) = wait_finished(client)
        assert receipt["id"] == reply.headers["x-context-receipt"]
        reply = await client.chat("Tidy this", agent="editor")
        assert "x-context-degraded" not in reply.headers
    assert recorder.lost == 0


async def test_a_strict_request_is_sent_after_its_receipt_is_stored(start: Start, upstream: Upstream) -> None:
    with recording(start(receipts={"durability": "strict"})) as client:
        gate, stored_first = Gate(), []
        upstream.will(say("Done.").but(before=(gate,)))
        asking = asyncio.create_task(client.chat("Tidy this", agent="editor"))
        await asyncio.to_thread(gate.reached.wait, 10)
        stored_first = list_stored(client)  # at once: the call was not made before
        gate.open()
        await asking
    assert [one["status"] for one in stored_first] == ["started"]


async def test_receipts_that_are_left_at_the_end_are_written(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/gateway.db"
    first = start(store=store)
    upstream.will(say("Done."))
    reply = await first.chat("Tidy this", agent="editor")
    recorder = first.app.pipeline.receipts
    assert recorder is not None
    first.thread.run(recorder.close())
    second = start(store=store)
    assert (await ask(second, f"/{reply.headers['x-context-receipt']}")).json["status"] == "ok"


async def test_receipts_can_be_switched_off(start: Start, upstream: Upstream) -> None:
    client = start(receipts={"enabled": False})
    upstream.will(say("Done."))
    reply = await client.chat("Tidy this", agent="editor")
    assert reply.headers["x-context-receipt"]
    assert (await ask(client)).json == {"items": [], "next": None}


async def test_receipts_on_redis(start: Start, upstream: Upstream) -> None:
    with running_redis() as server, recording(start(store=server.url)) as client:
        upstream.will(call("get_context_resource", resource_id=STYLE), say("Done."))
        reply = await client.chat("Tidy this", agent="editor", session="s")
        receipt = await get_receipt(client, reply)
        assert receipt["status"] == "ok"
        listed = (await ask(client, f"?session=s&resource={STYLE}&status=ok")).json["items"]
        assert [one["id"] for one in listed] == [receipt["id"]]
        server.freeze()
        upstream.will(say("Done."))
        during = await client.chat("Tidy this", agent="editor")
        assert during.status == 200
        server.thaw()
        found = await asyncio.to_thread(wait_finished, client, 2)
        assert found[0]["id"] == during.headers["x-context-receipt"]


async def test_a_mixed_turn_lists_the_own_tool_only(client: Client, upstream: Upstream, stream: bool) -> None:
    own, theirs = tool_call("get_context_resource", resource_id=STYLE), tool_call("get_weather", city="Rome")
    upstream.will(mixed(own, theirs))
    await client.chat("Tidy this", agent="editor", tools=[WEATHER], stream=stream)
    (receipt,) = wait_finished(client)
    assert [tool["name"] for tool in receipt["tools"]] == ["get_context_resource"]
