"""Retries do not multiply: a client that retries sees what it would see of the bare upstream."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.support.contract_policies import BODY, POLICIES, about, ask
from tests.support.gateway import Client, Start, Thread, running_gateway
from tests.support.upstream import Upstream, call, hang_up, html, say, status

HELLO: Any = [{"role": "user", "content": "Tidy this"}]
OWN = call("get_context_resource", resource_id="house/style")
SOON = {"retry_after_ms": "5"}


@pytest.fixture(scope="module")
def house(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A gateway whose configuration says nothing about retries."""
    directory, silent = tmp_path_factory.mktemp("retries"), {"retries": None}
    with running_gateway(thread, directory, scripted.base_url, POLICIES, upstream_settings=silent) as client:
        yield client


def create(gateway: Client, **said: Any) -> Any:
    with OpenAI(base_url=gateway.base_url, api_key="unused", max_retries=2) as client:
        return client.chat.completions.create(model="m-large", messages=HELLO, **said)


@pytest.mark.parametrize("code", [429, 500, 503])
@pytest.mark.parametrize("agent", ["kind", "editor"])  # relayed, and with our tools
def test_the_upstream_is_called_as_often_as_the_client_tries(
    house: Client, upstream: Upstream, code: int, agent: str
) -> None:
    upstream.will(*[status(code, **SOON)] * 3)
    with pytest.raises(openai.APIStatusError) as caught:
        create(house, extra_headers={"x-context-agent": agent})
    assert (caught.value.status_code, len(upstream.seen)) == (code, 3)
    assert caught.value.response.headers["retry-after-ms"] == "5"


def test_a_client_that_is_told_not_to_retry_does_not(house: Client, upstream: Upstream) -> None:
    upstream.will(status(500, x_should_retry="false"))
    with pytest.raises(openai.InternalServerError) as caught:
        create(house)
    assert (len(upstream.seen), caught.value.response.headers["x-should-retry"]) == (1, "false")


@pytest.mark.parametrize("step", [status(401), html(403)])
def test_a_refused_key_of_the_gateway_is_not_tried_again(house: Client, upstream: Upstream, step: Any) -> None:
    upstream.will(step)
    with pytest.raises(openai.InternalServerError) as caught:
        create(house)
    assert (caught.value.code, len(upstream.seen)) == ("upstream_auth", 1)


async def test_own_errors_that_last_say_so(house: Client, start: Start, upstream: Upstream) -> None:
    assert (await ask(house, path="/v1/conversations")).headers["x-should-retry"] == "false"
    assert "x-should-retry" not in (await ask(house, about(agent="nobody"))).headers
    closed = start(policies=POLICIES, upstream_settings={"api_key": ""})
    answer = await ask(closed)
    assert (answer.error["code"], answer.headers["x-should-retry"]) == ("upstream_disabled", "false")


REASON = {
    "error": {"message": "Project `proj_abcdef1234` has no access to model `m-large`.", "code": "model_not_found"}
}


@pytest.mark.parametrize("shown", [False, True])
async def test_a_403_keeps_its_reason_without_the_name_of_the_account(
    start: Start, upstream: Upstream, stream: bool, shown: bool
) -> None:
    gateway = start(policies=POLICIES, upstream_settings={"account_headers": shown})
    upstream.will(status(403, REASON))
    answer = await ask(gateway, body=BODY | {"stream": stream})
    assert (answer.status, answer.error["code"]) == (403, "model_not_found")
    name = "proj_abcdef1234" if shown else "[hidden]"
    assert answer.error["message"] == f"Project `{name}` has no access to model `m-large`."


async def test_a_403_passes_through_with_its_reason(start: Start, upstream: Upstream) -> None:
    upstream.will(status(403, REASON))
    answer = await start().post(b'{"model": "m", "input": "x"}', "/embeddings")
    assert (answer.status, answer.error["message"][:19]) == (403, "Project `[hidden]` ")


async def test_a_rate_limit_in_a_later_turn_is_one_in_the_error_event(house: Client, upstream: Upstream) -> None:
    told = {"error": {"message": "slow down", "type": "requests", "param": None, "code": "x"}}
    upstream.will(OWN, status(429, told, retry_after="9"))
    answer = await ask(house, about(agent="editor"), BODY | {"stream": True})
    assert (answer.error["type"], answer.error["code"], answer.done) == (
        "rate_limit_error",
        "upstream_rate_limited",
        False,
    )
    assert "slow down" in answer.error["message"]


async def test_only_the_gateway_can_repeat_a_later_turn_of_a_stream(house: Client, upstream: Upstream) -> None:
    upstream.will(OWN, status(429, **SOON), status(503, **SOON), say("Done."))
    answer = await ask(house, about(agent="editor"), BODY | {"stream": True})
    assert (answer.text, answer.done, len(upstream.seen)) == ("Done.", True, 4)


async def test_a_later_turn_of_a_whole_reply_is_the_clients_to_repeat(house: Client, upstream: Upstream) -> None:
    upstream.will(OWN, status(429, x_should_retry="true", **SOON))
    answer = await ask(house, about(agent="editor"))
    assert (answer.status, answer.headers["retry-after-ms"], answer.headers["x-should-retry"]) == (429, "5", "true")


async def test_configured_retries_end_when_the_upstream_says_so(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, upstream_settings={"retries": 2})
    upstream.will(status(500, **SOON), status(500, x_should_retry="false"))
    assert (await ask(gateway)).status == 500
    assert len(upstream.seen) == 2


async def test_a_fallback_is_asked_without_any_retry(start: Start, upstream: Upstream) -> None:
    one = {"kind": "openai", "base_url": upstream.base_url, "api_key": "k"}
    routes = [{"model": "*", "upstream": "first", "fallbacks": ["second"]}]
    gateway = start(policies=POLICIES, upstreams={"first": one, "second": one}, routes=routes)
    upstream.will(status(429), say("Done."))
    assert (await ask(gateway)).text == "Done."


async def test_a_dead_kept_connection_is_not_the_clients_concern(house: Client, upstream: Upstream) -> None:
    upstream.will(say("One."))
    assert (await ask(house)).text == "One."
    upstream.will(hang_up())
    assert (await ask(house)).error["code"] == "upstream_unreachable"  # the second connection was closed too
    upstream.will(say("Two."))
    assert (await ask(house)).text == "Two."


def test_an_unknown_model_is_what_openai_calls_it(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, routes=[{"model": "m-small", "upstream": "scripted"}])
    with pytest.raises(openai.NotFoundError) as caught:
        create(gateway)
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
