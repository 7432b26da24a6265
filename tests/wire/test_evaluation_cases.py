"""Saved cases: stored like other objects, and run with drafts beside the policies that serve."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.edge.manage import evaluation_cases
from tests.support.contract_policies import text
from tests.support.gateway import Client, Start
from tests.support.management_client import manage
from tests.support.semantic_gateway import run_indexing, wait_until_indexed

PASSWORD = "Reset a forgotten password on the account settings page."
INVOICE = "Download the monthly invoice from the billing page."
ASKED = "How do I reset a forgotten password of my account?"
RUN = "/evaluation-cases/run"


@pytest.fixture
def client(start: Start, tmp_path: Path) -> Client:
    return start(policies={}, defaults={"model": "m"}, store=f"sqlite:///{tmp_path / 'store.db'}")


async def save_context(client: Client, content: str, path: str = "", **more: Any) -> None:
    resources = {"topic": text(content, name="Topic", **more), "other": text("Be brief.", name="Other")}
    method = "PUT" if path else "POST"
    reply = await manage(client, method, f"/contexts{path}", {"alias": "guide", "resources": resources})
    assert reply.status in (200, 201), reply.text


async def save_case(client: Client, *expect: str, question: str = ASKED, **more: Any) -> dict[str, Any]:
    reply = await manage(client, "POST", "/evaluation-cases", {"question": question, "expect": list(expect), **more})
    assert reply.status == 201, reply.text
    return reply.json


async def test_a_case_is_saved_read_changed_and_deleted(client: Client) -> None:
    case = await save_case(client, "guide/topic", earlier=["Hello"], language="de")
    assert case["id"].startswith("case-")
    path = f"/evaluation-cases/{case['id']}"
    read = await manage(client, "GET", path)
    assert read.json == case
    tag = read.headers["etag"]
    changed = await manage(client, "PUT", path, {"question": "Another?", "expect": []}, if_match=tag)
    assert (changed.json["question"], changed.json["version"], changed.json["language"]) == ("Another?", 2, None)
    stale = await manage(client, "PUT", path, {"question": "Mine?", "expect": []}, if_match=tag)
    assert stale.status == 412
    listed = await manage(client, "GET", "/evaluation-cases?filter=another")
    assert [one["id"] for one in listed.json["items"]] == [case["id"]]
    assert (await manage(client, "DELETE", path)).status == 204
    assert (await manage(client, "GET", path)).status == 404


async def test_saving_a_case_changes_no_policy_and_leaves_a_trace(client: Client) -> None:
    await save_context(client, PASSWORD)
    asked = {"context": {"contexts": ["guide"]}, "query": ASKED}
    before = (await manage(client, "POST", "/resolve", asked)).json["snapshot"]
    await save_case(client)
    assert (await manage(client, "POST", "/resolve", asked)).json["snapshot"] == before
    entry = (await manage(client, "GET", "/audit?kind=cases")).json["items"][0]
    assert (entry["action"], entry["by"]) == ("create", "anonymous")


@pytest.mark.parametrize(
    "body",
    [
        {"question": "", "expect": []},
        {"question": "x" * 8001, "expect": []},
        {"question": "x"},
        {"question": "x", "expect": ["a"] * 51},
        {"question": "x", "expect": [], "unknown": 1},
        {"question": "x", "expect": [], "earlier": ["y"] * 21},
        {"question": "x", "expect": ["a" * 501]},
    ],
)
async def test_a_case_that_is_not_one_is_refused(client: Client, body: dict[str, Any]) -> None:
    assert (await manage(client, "POST", "/evaluation-cases", body)).status == 422


async def test_a_workspace_saves_only_so_many(start: Start, tmp_path: Path) -> None:
    client = start(policies={}, quotas={"cases": 1}, store=f"sqlite:///{tmp_path / 'store.db'}")
    await save_case(client)
    refused = await manage(client, "POST", "/evaluation-cases", {"question": "One more?", "expect": []})
    assert (refused.status, refused.json["code"]) == (403, "quota_exceeded")


async def test_a_run_tells_what_a_draft_would_change(client: Client) -> None:
    await save_context(client, PASSWORD)
    await manage(client, "POST", "/agents", {"alias": "desk", "contexts": ["guide"]})
    await save_context(client, f"{PASSWORD} Twice.", "/guide/draft")
    case = await save_case(client, "guide/topic", agent="desk")
    other = await save_case(client, agent="nobody")
    shown = (await manage(client, "POST", RUN, {"drafts": ["contexts/guide"]})).json
    assert (shown["compared"], shown["changed"], shown["failed"]) == (1, 1, 1)
    first, second = shown["items"]
    assert (first["id"], first["same"], first["changed"]) == (case["id"], False, ["guide/topic"])
    assert first["tokens"]["to"] > first["tokens"]["from"]
    # What is always placed is what was expected, too.
    assert [first["outcome"][side]["right"] for side in ("from", "to")] == [True, True]
    assert shown["figures"]["from"]["recall"] == shown["figures"]["to"]["recall"] == 1.0
    assert (second["id"], second["same"]) == (other["id"], None)
    assert "nobody" in second["error"]


async def test_a_run_without_other_policies_changes_nothing(client: Client) -> None:
    await save_context(client, PASSWORD)
    await save_case(client, "guide/topic")
    shown = (await manage(client, "POST", RUN, {})).json
    assert (shown["compared"], shown["changed"]) == (1, 0)
    assert shown["items"][0]["outcome"]["to"]["missed"][0]["id"] == "guide/topic"  # the context is not assigned


async def test_a_run_of_a_case_that_is_gone_is_refused(client: Client) -> None:
    assert (await manage(client, "POST", RUN, {"cases": ["case-000000000000"]})).status == 404
    assert (await manage(client, "POST", RUN, {"drafts": ["contexts/none"]})).status == 422
    assert (await manage(client, "POST", RUN, {"cases": ["x"] * 101})).status == 422


@pytest.fixture
def searching(start: Start, tmp_path: Path) -> Iterator[Client]:
    """A gateway with the installed model."""
    semantic = {"enabled": True, "milliseconds": 5000}
    store = f"sqlite:///{tmp_path / 'store.db'}"
    started = start(policies={}, semantic=semantic, defaults={"model": "m"}, store=store)
    with run_indexing(started):
        yield started


async def test_figures_before_and_after_show_what_a_draft_loses(searching: Client) -> None:
    await save_context(searching, PASSWORD, mode="semantic")
    await manage(searching, "POST", "/agents", {"alias": "desk", "contexts": ["guide"]})
    wait_until_indexed(searching)
    await save_context(searching, INVOICE, "/guide/draft", mode="semantic")
    await save_case(searching, "guide/topic", agent="desk")
    await save_case(searching, question="What is the capital of France?", agent="desk")
    shown = (await manage(searching, "POST", RUN, {"drafts": True})).json
    before, after = shown["figures"]["from"], shown["figures"]["to"]
    assert (before["recall"], after["recall"]) == (1.0, 0.0)
    assert (before["false_injections"], after["false_injections"]) == (0.0, 0.0)
    lost = shown["items"][0]
    assert (lost["removed"], lost["outcome"]["to"]["missed"][0]["id"]) == (["guide/topic"], "guide/topic")


async def test_a_run_says_how_many_cases_there_are_beyond_those_that_it_took(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_cases, "MAX_RUN", 2)
    ids = [(await save_case(client, question=f"Question {number}?"))["id"] for number in range(3)]
    await save_context(client, PASSWORD)
    every = (await manage(client, "POST", RUN, {})).json
    assert (every["total"], [one["id"] for one in every["items"]]) == (3, ids[:2])
    some = (await manage(client, "POST", RUN, {"cases": ids[:2]})).json
    assert (some["total"], [one["id"] for one in some["items"]]) == (2, ids[:2])
