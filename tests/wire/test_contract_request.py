"""CONTRACT §1: headers, the `context` object, who answers and with which model."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.contract_policies import BODY, POLICIES, about, ask, names_in, system_text
from tests.support.gateway import Client, Thread, running_gateway
from tests.support.upstream import Upstream, say


@pytest.fixture(scope="module")
def house(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("request")
    with running_gateway(thread, directory, scripted.base_url, POLICIES, defaults={"model": "m-default"}) as client:
        yield client


async def sent(house: Client, upstream: Upstream, *headers: tuple[str, str], **body: Any) -> dict[str, Any]:
    """What reaches the upstream."""
    upstream.reset()
    upstream.will(say("Done."))
    reply = await ask(house, headers, BODY | body)
    assert reply.status == 200, reply.raw
    return upstream.requests[0]


async def refused(house: Client, upstream: Upstream, *headers: tuple[str, str], **body: Any) -> dict[str, Any]:
    """The error of a request that must not reach the upstream."""
    reply = await ask(house, headers, BODY | body)
    assert reply.status == 400, reply.raw
    assert not upstream.seen
    return reply.error


async def test_header_values_are_percent_decoded_once(house: Client, upstream: Upstream) -> None:
    assert names_in(await sent(house, upstream, *about(content="%2Fsite%2Fshop"))) == ["Kind"]
    error = await refused(house, Upstream(), *about(content="%252Fnowhere%C3%A9"))
    assert "'%2Fnowhereé'" in error["message"]


async def test_header_names_may_be_written_in_any_case(house: Client, upstream: Upstream) -> None:
    assert names_in(await sent(house, upstream, ("X-Context-Agent", "kind"))) == ["Kind"]


async def test_an_empty_header_is_absent(house: Client, upstream: Upstream) -> None:
    assert names_in(await sent(house, upstream, *about(agent="", budget="", inject=""))) == ["Corporate"]


async def test_a_repeated_header_is_refused(house: Client, upstream: Upstream) -> None:
    error = await refused(house, upstream, *about(agent="kind"), *about(agent="kind"))
    assert (error["code"], error["param"]) == ("invalid_request", "x-context-agent")


async def test_an_unknown_header_is_refused(house: Client, upstream: Upstream) -> None:
    error = await refused(house, upstream, *about(agnet="kind"))
    assert (error["code"], error["param"]) == ("invalid_request", "x-context-agnet")


async def test_headers_that_the_gateway_only_sends_are_ignored_inbound(house: Client, upstream: Upstream) -> None:
    only_sent = about(receipt="x", injected="x", tokens="x", degraded="x", snapshot="x")
    assert names_in(await sent(house, upstream, *only_sent, *only_sent)) == ["Corporate"]


async def test_include_and_exclude_are_comma_lists_that_are_joined(house: Client, upstream: Upstream) -> None:
    names = names_in(
        await sent(
            house,
            upstream,
            *about(include="house/extra, blog/length"),
            *about(include="plain/kind"),
            *about(exclude="corporate/voice"),
            *about(exclude="x/y"),
        )
    )
    assert sorted(names) == ["Extra", "Kind", "Length"]


async def test_an_unknown_resource_to_include_is_refused(house: Client, upstream: Upstream) -> None:
    error = await refused(house, upstream, *about(include="house/rulez"))
    assert (error["code"], error["param"]) == ("unknown_resource", "x-context-include")
    assert "'house/rules'" in error["message"]


@pytest.mark.parametrize("budget", ["-1", "1.5", "many", "0x10"])
async def test_a_budget_is_a_whole_number_of_0_or_more(house: Client, upstream: Upstream, budget: str) -> None:
    assert (await refused(house, upstream, *about(budget=budget)))["param"] == "x-context-budget"


async def test_inject_off_relays_and_anything_but_on_and_off_is_refused(house: Client, upstream: Upstream) -> None:
    assert await sent(house, upstream, *about(inject="off")) == BODY
    assert system_text(await sent(house, upstream, *about(inject="on"))) != ""
    upstream.reset()
    assert (await refused(house, upstream, *about(inject="no")))["param"] == "x-context-inject"


async def test_user_without_the_right_is_forbidden(house: Client, upstream: Upstream) -> None:
    for headers, body, param in (
        (about(user="ann"), BODY, "x-context-user"),
        ([], BODY | {"context": {"user": "ann"}}, "context.user"),
    ):
        reply = await ask(house, headers, body)
        assert (reply.status, reply.error["code"], reply.error["param"]) == (403, "user_not_allowed", param)
    assert not upstream.seen


async def test_the_body_can_say_the_same_and_never_goes_upstream(house: Client, upstream: Upstream) -> None:
    request = await sent(house, upstream, context={"agent": "kind", "language": "de", "budget": 100, "inject": "on"})
    assert names_in(request) == ["Kind"]
    assert "context" not in request


async def test_an_empty_context_object_never_goes_upstream_either(house: Client, upstream: Upstream) -> None:
    contexts: list[dict[str, Any] | None] = [{}, None]
    for context in contexts:
        assert await sent(house, upstream, *about(inject="off"), context=context) == BODY


async def test_a_header_wins_over_the_body(house: Client, upstream: Upstream) -> None:
    context = {"agent": "editor", "include": ["house/extra"], "inject": "off"}
    request = await sent(house, upstream, *about(agent="kind", include="blog/length", inject="on"), context=context)
    assert names_in(request) == ["Kind", "Length"]


async def test_an_unknown_key_of_the_body_is_named(house: Client, upstream: Upstream) -> None:
    error = await refused(house, upstream, context={"agent": "kind", "agnet": "kind"})
    assert (error["code"], error["param"]) == ("invalid_request", "context.agnet")


@pytest.mark.parametrize(
    ("context", "param"),
    [
        ({"agent": 5}, "context.agent"),
        ({"budget": "5"}, "context.budget"),
        ({"include": "house/rules"}, "context.include"),
        ({"inject": True}, "context.inject"),
        ({"items": [{"name": "x"}]}, "context.items.0.text"),
        ({"vars": {"a": []}}, None),
        ("kind", "context"),
    ],
)
async def test_wrong_types_in_the_body_are_refused(house: Client, upstream: Upstream, context: Any, param: str) -> None:
    error = await refused(house, upstream, context=context)
    assert error["param"] == param or (param is None and error["param"].startswith("context.vars"))


async def test_items_are_placed_for_this_request(house: Client, upstream: Upstream) -> None:
    context = {"agent": "kind", "items": [{"name": "Draft", "text": "Once upon"}]}
    assert names_in(await sent(house, upstream, context=context)) == ["Kind", "Draft"]
    assert names_in(await sent(house, upstream, context={"agent": "kind"})) == ["Kind"]


async def test_the_agent_comes_from_the_header_else_from_the_model(house: Client, upstream: Upstream) -> None:
    assert names_in(await sent(house, upstream, *about(agent="kind"))) == ["Kind"]
    request = await sent(house, upstream, model="agent:kind")
    assert (names_in(request), request["model"]) == (["Kind"], "m-default")


async def test_a_header_that_is_not_the_models_agent_is_a_conflict(house: Client, upstream: Upstream) -> None:
    error = await refused(house, upstream, *about(agent="kind"), model="agent:editor")
    assert error["code"] == "agent_conflict"
    assert names_in(await sent(house, upstream, *about(agent="kind"), model="agent:kind")) == ["Kind"]


@pytest.mark.parametrize(
    ("agent", "model"),
    [("editor", "m-agent"), ("calm", "m-profile"), ("kind", "m-default")],
)
async def test_the_model_of_an_agent_is_its_own_its_profiles_or_the_default(
    house: Client, upstream: Upstream, agent: str, model: str
) -> None:
    assert (await sent(house, upstream, model=f"agent:{agent}"))["model"] == model
    assert (await sent(house, upstream, *about(agent=agent), model=None))["model"] == model
    assert (await sent(house, upstream, *about(agent=agent), model="m-own"))["model"] == "m-own"


async def test_a_request_without_a_model_anywhere_is_refused(start: Any, upstream: Upstream) -> None:
    client = start(policies=POLICIES, defaults={})
    assert (await refused(client, upstream, model=None))["code"] == "model_required"
    assert (await refused(client, upstream, model="agent:kind"))["code"] == "model_required"


async def test_defaults_are_used_only_where_the_request_says_nothing(house: Client, upstream: Upstream) -> None:
    request = await sent(house, upstream, *about(agent="calm"))
    assert (request["temperature"], request["top_p"], request["max_tokens"]) == (0.2, 0.9, 100)
    request = await sent(house, upstream, *about(agent="calm"), temperature=1, max_completion_tokens=7)
    assert (request["temperature"], request["top_p"], request["max_completion_tokens"]) == (1, 0.9, 7)
    assert "max_tokens" not in request


async def test_the_agents_defaults_come_before_the_profiles(house: Client, upstream: Upstream) -> None:
    request = await sent(house, upstream, *about(agent="kind", profile="calm"))
    assert request["temperature"] == 0.2
    upstream.reset()
    upstream.will(say("Done."))
    await ask(house, about(agent="editor", profile="calm"))
    assert upstream.requests[0]["temperature"] == 0.7


@pytest.mark.parametrize(
    ("noun", "alias", "near"),
    [("agent", "kin", "kind"), ("profile", "clam", "calm"), ("prompt", "insid", "inside"), ("content", "sit", "site")],
)
async def test_an_unknown_alias_names_the_header_and_the_nearest(
    house: Client, upstream: Upstream, noun: str, alias: str, near: str
) -> None:
    error = await refused(house, upstream, *about(**{noun: alias}))
    assert (error["code"], error["param"]) == (f"unknown_{noun}", f"x-context-{noun}")
    assert f"'{near}'" in error["message"]
    error = await refused(house, upstream, context={noun: alias})
    assert error["param"] == f"context.{noun}"
