"""CONTRACT §5.4: which headers pass, in either direction."""

from collections.abc import Iterator
from hashlib import sha256

import pytest

from tests.support.contract_policies import BODY, POLICIES, about, ask
from tests.support.gateway import Client, Start, Thread, running_gateway
from tests.support.upstream import Upstream, call, say, status

UP = [
    ("accept", "application/json"),
    ("user-agent", "test/1"),
    ("openai-beta", "x=1"),
    ("tracestate", "vendor=1"),
    ("x-title", "Desk"),
    ("x-client-request-id", "mine-1"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
]
NEVER_UP = [
    ("cookie", "a=b"),
    ("authorization", "Bearer sk-client"),
    ("x-forwarded-for", "1.2.3.4"),
    ("x-forwarded-host", "x"),
    ("x-api-key", "k"),
    ("api-key", "k"),
    ("openai-organization", "org-1"),
    ("openai-project", "proj-1"),
    ("x-custom", "y"),
    ("referer", "http://x"),
    *about(agent="kind", session="s"),
]


@pytest.fixture(scope="module")
def house(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running_gateway(thread, tmp_path_factory.mktemp("forwarding"), scripted.base_url, POLICIES) as client:
        yield client


async def test_only_the_named_headers_go_up_with_the_upstreams_own_key(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    await ask(house, [*UP, *NEVER_UP])
    (headers,) = upstream.headers
    assert {name: headers[name] for name, _ in UP} == dict(UP)
    assert headers["authorization"] == "Bearer sk-upstream"
    assert headers["content-type"] == "application/json"
    allowed = {name for name, _ in UP} | {"authorization", "content-type", "host", "content-length", "accept-encoding"}
    assert set(headers) <= allowed
    assert headers["host"] == f"127.0.0.1:{upstream.port}"


async def test_the_idempotency_key_goes_up_on_the_first_turn_only(
    house: Client, upstream: Upstream, stream: bool
) -> None:
    upstream.will(call("get_context_resource", resource_id="house/style"), say("Done."))
    await ask(house, [("idempotency-key", "k-1"), *UP, *about(agent="editor")], BODY | {"stream": stream})
    first, second = upstream.headers
    assert (first["idempotency-key"], "idempotency-key" in second) == ("k-1", False)
    assert second["openai-beta"] == "x=1"


DOWN = {
    "x-request-id": "req-1",
    "openai-processing-ms": "12",
    "openai-version": "2020-10-01",
}
ACCOUNT = {
    "x-ratelimit-remaining-requests": "9",
    "x-ratelimit-limit-tokens": "90000",
    "openai-organization": "org-of-the-gateway",
    "openai-project": "proj-of-the-gateway",
}
NEVER_DOWN = {"set-cookie": "a=b", "x-custom": "y", "server": "z", "access-control-allow-origin": "*"}


@pytest.mark.parametrize("agent", ["kind", "editor"])
async def test_only_the_named_headers_come_down(house: Client, upstream: Upstream, stream: bool, agent: str) -> None:
    given = tuple((DOWN | NEVER_DOWN | {"x-context-receipt": "forged", "x-context-tokens": "1"}).items())
    upstream.will(say("Done.").but(headers=given))
    answer = await ask(house, about(agent=agent), BODY | {"stream": stream})
    assert {name: answer.headers.get(name) for name in DOWN} == DOWN
    assert not set(NEVER_DOWN) & set(answer.headers)
    assert answer.headers["x-context-receipt"] != "forged"
    assert "," not in answer.headers["x-context-tokens"]


@pytest.mark.parametrize("shown", [False, True])
async def test_what_tells_of_the_account_comes_down_only_if_configured(
    start: Start, upstream: Upstream, stream: bool, shown: bool
) -> None:
    gateway = start(policies=POLICIES, upstream_settings={"account_headers": shown} if shown else {})
    answered = say("Done.").but(headers=tuple((DOWN | ACCOUNT).items()))
    upstream.will(answered, answered, status(429, **{name.replace("-", "_"): value for name, value in ACCOUNT.items()}))
    answers = [
        await ask(gateway, about(agent=agent), BODY | {"stream": stream}) for agent in ("kind", "editor", "kind")
    ]
    assert [answer.status for answer in answers] == [200, 200, 429]
    for answer in answers:
        assert {name: answer.headers[name] for name in ACCOUNT if name in answer.headers} == (ACCOUNT if shown else {})


async def test_what_tells_of_the_account_does_not_pass_through_either(start: Start, upstream: Upstream) -> None:
    upstream.will(say("Done.").but(headers=tuple(ACCOUNT.items())))
    answer = await start().post(b'{"model": "m", "input": "x"}', "/embeddings")
    assert (answer.status, set(ACCOUNT) & set(answer.headers)) == (200, set())


async def test_they_come_down_with_errors_too(house: Client, upstream: Upstream) -> None:
    upstream.will(status(429, retry_after="9", x_request_id="req-2", set_cookie="a=b"))
    answer = await ask(house)
    assert (answer.headers["retry-after"], answer.headers["x-request-id"]) == ("9", "req-2")
    assert "set-cookie" not in answer.headers


async def test_a_body_cannot_choose_the_upstream_or_its_key(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    foreign = {
        "api_base": "http://127.0.0.1:9",
        "base_url": "http://127.0.0.1:9",
        "api_key": "k",
        "extra_headers": {"x": "y"},
    }
    assert (await ask(house, body=BODY | foreign)).status == 200
    assert upstream.headers[0]["authorization"] == "Bearer sk-upstream"
    assert "x" not in upstream.headers[0]


KEYS = {"keys": [{"name": "site", "sha256": sha256(b"gw-key").hexdigest()}]}


@pytest.fixture
def passing(start: Start) -> Client:
    return start(policies=POLICIES, auth=KEYS, upstream_settings={"pass_bearer": True})


async def test_with_pass_through_the_clients_bearer_goes_up_and_our_key_comes_apart(
    passing: Client, upstream: Upstream
) -> None:
    upstream.will(say("Done."))
    answer = await ask(passing, [("authorization", "Bearer sk-mine"), ("x-context-key", "gw-key")])
    assert answer.status == 200
    assert upstream.headers[0]["authorization"] == "Bearer sk-mine"
    assert "x-context-key" not in upstream.headers[0]


async def test_our_own_key_never_goes_up(passing: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    assert (await ask(passing, [("authorization", "Bearer gw-key")])).status == 200
    assert "gw-key" not in str(upstream.headers[0])


@pytest.mark.parametrize("agent", ["kind", "editor"])
async def test_with_pass_through_the_upstreams_refusal_passes(passing: Client, upstream: Upstream, agent: str) -> None:
    told = {"error": {"message": "Bad key", "type": "t", "param": None, "code": "invalid_api_key"}}
    upstream.will(status(401, told))
    answer = await ask(passing, [("authorization", "Bearer sk-mine"), ("x-context-key", "gw-key"), *about(agent=agent)])
    assert (answer.status, answer.json) == (401, told)
