"""CONTRACT §5.1 and §5.3: every failure in OpenAI's shape, with the gateway's headers."""

from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.support.contract_policies import BODY, POLICIES, about, ask
from tests.support.gateway import Client, ClientReply, Start, Thread, running_gateway
from tests.support.upstream import Answer, Gate, Upstream, call, hang_up, html, raw_events, reply, say, status

LIMITS = {"body_bytes": 5000, "header_bytes": 4000, "drain_seconds": 1}


@pytest.fixture(scope="module")
def house(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("errors")
    with running_gateway(thread, directory, scripted.base_url, POLICIES, limits=LIMITS) as client:
        yield client


def check_shape(answer: ClientReply, code: int, name: str) -> None:
    assert answer.status == code, answer.raw
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json) == ["error"]
    assert sorted(answer.error) == ["code", "message", "param", "type"]
    assert answer.error["code"] == name
    assert answer.error["message"]


def check_headers(answer: ClientReply, client: Client) -> None:
    assert answer.headers["x-context-receipt"]
    assert answer.headers["x-context-injected"].isdigit()
    assert answer.headers["x-context-tokens"].isdigit()
    assert answer.headers["x-context-snapshot"] == client.app.policies.current.hash[:12]
    assert len(answer.headers["x-context-snapshot"]) == 12


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "invalid_json"),
        (b'{"messages": [], "a": NaN}', "invalid_json"),
        (b'{"messages": [], "a": "\\ud800"}', "invalid_json"),
        (b'{"messages": [], "a": "\xff"}', "invalid_json"),
        (b"\xef\xbb\xbf{}", "invalid_json"),
        (b"[]", "invalid_request"),
        (b"{}", "invalid_request"),
        (b'{"messages": "hi"}', "invalid_request"),
    ],
)
async def test_bodies_that_cannot_be_read_are_400(house: Client, upstream: Upstream, body: bytes, code: str) -> None:
    answer = await ask(house, body=body)
    check_shape(answer, 400, code)
    check_headers(answer, house)


@pytest.mark.parametrize(
    ("headers", "status_code", "code"),
    [
        (about(agent="nobody"), 400, "unknown_agent"),
        (about(user="ann"), 403, "user_not_allowed"),
        ([("content-type", "text/plain")], 415, "unsupported_media_type"),
        ([("content-encoding", "gzip")], 415, "unsupported_media_type"),
    ],
)
async def test_every_refusal_carries_the_gateways_headers(
    house: Client, upstream: Upstream, headers: list[tuple[str, str]], status_code: int, code: str
) -> None:
    answer = await ask(house, headers)
    check_shape(answer, status_code, code)
    check_headers(answer, house)


async def test_an_answer_carries_them_too(house: Client, upstream: Upstream, stream: bool) -> None:
    upstream.will(say("Done."))
    answer = await ask(house, about(agent="editor"), BODY | {"stream": stream})
    check_headers(answer, house)
    assert (answer.headers["x-context-injected"], int(answer.headers["x-context-tokens"]) > 50) == ("1", True)
    assert "x-context-degraded" not in answer.headers


async def test_receipts_differ(house: Client, upstream: Upstream) -> None:
    upstream.will(say("One."), say("Two."))
    receipts = {(await ask(house)).headers["x-context-receipt"] for _ in range(2)}
    assert len(receipts) == 2


async def test_nothing_injected_costs_nothing(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    answer = await ask(house, about(inject="off"))
    assert (answer.headers["x-context-injected"], answer.headers["x-context-tokens"]) == ("0", "0")


async def test_what_is_degraded_is_told(start: Start, upstream: Upstream, stream: bool) -> None:
    page = {"type": "external-link", "data": {"url": "https://example.com/never-fetched"}}
    client = start(policies={"contexts": {"linked": {"default": True, "resources": {"page": page}}}})
    upstream.will(say("Done."))
    answer = await ask(client, body=BODY | {"stream": stream})
    assert (answer.status, answer.headers["x-context-degraded"]) == (200, "links")


async def test_a_body_that_is_too_large_is_413(house: Client, upstream: Upstream) -> None:
    answer = await ask(house, body=BODY | {"padding": "x" * 6000})
    check_shape(answer, 413, "request_too_large")
    check_headers(answer, house)


async def test_headers_that_are_too_large_are_431(house: Client, upstream: Upstream) -> None:
    check_shape(await ask(house, [("x-padding", "x" * 5000)]), 431, "headers_too_large")


@pytest.mark.parametrize("path", ["/v1/files", "/v1/fine_tuning/jobs", "/v1", "/", "/v1/chat", "/v1/embeddings/x"])
async def test_other_paths_are_404(house: Client, upstream: Upstream, path: str) -> None:
    check_shape(await ask(house, path=path), 404, "unknown_endpoint")
    assert not upstream.seen


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/realtime"])
async def test_what_is_not_built_yet_is_501(house: Client, upstream: Upstream, path: str) -> None:
    answer = await ask(house, path=path)
    assert (answer.status, sorted(answer.error)) == (501, ["code", "message", "param", "type"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/chat/completions"),
        ("DELETE", "/v1/chat/completions"),
        ("POST", "/v1/models"),
        ("POST", "/livez"),
        ("PUT", "/metrics"),
    ],
)
async def test_wrong_methods_are_405(house: Client, upstream: Upstream, method: str, path: str) -> None:
    check_shape(await ask(house, path=path, method=method), 405, "method_not_allowed")


@pytest.mark.parametrize("agent", ["kind", "editor"])  # relayed, and with our tools
@pytest.mark.parametrize(
    ("step", "code", "name"),
    [
        (hang_up(), 502, "upstream_unreachable"),
        (html(), 502, "upstream_invalid"),
        (html(500), 502, "upstream_invalid"),
        (reply(b"hello", "text/plain"), 502, "upstream_invalid"),
        (status(401), 502, "upstream_auth"),
        (html(403), 502, "upstream_auth"),
    ],
)
async def test_an_upstream_that_fails(
    house: Client, upstream: Upstream, stream: bool, agent: str, step: Any, code: int, name: str
) -> None:
    upstream.will(step)
    answer = await ask(house, about(agent=agent), BODY | {"stream": stream})
    check_shape(answer, code, name)
    check_headers(answer, house)
    assert "sk-upstream" not in answer.raw.decode()


@pytest.mark.parametrize("agent", ["kind", "editor"])
@pytest.mark.parametrize("code", [400, 403, 404, 422, 429, 500, 503])
async def test_what_the_upstream_says_about_a_request_passes_as_it_is(
    house: Client, upstream: Upstream, stream: bool, agent: str, code: int
) -> None:
    told = {"error": {"message": "No.", "type": "t", "param": None, "code": "c"}, "more": [1]}
    upstream.will(status(code, told, retry_after="7"))
    answer = await ask(house, about(agent=agent), BODY | {"stream": stream})
    assert (answer.status, answer.json, answer.headers["retry-after"]) == (code, told, "7")
    check_headers(answer, house)


@pytest.mark.parametrize("code", [429, 500, 502, 503])
async def test_failures_are_retried_before_they_are_told(start: Start, upstream: Upstream, code: int) -> None:
    client = start(policies=POLICIES, upstream_settings={"retries": 1})
    upstream.will(status(code), say("Better."))
    assert (await ask(client)).text == "Better."
    upstream.will(status(code), status(code, {"last": True}, retry_after="1"))
    answer = await ask(client)
    assert (answer.status, answer.json, answer.headers["retry-after"]) == (code, {"last": True}, "1")


async def test_a_silent_upstream_is_504(start: Start, upstream: Upstream, stream: bool) -> None:
    client = start(policies=POLICIES, upstream_settings={"timeouts": {"first_byte": 0.2}})
    gate = Gate()
    upstream.will(Answer({"role": "assistant", "content": "late"}, "stop", before=(gate,)))
    answer = await ask(client, body=BODY | {"stream": stream})
    gate.open()
    check_shape(answer, 504, "upstream_timeout")
    check_headers(answer, client)


async def test_an_upstream_that_refuses_connections_is_502(start: Start, upstream: Upstream) -> None:
    client = start(policies=POLICIES, upstream_settings={"base_url": "http://127.0.0.1:9/v1"})
    answer = await ask(client)
    check_shape(answer, 502, "upstream_unreachable")
    check_headers(answer, client)


@pytest.mark.parametrize("agent", ["kind", "editor"])
async def test_a_failure_inside_a_stream_is_one_error_event_and_no_done(
    house: Client, upstream: Upstream, agent: str
) -> None:
    chunk = {"id": "1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Half"}}]}
    upstream.will(raw_events([chunk], end="reset"))
    answer = await ask(house, about(agent=agent), BODY | {"stream": True})
    assert (answer.status, answer.text, answer.done) == (200, "Half", False)
    assert sorted(answer.error) == ["code", "message", "param", "type"]
    assert answer.raw.endswith(b"}\n\n")


async def test_the_loop_limit_is_502(start: Start, upstream: Upstream) -> None:
    agents = {"hasty": {"contexts": ["house"], "max_turns": 1}}
    client = start(policies=POLICIES | {"agents": agents})
    upstream.will(call("get_context_resource", resource_id="house/style"))
    answer = await ask(client, about(agent="hasty"))
    check_shape(answer, 502, "loop_limit")


@pytest.mark.parametrize("address", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example"])
async def test_a_foreign_host_is_refused(house: Client, upstream: Upstream, address: str) -> None:
    check_shape(await ask(house, [("host", address)]), 403, "forbidden_host")


async def test_a_foreign_origin_is_refused_and_a_loopback_one_is_not(house: Client, upstream: Upstream) -> None:
    check_shape(await ask(house, [("origin", "https://evil.example")]), 403, "forbidden_host")
    upstream.will(say("Done."))
    assert (await ask(house, [("origin", "http://localhost:3000")])).status == 200


async def test_an_unknown_model_is_refused(start: Start, upstream: Upstream) -> None:
    client = start(policies=POLICIES, routes=[{"model": "m-large", "upstream": "scripted"}])
    answer = await ask(client, body=BODY | {"model": "m-lage"})
    check_shape(answer, 404, "model_not_found")
    assert (answer.error["param"], "'m-large'" in answer.error["message"]) == ("model", True)


async def test_after_any_refusal_the_connection_can_be_used_again(house: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
        url = house.base_url + "/chat/completions"
        for body in ({}, {"messages": 5}, BODY):
            async with session.post(url, json=body) as response:
                await response.read()
        assert response.status == 200
