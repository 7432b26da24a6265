"""Drafts and former versions are found by what they say, not by what the served policies say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.contract_policies import text
from tests.support.gateway import Client, Start
from tests.support.management_client import manage
from tests.support.semantic_gateway import run_indexing, wait_until_indexed

PASSWORD = "Reset a forgotten password on the account settings page."
INVOICE = "Download the monthly invoice from the billing page."
ASKED = {"context": {"contexts": ["guide"]}, "query": "How do I reset a forgotten password of my account?"}


@pytest.fixture
def gateway(start: Start, tmp_path: Path) -> Iterator[Client]:
    """A gateway with the installed model and a stored context."""
    semantic = {"enabled": True, "milliseconds": 5000}
    client = start(policies={}, semantic=semantic, store=f"sqlite:///{tmp_path / 'store.db'}")
    with run_indexing(client):
        yield client


def build_body(content: str) -> dict[str, Any]:
    other = text("We refund a damaged parcel within thirty days.", name="Refund", mode="semantic")
    return {"resources": {"topic": text(content, name="Topic", mode="semantic"), "refund": other}}


async def save(client: Client, path: str, content: str, method: str = "PUT") -> None:
    body = build_body(content) | ({"alias": "guide"} if method == "POST" else {})
    reply = await manage(client, method, path, body)
    assert reply.status in (200, 201), reply.text
    wait_until_indexed(client)


async def resolve(client: Client, **policies: Any) -> dict[str, Any]:
    reply = await manage(client, "POST", "/resolve", {**ASKED, **policies})
    assert reply.status == 200, reply.text
    return reply.json


def list_injected(shown: dict[str, Any]) -> list[str]:
    return [one["id"] for one in shown["selection"]["injected"]]


async def test_a_former_version_is_found_by_what_it_said(gateway: Client) -> None:
    await save(gateway, "/contexts", PASSWORD, "POST")
    before = await resolve(gateway)
    await save(gateway, "/contexts/guide", INVOICE)
    now, then = await resolve(gateway), await resolve(gateway, versions={"contexts/guide": 1})
    assert (list_injected(before), list_injected(now)) == (["guide/topic"], [])
    assert list_injected(then) == ["guide/topic"]
    # Exactly as it was when that version served: the same probability, the same request.
    scores = [shown["selection"]["injected"][0]["score"] for shown in (before, then)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)
    assert (then["request"], then["degraded"]) == (before["request"], [])


async def test_a_draft_is_found_by_what_it_says(gateway: Client) -> None:
    await save(gateway, "/contexts", INVOICE, "POST")
    await save(gateway, "/contexts/guide/draft", PASSWORD)
    assert list_injected(await resolve(gateway)) == []
    tried = await resolve(gateway, drafts=True)
    await manage(gateway, "POST", "/contexts/guide/publish")
    wait_until_indexed(gateway)
    served = await resolve(gateway)
    assert list_injected(tried) == list_injected(served) == ["guide/topic"]
    assert tried["request"] == served["request"]


async def test_a_draft_that_no_longer_says_it_is_not_found(gateway: Client) -> None:
    await save(gateway, "/contexts", PASSWORD, "POST")
    await save(gateway, "/contexts/guide/draft", INVOICE)
    assert (list_injected(await resolve(gateway)), list_injected(await resolve(gateway, drafts=True))) == (
        ["guide/topic"],
        [],
    )


async def test_what_is_tried_is_neither_served_nor_kept(gateway: Client) -> None:
    await save(gateway, "/contexts", INVOICE, "POST")
    await save(gateway, "/contexts/guide/draft", PASSWORD)
    await resolve(gateway)
    app = gateway.app
    assert app.semantic is not None
    assert app.semantic.indexer is not None
    before = (
        app.policies.current,
        app.pipeline.builder.memory.used,
        app.semantic.indexer.current,
        app.policies.generation,
    )
    for _ in range(5):
        await resolve(gateway, drafts=True)
    after = (
        app.policies.current,
        app.pipeline.builder.memory.used,
        app.semantic.indexer.current,
        app.policies.generation,
    )
    assert before == after
    assert list_injected(await resolve(gateway)) == []
