"""CONTRACT §5.5: models, and the endpoints that are passed through."""

from collections.abc import Iterator

import pytest

from tests.support.contract_policies import POLICIES, ask
from tests.support.gateway import Client, Start, Thread, running_gateway
from tests.support.upstream import Upstream, html, reply, say, status


@pytest.fixture(scope="module")
def house(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("models")
    with running_gateway(thread, directory, scripted.base_url, POLICIES, passthrough=["/v1/batches"]) as client:
        yield client


async def test_models_are_those_of_the_upstreams_and_the_agents(house: Client, upstream: Upstream) -> None:
    answer = await ask(house, path="/v1/models", method="GET")
    assert answer.status == 200
    assert answer.json["object"] == "list"
    cards = {card["id"]: card for card in answer.json["data"]}
    card = {"id": "m-large", "object": "model", "created": 1, "owned_by": "scripted"}
    assert card.items() <= cards["m-large"].items()
    assert "chat" in cards["m-large"]["dialects"]
    assert {name for name in cards if name.startswith("agent:")} == {f"agent:{alias}" for alias in POLICIES["agents"]}
    agent = cards["agent:editor"]
    assert (agent["object"], agent["owned_by"], type(agent["created"])) == ("model", "context-gateway", int)
    assert "x-context-degraded" not in answer.headers


@pytest.mark.parametrize("model", ["m-small", "agent:kind", "agent%3Akind"])
async def test_one_model_can_be_asked_for(house: Client, upstream: Upstream, model: str) -> None:
    answer = await ask(house, path=f"/v1/models/{model}", method="GET")
    assert (answer.status, answer.json["id"]) == (200, model.replace("%3A", ":"))


async def test_an_unknown_model_is_404_and_the_nearest_is_named(house: Client, upstream: Upstream) -> None:
    answer = await ask(house, path="/v1/models/m-smal", method="GET")
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    assert "'m-small'" in answer.error["message"]


async def test_a_dead_upstream_is_left_out_and_told(start: Start, upstream: Upstream) -> None:
    upstreams = {
        "scripted": {"kind": "openai", "base_url": upstream.base_url, "api_key": "k"},
        "dead": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": "k"},
    }
    answer = await ask(start(policies=POLICIES, upstreams=upstreams), path="/v1/models", method="GET")
    assert (answer.status, answer.headers["x-context-degraded"]) == (200, "models")
    names = [card["id"] for card in answer.json["data"]]
    assert {"m-large", "agent:kind"} <= set(names)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/embeddings",
        "/v1/completions",
        "/v1/moderations",
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/batches",
        "//v1/./embeddings/",
        "/v1/%65mbeddings",
    ],
)
async def test_allowed_paths_are_passed_through_byte_by_byte(house: Client, upstream: Upstream, path: str) -> None:
    body, told = b'{ "model":"m-large","input" :"x","context":{"a":1} }', b' {"data" : [ ]}'
    upstream.will(reply(told))
    answer = await ask(house, [("cookie", "a=b"), ("idempotency-key", "k")], body, path)
    assert (answer.status, answer.raw) == (200, told)
    (seen,) = upstream.seen
    assert (seen.body, seen.headers["authorization"]) == (body, "Bearer sk-upstream")
    assert ("cookie" in seen.headers, seen.headers["idempotency-key"]) == (False, "k")
    assert seen.path in ("/v1/" + part for part in (path.split("v1/")[1], "embeddings"))


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files",
        "/v1/embeddings/../files",
        "/v1/images/../files",
        "/v1/audio/%2e%2e/files",
        "/v1/images",
        "/v1/embeddingsx",
        "/v1/batches/b_1/cancel",
        "/V1/embeddings",
        "/v2/embeddings",
    ],
)
async def test_other_paths_are_not(house: Client, upstream: Upstream, path: str) -> None:
    answer = await ask(house, path=path)
    assert (answer.status, answer.error["code"]) == (404, "unknown_endpoint")
    assert not upstream.seen


@pytest.mark.parametrize("path", ["/v1/images/..%2ffiles", "/v1/audio/%00"])
async def test_escapes_that_servers_read_differently_are_refused(house: Client, upstream: Upstream, path: str) -> None:
    assert (await ask(house, path=path)).status == 400
    assert not upstream.seen


async def test_failures_of_what_is_passed_through(house: Client, upstream: Upstream) -> None:
    for step, code, name in ((status(401), 502, "upstream_auth"), (html(), 502, "upstream_invalid")):
        upstream.will(step)
        answer = await ask(house, path="/v1/embeddings")
        assert (answer.status, answer.error["code"]) == (code, name)
    upstream.will(status(429, {"error": "slow"}, retry_after="3"))
    answer = await ask(house, path="/v1/embeddings")
    assert (answer.status, answer.json, answer.headers["retry-after"]) == (429, {"error": "slow"}, "3")


async def test_a_chat_path_may_be_spelt_in_any_way(house: Client, upstream: Upstream) -> None:
    for path in ("/v1/chat/completions/", "//v1//chat/completions", "/v1/x/../chat/completions"):
        upstream.will(say("Done."))
        assert (await ask(house, path=path)).text == "Done."
