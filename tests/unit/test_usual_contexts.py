"""A request that says nothing about tools gets what others of its scope got, as if it had been looked at."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from gateway import errors
from gateway.conversation.dialect import Dialect
from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.messages.dialect import MESSAGES
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.domain.snapshot import Snapshot
from gateway.pipeline import Pipeline, PreparedRequest
from gateway.resolved_scope import ResolvedScope, UsualContext
from gateway.selection.window import SMALL_REQUEST, WindowTable
from tests.unit.test_resolved_scopes import BODY, POLICIES, Asker

TOOL = {"type": "function", "function": {"name": "get_context_resource", "parameters": {}}}
SHELF = """
contexts:
  shelf: {resources: {glossary: {type: text, mode: on_demand, data: {content: A term is a word.}}}}
agents: {librarian: {contexts: [shelf]}}
"""
FIELDS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.3, "stream": True},
    {"tools": [TOOL]},
    {"tools": [], "tool_choice": "none"},
    {"tool_choice": "auto"},
    {"n": 2},
    {"functions": []},
    {"prediction": {"type": "content"}},
    {"max_tokens": 5},
    {"max_completion_tokens": 10**6},
    {"max_tokens": -1},
    {"max_tokens": None},
    {"max_tokens": "5"},
    {"context": {"agent": "other"}},
    {"model": "m2"},
    {"messages": [{"role": "user", "content": "x" * 2 * SMALL_REQUEST}]},
]


def find_usual(asker: Asker) -> list[UsualContext]:
    """Those that are remembered."""
    partition = asker.snapshot.partitions["default"]
    found = (partition.peek(key) for key in partition._entries)
    return [one.usual for one in found if isinstance(one, ResolvedScope) and one.usual is not None]


def describe(prepared: PreparedRequest) -> tuple[object, ...]:
    injection = prepared.injection
    return prepared.body, prepared.model, injection.tools, injection.tokens, injection.block, injection.selection


@pytest.fixture
def asker(policies: Callable[[str], Snapshot]) -> Asker:
    return Asker(policies(POLICIES))


@pytest.mark.parametrize("fields", FIELDS)
async def test_whatever_a_request_says_it_gets_the_same_with_and_without_a_usual_context(
    asker: Asker, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await asker.ask(agent="editor")
    assert find_usual(asker)
    short = await asker.ask(body=BODY | fields, agent="editor")
    monkeypatch.setattr(UsualContext, "suits", lambda *_: False)
    assert describe(short) == describe(await asker.ask(body=BODY | fields, agent="editor"))


LIMITS = (1, 50, 10_000)
LIMITED: list[dict[str, Any]] = [{}, *({"max_tokens": limit} for limit in LIMITS), {"max_tokens": None}]
OTHER_BODIES: dict[Dialect, dict[str, Any]] = {
    RESPONSES: {"model": "m", "input": [{"role": "user", "content": "Hi"}]},
    MESSAGES: {"model": "m", "max_tokens": 5, "messages": BODY["messages"]},
}
OTHER_FIELDS: list[dict[str, Any]] = [
    {},
    {"stream": True},
    {"tools": [{"type": "function", "name": "get_context_resource", "parameters": {}}]},
    {"tool_choice": {"type": "none"}},
    {"max_output_tokens": 10**6, "max_tokens": 10**6},
    {"instructions": "Be brief.", "system": "Be brief."},
    {"store": False},
    {"prompt": {"id": "pmpt_1"}},
]


@pytest.mark.parametrize("dialect", OTHER_BODIES)
@pytest.mark.parametrize("fields", OTHER_FIELDS)
async def test_requests_in_other_dialects_get_the_same_with_and_without_a_usual_context(
    asker: Asker, dialect: Dialect, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asker.dialect, body = dialect, OTHER_BODIES[dialect]
    for _ in range(3):
        await asker.ask(body=body, agent="editor")
    (usual,) = find_usual(asker)
    assert usual.suits(dialect.decode(orjson.dumps(body)))
    short = await asker.ask(body=body | fields, agent="editor")
    monkeypatch.setattr(UsualContext, "suits", lambda *_: False)
    assert describe(short) == describe(await asker.ask(body=body | fields, agent="editor"))


async def test_an_answer_that_may_be_long_is_looked_at_where_the_window_is_known(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = replace(asker.pipeline.builder, windows=WindowTable({"m": 5_000}))
    asker.pipeline = replace(asker.pipeline, builder=builder)
    for _ in range(3):
        await asker.ask(agent="editor")
    (usual,) = find_usual(asker)
    assert usual.suits(CHAT.decode(orjson.dumps(BODY | {"max_tokens": 5})))
    greedy = BODY | {"max_tokens": 4_990}
    assert not usual.suits(CHAT.decode(orjson.dumps(greedy)))
    narrowed = await asker.ask(body=greedy, agent="editor")
    assert (await asker.ask(agent="editor")).injection.tokens > narrowed.injection.tokens


@pytest.mark.parametrize("fields", FIELDS[2:8])
async def test_fields_about_tools_are_looked_at(asker: Asker, fields: dict[str, Any]) -> None:
    for _ in range(2):
        await asker.ask(body=BODY | fields, agent="editor")
    assert find_usual(asker) == []
    for _ in range(2):
        await asker.ask(agent="editor")
    (usual,) = find_usual(asker)
    assert usual.suits(CHAT.decode(orjson.dumps(BODY)))
    assert not usual.suits(CHAT.decode(orjson.dumps(BODY | fields)))


async def test_scopes_with_tools_of_ours_have_none(policies: Callable[[str], Snapshot]) -> None:
    asker = Asker(policies(SHELF))
    for _ in range(3):
        prepared = await asker.ask(agent="librarian")
        assert prepared.plan is not None
    assert find_usual(asker) == []


async def test_other_policies_are_noticed_at_once(asker: Asker, policies: Callable[[str], Snapshot]) -> None:
    for _ in range(3):
        before = await asker.ask(agent="editor")
    asker.snapshot = policies(POLICIES.replace("Write plainly.", "Write nothing."))
    for _ in range(3):
        after = await asker.ask(agent="editor")
        assert b"Write nothing." in after.body
    assert b"Write plainly." in before.body


async def test_another_tree_is_noticed_at_once(asker: Asker) -> None:
    for _ in range(3):
        first = await asker.ask(agent="editor")
    moved = replace(asker.snapshot, tree_generation=asker.snapshot.tree_generation + 1)
    moved.partitions.update(asker.snapshot.partitions)
    asker.snapshot = moved
    assert (await asker.ask(agent="editor")).scope is not first.scope


async def test_a_key_that_is_read_anew_does_not_get_it(asker: Asker) -> None:
    for _ in range(3):
        await asker.ask(agent="editor")
    renewed = replace(ANONYMOUS, agents=frozenset({"other"}))
    with pytest.raises(errors.UnknownAlias):
        await asker.ask(renewed, agent="editor")
    with pytest.raises(errors.ModelNotAllowed):
        await asker.ask(replace(ANONYMOUS, models=frozenset({"m9"})), agent="editor")


async def test_what_it_holds_is_counted_and_given_back(asker: Asker) -> None:
    for _ in range(3):
        await asker.ask(agent="editor")
    partition = asker.snapshot.partitions["default"]
    assert partition.weight == asker.pipeline.builder.memory.measure()
    partition.clear()
    assert (partition.weight, len(partition)) == (0, 0)


async def test_it_is_remembered_once(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    inject = Pipeline._inject

    async def count(pipeline: Pipeline, exchange: Exchange, *rest: Any) -> Any:
        asked.append(exchange)
        return await inject(pipeline, exchange, *rest)

    monkeypatch.setattr(Pipeline, "_inject", count)
    for _ in range(5):
        await asker.ask(agent="editor")
    assert len(asked) == 2  # the one that builds it, and the one that finds it


@pytest.mark.parametrize("window", [100, SMALL_REQUEST, 20_000])
@pytest.mark.parametrize("budget", [0, 500, 9_000])
async def test_the_room_of_a_window_is_where_tokens_have_to_be_counted(asker: Asker, window: int, budget: int) -> None:
    prepared = await asker.ask(agent="editor")
    table = WindowTable({"m": window})
    room = table.measure_room("m", prepared.scope, budget)
    assert room is not None
    edges = {room.max_bytes, *(room.tokens - limit for limit in LIMITS), SMALL_REQUEST, window}
    for size in {max(0, edge + step) for edge in edges for step in (-1, 0, 1)}:
        for fields in LIMITED:
            request = CHAT.decode(orjson.dumps(BODY | fields))
            request.raw = b" " * size
            exceeded = table.may_be_exceeded("m", request, prepared.scope, budget)
            assert room.certainly_fits(request) is not exceeded or (exceeded is False and "max_tokens" in fields)
    assert not WindowTable().may_be_exceeded("m", request, prepared.scope, budget)
    assert WindowTable().measure_room("m", prepared.scope, budget) is None
