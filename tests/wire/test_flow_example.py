"""The worked example of the three layers: rules A, B and C, references X and Y, one session, the real model."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.contract_policies import names_in, text
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.semantic_gateway import run_indexing, wait_until_indexed
from tests.support.upstream import Upstream, say

AUTHENTICATION = "How to authenticate: send the API key as a bearer token in the Authorization header of every call."
ERRORS = "Error handling: every function returns a result object; catch errors at the boundary, log them, retry once."
RESOURCES: dict[str, Any] = {
    "a": text("Answer in English.", name="Rule A", kind="rule"),
    "b": text("Never mention prices.", name="Rule B", kind="rule", mode="manual"),
    "c": text(AUTHENTICATION, name="Rule C", description="How to authenticate", kind="rule", mode="semantic"),
    "x": text("The product is called Harbour.", name="Reference X", kind="reference"),
    "y": text(ERRORS, name="Reference Y", description="Error handling", kind="reference", mode="semantic"),
}
IDS = {resource["name"]: f"all/{key}" for key, resource in RESOURCES.items()}
POLICIES = {"contexts": {"all": {"resources": RESOURCES}}, "agents": {"assistant": {"contexts": ["all"]}}}


@pytest.fixture(scope="module")
def gateway(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    semantic = {"enabled": True, "milliseconds": 5000}  # for tests run on busy machines
    directory = tmp_path_factory.mktemp("flow")
    started = running_gateway(thread, directory, scripted.base_url, policies=POLICIES, semantic=semantic)
    with started as client, run_indexing(client):
        wait_until_indexed(client)
        assert client.app.pipeline.receipts is not None
        writing = asyncio.run_coroutine_threadsafe(client.app.pipeline.receipts.run(), thread.loop)
        yield client
        writing.cancel()


async def read_items(gateway: Client, receipt: str) -> dict[str, tuple[str, str]]:
    """What a receipt says was used: names with mode and how it came in."""
    for _ in range(400):
        shown = await manage(gateway, "GET", f"/receipts/{receipt}")
        if shown.status == 200 and shown.json["status"] == "ok":
            return {one["name"]: (one["mode"], one["via"]) for one in shown.json["selection"]["injected"]}
        await asyncio.sleep(0.01)
    raise AssertionError("the receipt was not written")


async def test_the_flow_example(gateway: Client, upstream: Upstream, stream: bool) -> None:
    session = f"flow-{stream}"
    # The session starts with what is always there; the user adds Rule B.
    added = await manage(gateway, "POST", f"/sessions/{session}/items", {"id": IDS["Rule B"]})
    assert added.status == 201
    seen = []
    for asked in ("How do I authenticate?", "What's the error handling?", "Thanks."):
        upstream.will(say("Done."))
        answered = await gateway.chat(asked, session=session, agent="assistant", stream=stream)
        items = await read_items(gateway, answered.headers["x-context-receipt"])
        assert list(items) == names_in(upstream.requests[-1])
        seen.append(items)
    in_session = {
        "Rule A": ("always", "contexts"),
        "Reference X": ("always", "contexts"),
        "Rule B": ("manual", "session"),
    }
    assert seen == [
        {**in_session, "Rule C": ("semantic", "semantic")},
        {**in_session, "Reference Y": ("semantic", "semantic")},
        in_session,
    ]
