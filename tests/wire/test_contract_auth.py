"""Keys: who is let in, and what is told to whom is not."""

from collections.abc import Iterator
from hashlib import sha256

import pytest

from tests.support.contract_policies import BODY, POLICIES, about, ask, names_in
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.upstream import Upstream, say

KEYS = [
    {"name": "site", "sha256": sha256(b"gw-site").hexdigest(), "agents": ["kind", "calm"]},
    {"name": "other", "sha256": sha256(b"gw-other").hexdigest().upper(), "workspace": "elsewhere", "agent": "kind"},
]


@pytest.fixture(scope="module")
def keyed(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("auth")
    with running_gateway(thread, directory, scripted.base_url, POLICIES, auth={"keys": KEYS}) as client:
        yield client


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("authorization", "Bearer wrong")],
        [("authorization", "Bearer ")],
        [("authorization", "gw-site")],
        [("authorization", "Basic gw-site")],
        [("authorization", f"Bearer {sha256(b'gw-site').hexdigest()}")],
        [("x-context-key", "wrong"), ("authorization", "Bearer gw-site")],
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/embeddings", "/v1/files"])
async def test_without_a_known_key_nobody_is_let_in_and_nothing_is_told(
    keyed: Client, upstream: Upstream, headers: list[tuple[str, str]], path: str
) -> None:
    answer = await ask(keyed, headers, path=path, method="GET" if path == "/v1/models" else "POST")
    assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
    assert sorted(answer.error) == ["code", "message", "param", "type"]
    assert not any(name.startswith("x-context-") for name in answer.headers)
    assert not upstream.seen


async def test_an_empty_key_is_none_and_a_repeated_one_is_refused(keyed: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    assert (await ask(keyed, [("x-context-key", ""), ("authorization", "Bearer gw-other")])).status == 200
    answer = await ask(keyed, [("x-context-key", "gw-other"), ("x-context-key", "gw-other")])
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "invalid_request", "x-context-key")


async def test_a_key_comes_as_bearer_or_in_a_header_of_its_own(keyed: Client, upstream: Upstream) -> None:
    for headers in ([("authorization", "Bearer gw-site")], [("authorization", "bearer gw-site")], about(key="gw-site")):
        upstream.will(say("Done."))
        assert (await ask(keyed, [*headers, *about(agent="kind")])).status == 200
        assert "gw-site" not in str(upstream.headers[-1])


async def test_the_workspace_comes_from_the_key_and_tags_the_blocks(keyed: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."), say("Done."))
    await ask(keyed, [("authorization", "Bearer gw-site"), *about(agent="kind")])
    await ask(keyed, [("authorization", "Bearer gw-other")])
    first, second = (request["messages"][0]["content"] for request in upstream.requests)
    assert names_in(upstream.requests[0]) == names_in(upstream.requests[1]) == ["Kind"]
    assert first.split("\n")[0] != second.split("\n")[0]


async def test_suggestions_name_only_what_the_key_may_see(keyed: Client, upstream: Upstream) -> None:
    answer = await ask(keyed, [("authorization", "Bearer gw-site"), *about(agent="writter")])
    assert (answer.error["code"], "writer" in answer.error["message"]) == ("unknown_agent", False)
    answer = await ask(keyed, [("authorization", "Bearer gw-other"), *about(agent="writter")])
    assert "'writer'" in answer.error["message"]


async def test_models_are_filtered_by_the_key(keyed: Client, upstream: Upstream) -> None:
    answer = await ask(keyed, [("authorization", "Bearer gw-site")], path="/v1/models", method="GET")
    agents = [card["id"] for card in answer.json["data"] if card["id"].startswith("agent:")]
    assert agents == ["agent:kind", "agent:calm"]
    for model, code in (("agent:kind", 200), ("agent:editor", 404)):
        path = f"/v1/models/{model}"
        answer = await ask(keyed, [("authorization", "Bearer gw-site")], path=path, method="GET")
        assert answer.status == code


async def test_with_keys_any_host_and_origin_may_be_named(keyed: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    headers = [("authorization", "Bearer gw-site"), ("host", "gateway.example"), ("origin", "https://app.example")]
    assert (await ask(keyed, [*headers, *about(agent="kind")], BODY)).status == 200


async def test_health_needs_no_key(keyed: Client, upstream: Upstream) -> None:
    for path in ("/livez", "/readyz"):
        assert (await ask(keyed, path=path, method="GET")).status == 200
