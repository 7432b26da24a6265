"""Picks that stay in a session: what the outgoing requests of a conversation have in common."""

import asyncio
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import orjson
import pytest

from gateway.replay.prompt_prefix import measure_prompts
from gateway.stores.protocols import SessionOwner
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.lamp_shop import ANSWER, POLICIES, QUESTIONS, list_messages
from tests.support.management_client import manage
from tests.support.semantic_gateway import run_indexing, wait_until_indexed
from tests.support.upstream import Upstream, say

Body = dict[str, Any]
OWNER = SessionOwner("default", None, None)


@pytest.fixture(scope="module")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A gateway with the installed model."""
    semantic = {"enabled": True, "milliseconds": 5000}
    directory = tmp_path_factory.mktemp("sticky")
    started = running_gateway(thread, directory, scripted.base_url, policies=POLICIES, semantic=semantic)
    with started as client, run_indexing(client):
        wait_until_indexed(client)
        yield client


async def send(gateway: Client, upstream: Upstream, messages: list[dict[str, str]], **said: Any) -> Body:
    """The outgoing request."""
    upstream.will(say(ANSWER))
    reply = await gateway.chat(messages, **said)
    assert reply.status == 200, reply.text
    return upstream.requests[-1]


async def hold_talk(
    gateway: Client, upstream: Upstream, agent: str, session: str, end: int = len(QUESTIONS)
) -> list[Body]:
    """The outgoing requests of the conversation."""
    return [await send(gateway, upstream, list_messages(number), agent=agent, session=session) for number in range(end)]


def compute_share(gateway: Client, bodies: list[Body]) -> float:
    """The share of what could be cached that is in a common prefix."""
    counter = gateway.app.counter
    uses = measure_prompts(bodies, lambda text: counter.count(text, "gpt-4o"))
    return sum(use.prefix for use in uses) / sum(use.reusable for use in uses)


def count_blocks(body: Body, name: str) -> int:
    return orjson.dumps(body["messages"]).decode().count(f"[{name}]")


@pytest.mark.parametrize("agent", ["sticky", "sticky-user"])
async def test_a_conversation_of_twenty_turns_keeps_its_prefix(gateway: Client, upstream: Upstream, agent: str) -> None:
    sticky = await hold_talk(gateway, upstream, agent, f"talk of {agent}")
    plain = await hold_talk(gateway, upstream, "desk", "plain talk")
    kept, lost = compute_share(gateway, sticky), compute_share(gateway, plain)
    assert kept >= 0.9
    assert lost < 0.75
    # Not one message of a request is other than in the request before.
    for before, after in pairwise(sticky):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    assert all(count_blocks(sticky[-1], name) == 1 for name in ("Delivery", "Warranty", "Cleaning"))


async def test_it_is_off_by_default(gateway: Client, upstream: Upstream) -> None:
    bodies = await hold_talk(gateway, upstream, "turn", "a plain one", 4)
    assert [count_blocks(body, "Delivery") for body in bodies] == [1, 1, 0, 0]
    session = orjson.loads((await manage(gateway, "GET", "/sessions/a%20plain%20one")).raw)
    assert session["settings"]["selection"]["sticky"] is None


async def test_without_a_session_nothing_stays(gateway: Client, upstream: Upstream) -> None:
    for number in range(4):
        body = await send(gateway, upstream, list_messages(number), agent="sticky")
    assert count_blocks(body, "Delivery") == 0


async def test_a_session_may_switch_it_on_or_off(gateway: Client, upstream: Upstream) -> None:
    for session, agent, sticky in (("on", "turn", True), ("off", "sticky", False)):
        settings = {"settings": {"selection": {"sticky": sticky}}}
        assert (await manage(gateway, "PUT", f"/sessions/{session}", settings)).status == 200
        bodies = await hold_talk(gateway, upstream, agent, session, 4)
        assert count_blocks(bodies[-1], "Delivery") == sticky


async def test_sessions_and_users_share_nothing(gateway: Client, upstream: Upstream) -> None:
    await hold_talk(gateway, upstream, "sticky", "one", 3)
    question = [{"role": "user", "content": QUESTIONS[2]}]
    other = await send(gateway, upstream, question, agent="sticky", session="other")
    nobody = await send(gateway, upstream, question, agent="sticky")
    assert count_blocks(other, "Delivery") == 0
    assert nobody["messages"] == other["messages"]


async def test_what_is_removed_by_hand_does_not_stay(gateway: Client, upstream: Upstream) -> None:
    await hold_talk(gateway, upstream, "sticky", "removing", 2)
    said = {"agent": "sticky", "session": "removing"}
    body = await send(gateway, upstream, list_messages(2), **said, context={"unpin": ["desk/delivery"]})
    assert count_blocks(body, "Delivery") == 0
    assert count_blocks(await send(gateway, upstream, list_messages(3), **said), "Delivery") == 0
    excluded = await send(gateway, upstream, list_messages(4), **said, context={"exclude": ["desk/bulbs"]})
    assert count_blocks(excluded, "Bulbs and sockets") == 0


async def test_a_history_that_was_edited_gets_no_blocks_of_another(gateway: Client, upstream: Upstream) -> None:
    await hold_talk(gateway, upstream, "sticky", "edited", 2)
    edited = list_messages(2)
    edited[0] = {"role": "user", "content": "Something else altogether."}
    body = await send(gateway, upstream, edited, agent="sticky", session="edited")
    assert count_blocks(body, "Delivery") == 0
    assert [one["role"] for one in body["messages"][:2]] == ["system", "user"]


async def test_in_the_system_message_picks_keep_their_order(gateway: Client, upstream: Upstream) -> None:
    bodies = await hold_talk(gateway, upstream, "sticky-system", "in one block", 7)
    text = bodies[-1]["messages"][0]["content"]
    places = [text.index(f"[{name}]") for name in ("Delivery", "Bulbs and sockets", "Payment")]
    assert places == sorted(places)
    assert [one["role"] for one in bodies[-1]["messages"][1:]] == ["user", "assistant"] * 6 + ["user"]


async def test_requests_at_the_same_time_keep_what_was_picked_before(gateway: Client, upstream: Upstream) -> None:
    await hold_talk(gateway, upstream, "sticky", "at once", 3)
    upstream.will(*[say(ANSWER)] * 5)
    said = {"agent": "sticky", "session": "at once"}
    await asyncio.gather(*(gateway.chat(list_messages(3), **said) for _ in range(5)))
    found = gateway.thread.run(gateway.app.pipeline.sessions.list_records(OWNER, 0, 100))
    (sticky,) = [one.session.sticky for one in found.records if one.key.id == "at once"]
    assert [(one.id, one.message) for one in sticky] == [("desk/delivery", 0), ("desk/bulbs", 2)]


async def test_the_session_is_written_only_when_its_picks_change(gateway: Client, upstream: Upstream) -> None:
    versions = []
    for number in range(3):
        await send(gateway, upstream, list_messages(number), agent="sticky", session="written")
        session = orjson.loads((await manage(gateway, "GET", "/sessions/written")).raw)
        versions.append((session["version"], session["sticky"]))
    delivery = ["desk/delivery"]
    assert versions == [(1, delivery), (1, delivery), (2, [*delivery, "desk/bulbs"])]


async def test_a_preview_says_why_it_is_there_and_changes_nothing(gateway: Client, upstream: Upstream) -> None:
    await hold_talk(gateway, upstream, "sticky", "shown", 3)
    body = {"context": {"agent": "sticky", "session": "shown"}, "request": {"messages": list_messages(3)}}
    shown = [orjson.loads((await manage(gateway, "POST", "/resolve", body)).raw) for _ in range(2)]
    via = {one["id"]: one["via"] for one in shown[0]["selection"]["injected"]}
    assert (via["desk/delivery"], via["desk/bulbs"]) == ("sticky", "semantic")
    (kept,) = [one for one in shown[0]["selection"]["injected"] if one["via"] == "sticky"]
    assert kept["why"].startswith("stays in the session: picked ")
    assert shown[0] == shown[1]
    assert (
        shown[0]["request"]["messages"]
        == (await send(gateway, upstream, list_messages(3), agent="sticky", session="shown"))["messages"]
    )
