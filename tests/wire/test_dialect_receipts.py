"""Receipts, limits, logs and replays of exchanges in other dialects than chat completions."""

from hashlib import sha256
from typing import Any

import orjson
import pytest

from tests.support.gateway import STYLE, Client, Start
from tests.support.management_client import manage
from tests.support.spoken import DIALECTS, Entry, Spoken
from tests.support.upstream import Upstream, mixed, say, tool_call
from tests.wire.test_receipts import recording, wait_finished

ADMIN = "an admin's key"
KEYS = [{"name": "admin", "sha256": sha256(ADMIN.encode()).hexdigest(), "role": "admin", "limits": {"tokens": 1000}}]
OWN = tool_call("get_context_resource", "own", resource_id=STYLE)
VARYING = {"id", "at", "seconds", "timings", "text", "usage", "turns", "dialect", "tools", "cached_tokens"}
VARYING |= {"model", "asked_model"}  # each dialect asks the upstream that speaks it


@pytest.fixture
def house(start: Start) -> Client:
    return start(
        auth={"keys": KEYS},
        receipts={"text": True},
        analytics={"sample": 1},  # every answer is compared with what was injected, not two of a hundred
        upstream_settings={"responses": True},
    )


async def ask(client: Client, spoken: Spoken, stream: bool, agent: str = "editor") -> str:
    body = orjson.dumps(spoken.write([Entry("user", "Tidy this")], stream=stream))
    headers = {"x_context_agent": agent, "authorization": f"Bearer {ADMIN}"}
    reply = await client.post(body, path=spoken.path, **headers)
    assert reply.status == 200, reply.raw
    return reply.headers["x-context-receipt"]


async def read_receipt(client: Client, id: str, count: int) -> dict[str, Any]:
    wait_finished(client, count)
    return (await manage(client, "GET", f"/receipts/{id}", authorization=f"Bearer {ADMIN}")).json


def count_all(usage: dict[str, int]) -> int:
    """What a turn used; Anthropic reports no sum."""
    return usage.get("total_tokens") or usage["input_tokens"] + usage["output_tokens"]


async def test_receipts_differ_in_the_dialect_only(house: Client, upstream: Upstream, stream: bool):
    told: list[dict[str, Any]] = []
    with recording(house):
        for count, spoken in enumerate(DIALECTS.values(), 1):
            upstream.will(mixed(OWN), say("Done."))
            receipt = await read_receipt(house, await ask(house, spoken, stream), count)
            assert receipt["dialect"] == spoken.name
            kept = {name: value for name, value in receipt.items() if name not in VARYING}
            kept["tools"] = [{name: value for name, value in one.items() if name != "ms"} for one in receipt["tools"]]
            kept["turns"] = [(one["status"], count_all(one["usage"])) for one in receipt["turns"]]
            kept["blocks"] = receipt["text"]["blocks"]
            told.append(kept)
            assert count_all(receipt["usage"]) == 24
    for one in told:
        assert one == told[0]


async def test_the_usage_of_what_is_relayed_is_told(house: Client, upstream: Upstream, stream: bool):
    with recording(house):
        for count, spoken in enumerate(DIALECTS.values(), 1):
            upstream.will(say("Done."))
            receipt = await read_receipt(house, await ask(house, spoken, stream, "bare"), count)
            assert count_all(receipt["usage"]) == 12


@pytest.mark.parametrize("spoken", DIALECTS.values(), ids=DIALECTS)
async def test_the_usage_of_what_is_relayed_is_charged(start: Start, upstream: Upstream, spoken: Spoken, stream: bool):
    house = start(auth={"keys": [KEYS[0] | {"limits": {"tokens": 13}}]}, upstream_settings={"responses": True})
    body = orjson.dumps(spoken.write([Entry("user", "Tidy this")], stream=stream))
    upstream.will(say("Done."), say("Done."))  # 12 tokens each, less than an estimate by the bytes of the request
    headers = {"x_context_agent": "bare", "authorization": f"Bearer {ADMIN}"}
    statuses = [(await house.post(body, path=spoken.path, **headers)).status for _ in range(3)]
    assert (statuses, len(body) // 4 > 12) == ([200, 200, 429], True)
