"""Content that the user names and the request is not about: suggested in the reply and the receipt, never used."""

import asyncio
import threading
from hashlib import sha256
from typing import Any

import orjson
import pytest

from gateway.domain.content_names import ContentNames
from tests.support.gateway import Client, Start
from tests.support.management_client import manage
from tests.support.semantic_gateway import rewrite
from tests.support.upstream import Upstream, say

HEADER = "x-context-suggested-content"
POLICIES: dict[str, Any] = {
    "contexts": {
        "corporate": {"resources": {"voice": {"type": "text", "data": {"content": "Write for engineers."}}}},
        "lamps": {"resources": {"voice": {"type": "text", "data": {"content": "Write for sleepers."}}}},
    },
    "agents": {"editor": {"inject": True}, "clerk": {"inject": False}},
    "content": {
        "halden": {
            "title": "Halden Instruments",
            "contexts": ["corporate"],
            "children": {
                "news": {"title": "Latest measurements"},
                "secret": {
                    "title": "Secret project",
                    "readers": ["user:ann"],
                    "children": {"plan": {"title": "Big plan"}},
                },
                "contact": {"title": "Opening hours"},
            },
        },
        "lumo": {"title": "Lumo", "contexts": ["lamps"], "children": {"contact": {"title": "Opening hours"}}},
        "ueber-uns": {"title": "Zürich"},
    },
}


@pytest.fixture
def gateway(start: Start) -> Client:
    return start(policies=POLICIES)


async def ask(gateway: Client, upstream: Upstream, asked: Any, **said: Any) -> str | None:
    """What is suggested for a question about Halden, unless another content is named."""
    upstream.will(say("Done."))
    context = {"content": "halden", **said.pop("context", {})}
    answered = await gateway.chat(asked, context=context, **{"agent": "editor", **said})
    assert answered.status == 200, answered.text
    return answered.headers.get(HEADER)


@pytest.mark.parametrize(
    ("asked", "suggested"),
    [
        ("Write it like Lumo does.", "lumo"),
        ("Write about Halden Instruments.", None),
        ("Write about the latest measurements.", "halden/news"),
        ("Write something.", None),
        ("What is the secret project?", None),
        ("What is the big plan?", None),
        ("When are your opening hours?", "halden/contact"),
        ([{"role": "user", "content": "Lumo?"}, {"role": "user", "content": "Never mind."}], None),
        ([{"role": "user", "content": [{"type": "text", "text": "and Lumo?"}]}], "lumo"),
        ([{"role": "system", "content": "You serve Lumo."}, {"role": "user", "content": "Hello"}], None),
        ("Is there an office in Zürich?", "ueber-uns"),
    ],
)
async def test_other_content_that_the_user_names_is_suggested_and_not_used(
    gateway: Client, upstream: Upstream, asked: Any, suggested: str | None
) -> None:
    assert await ask(gateway, upstream, asked) == suggested
    texts = orjson.dumps(upstream.requests[-1]["messages"]).decode()
    assert "for engineers" in texts
    assert "for sleepers" not in texts


async def test_content_within_what_was_named_is_not_another_one(gateway: Client, upstream: Upstream) -> None:
    within = {"content": "halden/news"}
    assert await ask(gateway, upstream, "Halden Instruments", context=within) is None
    assert await ask(gateway, upstream, "latest measurements", context=within) is None
    assert await ask(gateway, upstream, "and the opening hours?", context={"content": "lumo"}) == "lumo/contact"
    assert await ask(gateway, upstream, "and the opening hours?", context={"content": "ueber-uns"}) is None


async def test_a_session_is_enough_and_keeps_its_content(gateway: Client, upstream: Upstream) -> None:
    for context in ({"session": "talk"}, {"session": "talk", "content": "halden"}, {"session": "talk"}):
        upstream.will(say("Done."))
        answered = await gateway.chat("As on Lumo?", agent="editor", context=context)
        assert answered.headers[HEADER] == "lumo"
    assert orjson.loads((await manage(gateway, "GET", "/sessions/talk")).raw)["content"] == "halden"
    upstream.will(say("Done."))
    assert HEADER not in (await gateway.chat("As on Halden?", agent="editor", context={"session": "talk"})).headers


@pytest.mark.parametrize(
    "said",
    [
        {"agent": "editor"},
        {"agent": "clerk", "context": {"content": "halden"}},
        {"agent": "editor", "context": {"content": "halden", "inject": "off"}},
    ],
)
async def test_nothing_is_suggested_where_content_is_not_used(
    gateway: Client, upstream: Upstream, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(ContentNames, "find", lambda self, text, readers: looked.append(text))
    monkeypatch.setattr(ContentNames, "build", lambda self: looked.append("built"))
    upstream.will(say("Done."))
    assert HEADER not in (await gateway.chat("As on Lumo?", **said)).headers
    assert looked == []


async def test_a_reader_may_be_shown_what_others_may_not(start: Start, upstream: Upstream) -> None:
    keys = [{"sha256": sha256(b"one").hexdigest(), "rights": ["act_as_user"]}]
    gateway = start(policies=POLICIES, auth={"keys": keys})
    for user, suggested in (("ann", "halden/secret/plan"), ("bob", None)):
        assert await ask(gateway, upstream, "the big plan", key="one", context={"user": user}) == suggested


async def test_preview_and_receipt_say_it_too(gateway: Client, upstream: Upstream) -> None:
    body = {"context": {"agent": "editor", "content": "halden"}, "query": "As on Lumo?"}
    assert orjson.loads((await manage(gateway, "POST", "/resolve", body)).raw)["suggested_content"] == "lumo"
    body["query"] = "Hello"
    assert orjson.loads((await manage(gateway, "POST", "/resolve", body)).raw)["suggested_content"] is None
    recorder = gateway.app.pipeline.receipts
    assert recorder is not None
    writing = asyncio.run_coroutine_threadsafe(recorder.run(), gateway.thread.loop)
    try:
        upstream.will(say("Done."))
        answered = await gateway.chat("As on Lumo?", agent="editor", context={"content": "halden"})
        for _ in range(200):
            receipt = await manage(gateway, "GET", f"/receipts/{answered.headers['x-context-receipt']}")
            if receipt.status == 200 and receipt.json["status"] == "ok":
                break
            await asyncio.sleep(0.02)
        assert (receipt.json["content"], receipt.json["suggested_content"]) == ("halden", "lumo")
    finally:
        writing.cancel()


async def test_names_follow_the_policies_and_are_indexed_once(
    gateway: Client, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[ContentNames] = []
    build = ContentNames.build

    def count(names: ContentNames) -> None:
        built.append(names)
        build(names)

    monkeypatch.setattr(ContentNames, "build", count)
    assert await ask(gateway, upstream, "As on Lumo?") == "lumo"
    rewrite(gateway, {**POLICIES, "agents": {**POLICIES["agents"], "more": {}}})
    assert await ask(gateway, upstream, "As on Lumo?") == "lumo"
    content = {**POLICIES["content"], "glow": {"title": "Glow"}}
    rewrite(gateway, {**POLICIES, "content": content})
    assert [await ask(gateway, upstream, "Glow!") for _ in range(2)] == ["glow", "glow"]
    assert len(built) <= 3


async def test_a_request_does_not_wait_long_for_the_names_of_a_large_tree(
    gateway: Client, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, build = threading.Event(), ContentNames.build

    def build_slowly(names: ContentNames) -> None:
        go_on.wait(10)
        build(names)

    monkeypatch.setattr(ContentNames, "build", build_slowly)
    assert await ask(gateway, upstream, "As on Lumo?") is None
    go_on.set()
    for _ in range(200):
        if await ask(gateway, upstream, "As on Lumo?") == "lumo":
            return
    pytest.fail("the names were never indexed")


async def test_the_header_is_ignored_in_requests(gateway: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
    assert (await gateway.post(body, x_context_suggested_content="lumo")).status == 200
