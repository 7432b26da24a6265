"""Models whose upstream has no key, and the demo model, which must not pass for another."""

from pathlib import Path
from typing import Any

import pytest

from gateway.commands.serve import choose_example_model
from gateway.settings_loader import SettingsOverrides, load_settings
from tests.support.contract_policies import BODY, ask
from tests.support.gateway import Client, Start, Thread, running_gateway
from tests.support.upstream import Upstream, say

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"
KEYLESS = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": ""}


@pytest.fixture
def example(thread: Thread, scripted: Upstream, tmp_path: Path) -> Any:
    """A gateway with the upstreams, routes and defaults of the example, without any key in the environment."""
    settings = load_settings(EXAMPLE, {}).model_dump(include={"upstreams", "routes", "defaults"}, mode="json")
    with running_gateway(thread, tmp_path, scripted.base_url, **settings) as client:
        yield client


@pytest.mark.parametrize("model", ["gpt-4o", "claude-sonnet", "anything", "Demo", "x-demo"])
async def test_the_example_without_keys_says_what_is_missing(example: Client, model: str) -> None:
    answer = await ask(example, body=BODY | {"model": model})
    assert (answer.status, answer.error["code"], answer.error["param"]) == (503, "upstream_disabled", "model")
    upstream = "claude" if model.startswith("claude") else "openai"
    assert f"'{upstream}'" in answer.error["message"]
    assert "api_key" in answer.error["message"]


@pytest.mark.parametrize("model", ["demo", "demo-2", "agent:greeter"])
async def test_the_example_without_keys_answers_to_demo_and_its_agents(example: Client, model: str) -> None:
    answer = await ask(example, body=BODY | {"model": model})
    assert (answer.status, answer.json["object"]) == (200, "chat.completion")


@pytest.mark.parametrize(
    ("environ", "default", "model"),
    [
        ({}, "demo", "demo"),
        ({}, "gpt-4o", "demo"),
        ({"OPENAI_API_KEY": "sk"}, "gpt-4o", "gpt-4o"),
        ({}, "none", "demo"),
    ],
)
def test_the_line_that_is_printed_names_a_model_that_answers(environ: dict[str, str], default: str, model: str) -> None:
    settings = load_settings(EXAMPLE, environ)
    defaults = settings.defaults.model_copy(update={"model": default})
    assert choose_example_model(settings.model_copy(update={"defaults": defaults})) == model


async def test_models_of_a_disabled_upstream_do_not_reach_a_broader_route(start: Start, upstream: Upstream) -> None:
    scripted = {"kind": "openai", "base_url": upstream.base_url, "api_key": "sk"}
    routes = [
        {"model": "claude-*", "upstream": "keyless"},
        {"model": "gpt-*", "upstream": "keyless"},
        {"model": "gpt-*", "upstream": "other"},
        {"model": "*", "upstream": "other"},
    ]
    client = start(upstreams={"keyless": KEYLESS, "other": scripted}, routes=routes)
    refused = await ask(client, body=BODY | {"model": "claude-3"})
    assert (refused.status, refused.error["code"]) == (503, "upstream_disabled")
    assert not upstream.seen
    for model in ("gpt-4o", "m-large"):
        upstream.will(say("Done."))
        assert (await ask(client, body=BODY | {"model": model})).status == 200


async def test_a_catch_all_does_not_let_the_demo_model_pass_for_others(start: Start) -> None:
    client = start(upstreams={"demo": {"kind": "demo"}}, routes=[{"model": "*", "upstream": "demo"}])
    assert (await ask(client, body=BODY | {"model": "demo-x"})).status == 200
    answer = await ask(client, body=BODY | {"model": "gpt-4o"})
    assert (answer.status, answer.error["code"]) == (404, "model_not_found")
    assert "demo*" in answer.error["message"]


async def test_started_as_the_demo_it_answers_to_every_name(thread: Thread, scripted: Upstream, tmp_path: Path) -> None:
    settings = load_settings(None, {}, SettingsOverrides()).model_dump(include={"upstreams", "routes"}, mode="json")
    with running_gateway(thread, tmp_path, scripted.base_url, **settings) as client:
        assert (await ask(client, body=BODY | {"model": "gpt-4o"})).status == 200
