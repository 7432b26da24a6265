"""A request with headers and a model that came before is resolved by one lookup, and never to another's answer."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from gateway import errors
from gateway.builder.context_builder import ContextBuilder
from gateway.collectors.contexts import build_merge
from gateway.conversation.dialect import Dialect
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.hidden_turns import HiddenTurns
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.snapshot import Snapshot
from gateway.domain.upstream import Capabilities
from gateway.pipeline import Pipeline, PreparedRequest
from gateway.resolved_scope import REMEMBERED_BYTES
from gateway.resources.registry import load_registry
from gateway.settings import Settings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.upstreams.routes import Routes
from tests.unit.test_pipeline import Silent, WordCounter

POLICIES = """
contexts: {house: {default: true, resources: {style: {type: text, data: {content: Write plainly.}}}}}
profiles: {calm: {temperature: 0.2}}
agents: {editor: {contexts: [house]}, other: {profile: calm}}
content: {site: {children: {page: {}}}}
"""
BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


class Asker:
    """One pipeline, asked again and again."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.dialect: Dialect = CHAT
        settings = Settings.model_validate(
            {
                "upstreams": {"main": {"kind": "openai", "base_url": "http://localhost"}},
                "routes": [{"model": "m*", "upstream": "main"}],
            }
        )
        routes = Routes(settings, {"main": Silent("main", Capabilities())})
        builder = ContextBuilder(WordCounter(), build_merge(load_registry()), b"secret", settings.defaults.budget)
        self.pipeline = Pipeline(routes, builder, HiddenTurns(MemoryEphemeralStore()), settings.defaults)

    async def ask(self, who: Principal = ANONYMOUS, body: dict[str, Any] = BODY, **named: str) -> PreparedRequest:
        headers = [(f"x-context-{name}".encode(), value.encode()) for name, value in named.items()]
        exchange = Exchange("id", who, self.snapshot, headers)
        return await self.pipeline.prepare(exchange, orjson.dumps(body), self.dialect)


@pytest.fixture
def asker(policies: Callable[[str], Snapshot]) -> Asker:
    return Asker(policies(POLICIES))


@pytest.mark.parametrize("named", [{}, {"agent": "editor"}, {"content": "site/page"}, {"include": "house/style"}])
async def test_the_second_request_finds_what_the_first_came_to(asker: Asker, named: dict[str, Any]) -> None:
    first = await asker.ask(**named)
    second = await asker.ask(**named)
    assert second.scope is first.scope
    assert (second.body, second.model, second.upstreams) == (first.body, first.model, first.upstreams)


@pytest.mark.parametrize(
    "other",
    [
        {"agent": "other"},
        {"content": "site"},
        {"body": BODY | {"model": "m2"}},
        {"body": BODY | {"model": "agent:other"}},
        {"body": BODY | {"context": {"agent": "other"}}},
        {"who": replace(ANONYMOUS)},
    ],
)
async def test_a_request_that_differs_is_looked_up(asker: Asker, other: dict[str, Any]) -> None:
    if other.get("body", BODY)["model"].startswith("agent:"):
        with pytest.raises(errors.ModelRequired):
            await asker.ask(**other)
        return
    first = await asker.ask()
    assert (await asker.ask(**other)).scope is not first.scope


@pytest.mark.parametrize("named", [{"user": "ann"}, {"task": "t"}, {"session": "s"}])
async def test_what_is_about_one_user_task_or_session_is_not_remembered(asker: Asker, named: dict[str, Any]) -> None:
    who = replace(ANONYMOUS, rights=frozenset({"act_as_user"}))
    await asker.ask(who)
    kept = len(asker.snapshot.partitions["default"])
    for _ in range(2):
        await asker.ask(who, **named)
    assert len(asker.snapshot.partitions["default"]) == kept


async def test_long_names_are_not_remembered(asker: Asker) -> None:
    body = BODY | {"model": "m" * (REMEMBERED_BYTES + 1)}
    first = await asker.ask(body=body)
    assert (await asker.ask(body=body)).scope is not first.scope


async def test_a_key_that_lost_a_right_does_not_get_what_it_had_before(asker: Asker) -> None:
    before = Principal("app", key="key-1")
    await asker.ask(before, agent="editor")
    with pytest.raises(errors.UnknownAlias):
        await asker.ask(replace(before, agents=frozenset({"other"})), agent="editor")
    with pytest.raises(errors.ModelNotAllowed):
        await asker.ask(replace(before, models=frozenset({"m9"})), agent="editor")


async def test_several_models_in_one_body_are_refused_each_time(asker: Asker) -> None:
    who = Principal("app", key="key-1", models=frozenset({"m"}))
    await asker.ask(who)
    twice = b'{"model":"x","messages":[{"role":"user","content":"Hi"}],"model":"m"}'
    for _ in range(2):
        with pytest.raises(errors.InvalidRequest):
            await asker.pipeline.prepare(Exchange("id", who, asker.snapshot), twice)


async def test_a_workspace_is_charged_for_what_is_remembered(asker: Asker) -> None:
    await asker.ask()
    partition = asker.snapshot.partitions["default"]
    gc.collect()
    tracemalloc.start()
    try:
        weight, before = partition.weight, tracemalloc.get_traced_memory()[0]
        for number in range(300):
            await asker.ask(body=BODY | {"model": f"m{number}"}, content="site/page/" + "x" * (number % 100))
        gc.collect()
        charged, taken = partition.weight - weight, tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken <= charged <= 3 * taken
