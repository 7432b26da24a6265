"""Which collectors there are, which a scope uses, and how plugins and settings go wrong."""

import asyncio
import tomllib
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from msgspec.structs import replace
from pydantic import Field

from gateway.collector_settings import CollectorSection
from gateway.collectors.guard import run_collectors
from gateway.collectors.registry import (
    BUILT_IN,
    AppliedCollector,
    CollectorParts,
    CollectorRegistry,
    NoOptions,
    find_option_faults,
    load_collector_class,
    load_collector_classes,
    open_collectors,
)
from gateway.domain.agent import Agent, CollectorSettings
from gateway.domain.collector import Category, CollectorOrder, CollectorScope, Findings, FoundItem
from gateway.domain.principal import ANONYMOUS
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.plugins import GROUP
from gateway.scopes.scope import build_scope


class TreeOptions(NoOptions):
    ancestors: int = Field(3, ge=0)


@dataclass
class TreeCollector:
    """Finds one item, or does what a test wants."""

    name: ClassVar = "tree"
    category: ClassVar = Category.FOCUS
    priority: ClassVar = 10
    degraded: ClassVar = "content"
    shared: ClassVar = False
    options: ClassVar = TreeOptions

    seconds: float = 0.0
    error: BaseException | None = None
    stubborn: bool = False
    asked: list[CollectorScope] = field(default_factory=list)

    @classmethod
    def open(cls, parts: CollectorParts) -> Self | None:
        return cls()

    def applies(self, scope: CollectorScope) -> bool:
        self.asked.append(scope)
        return True

    async def collect(self, order: CollectorOrder) -> Findings:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            if not self.stubborn:
                raise
            await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        return Findings((FoundItem("n", "node", "page", "Title", "Text", 1.0, "because"),))


def scope(**collectors: CollectorSettings) -> Scope:
    built = build_scope(ContextRequest(), None, ANONYMOUS, EMPTY_SNAPSHOT)
    return replace(built, agent=Agent("a", "A", collectors=collectors))


def choose(registry: CollectorRegistry, workspace: str = "default", **own: CollectorSettings) -> list[Any]:
    found = registry.choose(workspace, scope(**own), EMPTY_SNAPSHOT, ())
    return [(one.collector.name, one.options, one.priority) for one in found.applied]


def test_pyproject_lists_exactly_the_built_ins() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    listed = project["entry-points"][GROUP]
    assert {name: one for name, one in listed.items() if name.startswith("collector-")} == BUILT_IN


def test_the_built_ins_come_through_the_same_door_as_plugins() -> None:
    assert "semantic" in load_collector_classes()
    found = load_collector_class(EntryPoint("collector-tree", f"{__name__}:TreeCollector", GROUP))
    assert found is TreeCollector


@pytest.mark.parametrize(
    ("attribute", "says"), [("Self", "is not a collector"), ("NOWHERE", "cannot be loaded"), ("Bare", "lacks name")]
)
def test_a_plugin_that_is_no_collector_is_named(attribute: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        load_collector_class(EntryPoint("collector-x", f"{__name__}:{attribute}", GROUP))


class Bare:
    """Declares nothing."""


class Wordless(TreeCollector):
    degraded: ClassVar = "weather"


def test_a_plugin_needs_a_word_for_its_failures_that_clients_know() -> None:
    with pytest.raises(ValueError, match="needs a `category` and one of content, graph"):
        load_collector_class(EntryPoint("collector-x", f"{__name__}:Wordless", GROUP))


def test_agent_wins_over_workspace_wins_over_configuration() -> None:
    section = CollectorSection.model_validate(
        {"priority": 3, "ancestors": 1, "workspaces": {"acme": {"enabled": False}, "blue": {"ancestors": 2}}}
    )
    registry = open_collectors([TreeCollector], CollectorParts(), {"tree": section})
    assert choose(registry) == [("tree", TreeOptions(ancestors=1), 3)]
    assert choose(registry, "acme") == []
    assert choose(registry, "blue") == [("tree", TreeOptions(ancestors=2), 3)]
    assert choose(registry, "blue", tree=CollectorSettings(None, 5, {"ancestors": 0})) == [
        ("tree", TreeOptions(ancestors=0), 5)
    ]
    assert choose(registry, "acme", tree=CollectorSettings(True)) == [("tree", TreeOptions(ancestors=1), 3)]


def test_wrong_options_are_found_with_their_path() -> None:
    sections = {
        "tree": CollectorSection.model_validate({"depth": 1, "workspaces": {"acme": {"ancestors": -1}}}),
        "trees": CollectorSection(),
    }
    assert [tuple(one) for one in find_option_faults({"tree": TreeCollector}, sections)] == [
        ("collectors.tree.depth", "Extra inputs are not permitted"),
        ("collectors.tree.workspaces.acme.ancestors", "Input should be greater than or equal to 0"),
        ("collectors.trees", "no collector has this name; did you mean 'tree'?"),
    ]


async def run(*collectors: TreeCollector, seconds: float = 0.05) -> list[tuple[int, str | None, str | None]]:
    applied = [AppliedCollector(one, TreeOptions(), one.priority, "") for one in collectors]
    outcomes = await run_collectors(applied, lambda one: one.collector.collect(order()), seconds)
    return [(len(one.findings.items), one.failure, one.findings.degraded) for one in outcomes]


def order() -> CollectorOrder:
    nothing: Any = None
    return CollectorOrder("w", ANONYMOUS, frozenset(), scope(), EMPTY_SNAPSHOT, None, nothing, (), None, 0, 1.0)


async def test_a_late_or_failing_collector_is_left_out_and_delays_nobody() -> None:
    began = asyncio.get_running_loop().time()
    assert await run(
        TreeCollector(), TreeCollector(seconds=30), TreeCollector(error=ValueError("broken")), TreeCollector()
    ) == [(1, None, None), (0, "late", "content"), (0, "failed", "content"), (1, None, None)]
    assert asyncio.get_running_loop().time() - began < 5


async def test_a_collector_that_ignores_its_end_is_not_waited_for() -> None:
    began = asyncio.get_running_loop().time()
    assert await run(TreeCollector(seconds=0.5, stubborn=True)) == [(0, "late", "content")]
    assert asyncio.get_running_loop().time() - began < 0.4


async def test_a_client_that_leaves_ends_its_collectors() -> None:
    slow = TreeCollector(seconds=30)
    running = asyncio.create_task(run(slow, seconds=30))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.cancelling()]
