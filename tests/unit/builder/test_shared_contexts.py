"""What scopes share never changes what one of them gets: cached injections equal those that are built alone."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from gateway.builder import context_builder, scope_context
from gateway.builder.context_builder import ContextBuilder
from gateway.domain.agent import SelectionSettings
from gateway.domain.effective_scope import EffectiveScope
from gateway.domain.injection import Injection, OwnTools
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.snapshot import Snapshot
from gateway.errors import UnknownAlias
from gateway.injection.tools import GET_TOOL, LIST_TOOL, PLAIN_TOOLS, make_own_tools
from tests.support.built_injections import MANY, QUESTIONS, FakeSearcher, build, make_builder
from tests.support.loaded_policies import load_text

CONTEXTS = [f"c{number}" for number in range(6)]
AGENTS, PROFILES, PROMPTS = ([f"{noun}{number}" for number in range(4)] for noun in ("a", "p", "t"))
PATHS = ["n0", "n1", "n1/m0", "n1/m1", "n1/m1/o", "n2"]
# Reader lists name groups with and without their kind, so that it makes no difference here which of them count.
RED, BLUE = "group:red", "group:blue"

Policies = Callable[[str], Snapshot]


def draw_resource(draw: Random, name: str) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "type": draw.choice(["text", "text", "brand-voice"]),
        "mode": draw.choice(["always", "always", "on_demand", "semantic", "semantic", "manual"]),
        "readers": draw.choice([[], [], [], [RED], [BLUE], [RED, BLUE]]),
        "languages": draw.choice([[], [], ["de"], ["en", "de-AT"]]),
        "priority": draw.choice([50, 100]),
        "mandatory": draw.random() < 0.1,
        "required": draw.random() < 0.1,
    }
    if shape["type"] == "brand-voice":
        fields = draw.sample(["tone", "audience", "style", "avoid"], 2)
        return shape | {"data": {field: f"{field} of {name}" for field in fields}}
    return shape | {"key": draw.choice([None, "k"]), "data": {"content": f"About {name}. " * draw.choice([1, 20])}}


def draw_policies(draw: Random) -> str:
    def some(count: int = 2) -> list[str]:
        return draw.sample(CONTEXTS, draw.randint(0, count))

    contexts = {
        alias: {
            "default": alias == "c0",
            "mandatory": alias == "c5" and draw.random() < 0.5,
            "resources": {f"r{place}": draw_resource(draw, f"{alias}/r{place}") for place in range(draw.randint(1, 4))},
        }
        for alias in CONTEXTS
    }
    budget = {"total": draw.choice([20, 200, 4000]), "max": 300}

    def node(**children: Any) -> dict[str, Any]:
        inherit = draw.choice(["merge", "nearest"])
        return {"contexts": some(), "inherit": inherit, "readers": [], "children": children}

    return orjson.dumps(  # as YAML: without anchors
        {
            "contexts": contexts,
            "profiles": {alias: {"contexts": some(1)} for alias in PROFILES},
            "agents": {
                alias: {
                    "instructions": draw.choice(["", f"You are {alias}."]),
                    "contexts": some(),
                    "profile": draw.choice([None, *PROFILES]),
                    "inject": draw.choice([None, None, True, False]),
                    "budget": draw.choice([{}, budget]),
                    "selection": draw.choice([{}, {"preset": "aggressive"}]),
                }
                for alias in AGENTS
            },
            "prompts": {alias: {"contexts": some()} for alias in PROMPTS},
            "content": {"n0": node(), "n1": node(m0=node(), m1=node(o=node())), "n2": node()},
        }
    ).decode()


def draw_request(draw: Random, snapshot: Snapshot) -> ContextRequest:
    ids = [*snapshot.resources]

    def maybe(values: Sequence[str], chance: float = 0.4) -> str | None:
        return draw.choice(values) if draw.random() < chance else None

    return ContextRequest(
        agent=maybe(AGENTS),
        profile=maybe(PROFILES, 0.2),
        prompt=maybe(PROMPTS, 0.2),
        content=maybe(PATHS),
        language=maybe(["de", "de-at", "EN", "fr"], 0.3),
        session=f"session-{draw.random()}",
        budget=draw.choice([None, None, 5, 60, 10_000]),
        inject=draw.random() < 0.9,
        type=maybe(["search", "chat"], 0.3),
        contexts=tuple(draw.sample(CONTEXTS, draw.choice([0, 0, 1]))),
        include=tuple(draw.sample(ids, draw.choice([0, 0, 0, 2]))),
        exclude=frozenset(draw.sample([*ids, "un/known"], draw.choice([0, 0, 2]))),
        selection=draw.choice([SelectionSettings(), SelectionSettings.from_data({"top_n": 1})]),
    )


def draw_principal(draw: Random) -> Principal:
    groups = draw.choice([(), (), ("red",), ("blue",), ("red", "blue"), ("*",)])
    both = frozenset(name for group in groups for name in (group, f"group:{group}" if group != "*" else group))
    return Principal("key", agent=draw.choice([None, None, "a0"]), groups=both)


@dataclass(frozen=True)
class Ask:
    """One request."""

    said: ContextRequest
    who: Principal
    tools: OwnTools | None
    model: str
    question: str

    @classmethod
    def draw(cls, draw: Random, snapshot: Snapshot) -> "Ask":
        tools = [PLAIN_TOOLS, PLAIN_TOOLS, None, make_own_tools([GET_TOOL]), make_own_tools([LIST_TOOL])]
        model, question = draw.choice(["model", "model", "xmodel"]), draw.choice(QUESTIONS)
        return cls(draw_request(draw, snapshot), draw_principal(draw), draw.choice(tools), model, question)

    def vary(self, draw: Random, snapshot: Snapshot) -> "Ask":
        """The same in all respects but one, as far as scopes are concerned."""
        other = Ask.draw(draw, snapshot)
        names = [*ContextRequest.__struct_fields__][:-1]
        match draw.randrange(10):
            case 0:
                return dataclasses.replace(self, who=other.who)
            case 1:
                return dataclasses.replace(self, tools=other.tools)
            case 2:
                return dataclasses.replace(self, model=other.model)
            case 3:
                return dataclasses.replace(self, question=other.question)
        changed = draw.choice([name for name in names if getattr(self.said, name) != getattr(other.said, name)])
        return dataclasses.replace(self, said=replace(self.said, **{changed: getattr(other.said, changed)}))


class Campaign:
    """Random requests about one snapshot, each also built alone, from nothing."""

    ROUNDS = 300

    def __init__(self, snapshot: Snapshot, draw: Random) -> None:
        self.snapshot, self.draw = snapshot, draw
        self.asked: list[Ask] = []
        self.alone: list[Any] = []

    async def find_differences(self, until: int) -> int:
        """How many requests are answered otherwise by a builder that caches; no more than so many."""
        cached, snapshot, differences = make_builder(MemoryBudget()), replace(self.snapshot), 0
        for number in range(self.ROUNDS):
            if number == len(self.asked):
                await self._ask_alone(number)
            differences += await build_as(self.asked[number], cached, snapshot) != self.alone[number]
            if differences >= until:
                break
        return differences

    async def _ask_alone(self, number: int) -> None:
        if number % 30 == 0:
            self.base = Ask.draw(self.draw, self.snapshot)
        ask = self.base.vary(self.draw, self.snapshot)
        self.asked.append(ask)
        self.alone.append(await build_as(ask, make_builder(MemoryBudget(0)), replace(self.snapshot)))


async def build_as(ask: Ask, builder: ContextBuilder, snapshot: Snapshot) -> Any:
    try:
        return describe(await build(builder, snapshot, ask.said, ask.who, ask.tools, ask.model, ask.question))
    except UnknownAlias:
        return None


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> list[Campaign]:
    """What is built alone is the same for all tests, whatever they do to the cache."""
    directory = tmp_path_factory.mktemp("campaigns")
    return [Campaign(load_text(directory, draw_policies(draw)), draw) for draw in map(Random, range(20))]


async def find_any(campaigns: list[Campaign]) -> bool:
    for one in campaigns:
        if await one.find_differences(1):
            return True
    return False


def describe(injection: Injection) -> Any:
    """All that can be seen of an injection."""
    selection = injection.selection
    named = [selection.attribute(one.candidate) for one in (*selection.stable, *selection.volatile)]
    named += [selection.attribute(left.candidate) for left in (*selection.catalogue, *selection.dropped)]
    return injection, [(one.entity, one.why, one.level, one.score) for one in named]


@pytest.mark.parametrize("seed", range(4))
async def test_cached_injections_equal_those_that_are_built_alone(campaigns: list[Campaign], seed: int) -> None:
    assert await campaigns[seed].find_differences(1) == 0
    assert len([one for one in campaigns[seed].alone if one is not None]) > 200


KEY_PARTS = [
    "tokenizer",
    "get_tool",
    "list_tool",
    "agent",
    "profile",
    "prompt",
    "node",
    "readers",
    "bound",
    "contexts",
    "inject",
    "type",
    "budget",
    "languages",
    "include",
    "exclude",
]


@pytest.mark.parametrize("part", range(len(KEY_PARTS)), ids=KEY_PARTS)
async def test_every_part_of_the_key_is_needed(
    campaigns: list[Campaign], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant for each: without the part, somebody gets what was made for another."""
    whole = scope_context.make_scope_key

    def make_key(*arguments: Any) -> Any:
        key = whole(*arguments)
        return (*key[:part], *key[part + 1 :])

    monkeypatch.setattr(context_builder, "make_scope_key", make_key)
    assert await find_any(campaigns), "nothing tells them apart"


@pytest.mark.parametrize("part", ["contexts", "include", "exclude", "languages", "readers", "inject"])
async def test_every_part_of_an_effective_scope_is_needed(
    campaigns: list[Campaign], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [name for name in EffectiveScope.__struct_fields__ if name != part]
    monkeypatch.setattr(EffectiveScope, "__hash__", lambda self: hash(tuple(getattr(self, name) for name in names)))
    monkeypatch.setattr(
        EffectiveScope, "__eq__", lambda self, other: all(getattr(self, one) == getattr(other, one) for one in names)
    )
    assert await find_any(campaigns), "nothing tells them apart"


async def test_scopes_with_the_same_contexts_share_what_is_made_of_them(policies: Policies) -> None:
    agents = ", ".join(f"a{number}: {{instructions: I am {number}., contexts: [house]}}" for number in range(50))
    snapshot = policies(MANY % (agents, ", ".join(f"n{number}: {{}}" for number in range(50))))
    builder, who = make_builder(MemoryBudget()), Principal("key")
    agents_asked = [ContextRequest(agent=f"a{number}") for number in range(50)]
    nodes_asked = [ContextRequest(content=f"site/n{number}") for number in range(50)]
    for requests in (agents_asked, nodes_asked):
        built = [await build(builder, snapshot, asked, who, PLAIN_TOOLS, "m", "Hi") for asked in requests]
        assert len({id(one.selection.stable) for one in built}) == 1
        assert len({id(one.texts.stable) for one in built}) == 1
    assert [one.texts.instructions for one in built][:1] == [b""]
    assert len(snapshot.partitions["default"]) == 100


async def test_sources_and_instructions_stay_those_of_the_scope(policies: Policies) -> None:
    snapshot = policies(MANY % ("one: {instructions: I, contexts: [house]}, two: {contexts: [house]}", ""))
    builder, who = make_builder(MemoryBudget()), Principal("key")
    for alias, instructions in (("one", b"I"), ("two", b""), ("one", b"I")):
        built = await build(builder, snapshot, ContextRequest(agent=alias), who, PLAIN_TOOLS, "m", "Hi")
        first = built.selection.attribute(built.selection.stable[0].candidate)
        assert (first.entity, first.why) == (alias, f"assigned to agent {alias}")
        assert built.texts.instructions == instructions


async def test_readers_that_no_list_of_the_contexts_names_make_no_difference(policies: Policies) -> None:
    snapshot = policies(
        "contexts: {a: {default: true, resources: {r: {type: text, data: {content: A}}}}, "
        f"b: {{resources: {{r: {{type: text, readers: ['{RED}', '{BLUE}'], data: {{content: B}}}}}}}}}}"
    )
    builder = make_builder(MemoryBudget())
    seen = [
        await build(
            builder, snapshot, ContextRequest(), Principal("k", groups=frozenset({one, one[6:]})), None, "m", "Hi"
        )
        for one in (RED, BLUE)
    ]
    assert seen[0].selection.stable is seen[1].selection.stable


async def test_the_same_question_at_the_same_time_is_searched_once(policies: Policies) -> None:
    snapshot = policies(
        "contexts: {a: {default: true, resources: {r: {type: text, mode: semantic, data: {content: A}}}}}"
    )
    searcher = FakeSearcher()
    builder = make_builder(MemoryBudget(), searcher)
    asked = [build(builder, snapshot, ContextRequest(), Principal("k"), None, "m", QUESTIONS[0]) for _ in range(20)]
    first, *others = await asyncio.gather(*asked)
    assert searcher.searches == 1
    assert all(other == first for other in others)
    assert builder._running == {}


async def test_a_caller_who_leaves_does_not_take_the_others_answer_along(policies: Policies) -> None:
    snapshot = policies(
        "contexts: {a: {default: true, resources: {r: {type: text, mode: semantic, data: {content: A}}}}}"
    )
    builder = make_builder(MemoryBudget())

    def ask() -> asyncio.Task[Injection]:
        return asyncio.create_task(build(builder, snapshot, ContextRequest(), Principal("k"), None, "m", QUESTIONS[0]))

    leaving, staying = ask(), ask()
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).selection.budget == 150
    assert leaving.cancelled()
