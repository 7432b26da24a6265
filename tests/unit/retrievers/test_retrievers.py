"""Lookups: shared while they run, kept for a while, fair, bounded; plugins come in by the group's door."""

import asyncio
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
import yaml
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from gateway import plugins
from gateway.control.sizes import list_mode_advice
from gateway.domain.memory_budget import MemoryBudget
from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.domain.retriever import FoundPassage, Retriever, SearchTarget
from gateway.errors import Faults
from gateway.links.guard import LinkGuard
from gateway.plugins import GROUP
from gateway.policies.context_compiler import PolicySource
from gateway.policies.file_policies import load_snapshot
from gateway.policy_check import check_policies
from gateway.resources.registry import load_registry
from gateway.retrievers.answers import bound_passages
from gateway.retrievers.registry import RetrieverParts, load_retrievers
from gateway.retrievers.service import Retrievers
from gateway.settings_loader import load_settings
from gateway.settings_sections import RetrieverSettings
from tests.support.managed_policies import NoMaterials

ROOT = Path(__file__).resolve().parents[3]


class FaqOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: str = "faq"


class FaqRetriever:
    """A plugin that a test holds up and lets fail."""

    name: ClassVar = "faq"
    options: ClassVar = FaqOptions
    asked: ClassVar[list[tuple[str, str, int]]] = []
    gate: ClassVar[asyncio.Event | None] = None
    outcome: ClassVar[Any] = (FoundPassage("Five days."),)

    def __init__(self, options: FaqOptions, workspace: str) -> None:
        self.folder, self.workspace = options.folder, workspace

    @classmethod
    def open(cls, options: FaqOptions, parts: RetrieverParts) -> Self:
        return cls(options, parts.workspace)

    async def search(self, question: str, limit: int) -> Sequence[FoundPassage]:
        FaqRetriever.asked.append((self.workspace, question, limit))
        if FaqRetriever.gate is not None:
            await FaqRetriever.gate.wait()
        if isinstance(FaqRetriever.outcome, Exception):
            raise FaqRetriever.outcome
        found: Sequence[FoundPassage] = FaqRetriever.outcome
        return found


@pytest.fixture(autouse=True)
def faq() -> type[FaqRetriever]:
    FaqRetriever.asked, FaqRetriever.gate = [], None
    FaqRetriever.outcome = (FoundPassage("Five days."),)
    return FaqRetriever


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make_retrievers(clock: Clock | None = None, memory: MemoryBudget | None = None) -> Retrievers:
    classes = {**load_retrievers(), "faq": FaqRetriever}
    return Retrievers(classes, {"kb": RetrieverSettings(url="http://kb/")}, LinkGuard(), memory, clock or Clock())


def make_resource(**bounds: Any) -> Resource:
    data = Retriever(SearchTarget("faq"), **bounds)
    said: dict[str, Any] = {"id": "help/faq", "context": "help", "type": "retriever", "name": "FAQ", "description": ""}
    said |= {"languages": (), "readers": (), "examples": (), "conflict_key": None, "truncate": "extractive"}
    said |= {"priority": 100, "required": False, "mandatory": False, "text": ""}
    return Resource(**said, mode=Mode.ALWAYS, kind=ResourceKind.REFERENCE, data=data)


async def test_the_same_question_is_looked_up_once_until_it_is_too_old(faq: type[FaqRetriever]) -> None:
    clock, resource = Clock(), make_resource(cache_seconds=60)
    retrievers = make_retrievers(clock)
    for _ in range(3):
        assert (await retrievers.look_up("w", resource, " How  long? ")).passages == (FoundPassage("Five days."),)
    assert faq.asked == [("w", "How long?", 5)]
    clock.now = 61
    await retrievers.look_up("w", resource, "How long?")
    assert len(faq.asked) == 2


@pytest.mark.parametrize("changed", ["workspace", "resource", "version", "limit", "target", "question"])
async def test_whatever_tells_lookups_apart_is_part_of_the_key(faq: type[FaqRetriever], changed: str) -> None:
    retrievers, resource = make_retrievers(), make_resource()
    await retrievers.look_up("w", resource, "How long?")
    others = {
        "resource": replace(resource, id="help/other"),
        "version": replace(resource, version=2),
        "limit": make_resource(limit=6),
        "target": make_resource() if changed != "target" else replace(resource, data=Retriever(TARGET)),
    }
    other = others.get(changed, resource)
    question = "Why?" if changed == "question" else "How long?"
    await retrievers.look_up("x" if changed == "workspace" else "w", other, question)
    assert len(faq.asked) == 2


TARGET = SearchTarget("faq", '{"folder":"other"}')


async def test_those_who_ask_at_the_same_time_share_a_lookup_which_outlives_who_was_late(
    faq: type[FaqRetriever],
) -> None:
    retrievers, resource = make_retrievers(), make_resource()
    faq.gate = asyncio.Event()
    late = await retrievers.look_up("w", resource, "How long?", 0.01)
    assert (late.late, late.passages) == (True, ())
    waiting = asyncio.create_task(retrievers.look_up("w", resource, "How long?"))
    await asyncio.sleep(0)
    faq.gate.set()
    assert (await waiting).passages
    assert (await retrievers.look_up("w", resource, "How long?", 0)).passages  # it is kept
    assert len(faq.asked) == 1


async def test_what_a_plugin_raises_is_told_by_its_type_only(faq: type[FaqRetriever]) -> None:
    faq.outcome = RuntimeError("password=hunter2")
    found = await make_retrievers().look_up("w", make_resource(), "How long?")
    assert (found.failure, found.passages) == ("RuntimeError", ())


@pytest.mark.parametrize("outcome", [["a text"], [FoundPassage(5)], 5, None], ids=str)  # type: ignore[arg-type]
async def test_a_plugin_that_returns_something_else_fails(faq: type[FaqRetriever], outcome: Any) -> None:
    faq.outcome = outcome
    assert (await make_retrievers().look_up("w", make_resource(), "How long?")).failure


async def test_a_lookup_ends_after_its_own_time(faq: type[FaqRetriever]) -> None:
    faq.gate = asyncio.Event()
    found = await make_retrievers().look_up("w", make_resource(seconds=0.01), "How long?")
    assert (found.late, found.failure) == (True, "it did not answer in time")


async def test_a_workspace_that_floods_leaves_places_for_others(faq: type[FaqRetriever]) -> None:
    retrievers = make_retrievers()
    asking = (retrievers.look_up("loud", make_resource(), f"Question {n}?", 0.3) for n in range(300))
    flood = [asyncio.create_task(one) for one in asking]
    held = faq.gate = asyncio.Event()
    await asyncio.sleep(0.01)
    running, faq.gate = len(faq.asked), None
    assert (await retrievers.look_up("quiet", make_resource(), "How long?", 5)).passages
    held.set()
    found = await asyncio.gather(*flood)
    assert running <= 32
    assert any(one.failure == "too many lookups of this workspace are waiting" for one in found)
    await retrievers.close()


async def test_one_workspace_cannot_push_out_what_another_keeps(faq: type[FaqRetriever]) -> None:
    retrievers = make_retrievers(memory=MemoryBudget(200_000))
    faq.outcome = (FoundPassage("x" * 2000),)
    await retrievers.look_up("quiet", make_resource(), "How long?")
    for n in range(200):
        await retrievers.look_up("loud", make_resource(), f"Question {n}?")
    before = len(faq.asked)
    await retrievers.look_up("quiet", make_resource(), "How long?")
    assert len(faq.asked) == before


async def test_an_endpoint_of_the_configuration_serves_its_own_workspaces_only(tmp_path: Path) -> None:
    endpoints = {"kb": RetrieverSettings(url="http://127.0.0.1:9/", workspaces=["own"], headers={"X-Key": "hunter2"})}
    retrievers = Retrievers(load_retrievers(), endpoints, LinkGuard())
    target = SearchTarget("http", '{"endpoint":"kb"}')
    assert retrievers.find_fault("own", target) is None
    assert retrievers.find_fault("other", target) == "there is no endpoint 'kb' under retrievers in the configuration"
    resource = replace(make_resource(), data=Retriever(target))
    found = await retrievers.look_up("other", resource, "How long?")
    assert found.failure == "there is no endpoint 'kb' under retrievers in the configuration"
    reached = await retrievers.look_up("own", resource, "How long?")
    assert reached.failure == "the endpoint cannot be reached (ClientConnectorError)"
    assert "hunter2" not in repr(endpoints)


def test_passages_are_bounded_and_scores_are_scaled() -> None:
    many = [FoundPassage(f" {n} " + "y" * 50, "t" * 1000, "s", 20.0 - n) for n in range(30)]
    found = bound_passages(many, 3, 10, 18.5)
    assert [one.score for one in found] == [1.0, 0.95]
    assert all(len(one.text) <= 10 and len(one.title) == 300 for one in found)
    assert bound_passages([FoundPassage("\ud800x", score=float("nan"))], 3, 10, None) == (FoundPassage("?x"),)


def load(directory: Path, **resource: Any) -> Resource:
    written = {"type": "retriever", "description": "d", **resource}
    (directory / "all.yaml").write_text(yaml.safe_dump({"contexts": {"help": {"resources": {"it": written}}}}))
    source = PolicySource(directory, load_registry(), NoMaterials(), retrievers=make_retrievers())
    return load_snapshot(source, 1).resources["help/it"]


URL = {"url": "https://example.com/search"}


@pytest.mark.parametrize(
    ("resource", "fault"),
    [
        ({"data": {}}, "give exactly one of url, endpoint and plugin"),
        ({"data": {**URL, "plugin": "faq"}}, "give exactly one of"),
        ({"data": {"url": "file:///etc/passwd"}}, "does not begin with http"),
        ({"data": {"plugin": "fag"}}, "there is no plugin 'fag' that searches; did you mean 'faq'?"),
        ({"data": {"plugin": "faq", "options": {"file": "x"}}}, "options.file: "),
        ({"data": {"plugin": "faq", "method": "GET"}}, "method: belongs to an endpoint"),
        ({"data": {**URL, "options": {"x": 1}}}, "options belong to a plugin"),
        ({"data": {"endpoint": "bk"}}, "there is no endpoint 'bk' under retrievers in the configuration"),
        ({"data": {"endpoint": "kb", "headers": {"x": "y"}}}, "belong into the configuration"),
        ({"data": {**URL, "format": "openai", "method": "GET"}}, "needs the method POST"),
        ({"data": {**URL, "limit": 21}}, "less than or equal to 20"),
        ({"data": {**URL, "parameters": {"x": "y" * 9000}}}, "at most 8192"),
        ({"data": URL, "required": True}, "neither required nor mandatory"),
        ({"data": URL, "mandatory": True}, "neither required nor mandatory"),
        ({"data": URL, "mode": "semantic", "description": ""}, "needs a description"),
    ],
)
def test_faults_say_what_to_write(tmp_path: Path, resource: dict[str, Any], fault: str) -> None:
    with pytest.raises(Faults) as raised:
        load(tmp_path, **resource)
    assert fault in str(raised.value)


@pytest.mark.parametrize("data", [URL, {"plugin": "faq", "options": {"folder": "x"}}, {"endpoint": "kb"}])
def test_a_retriever_is_reference_material_without_a_text(tmp_path: Path, data: dict[str, Any]) -> None:
    found = load(tmp_path, data=data)
    assert (found.kind, found.text, isinstance(found.data, Retriever)) == ("reference", "", True)
    assert hash(found.data)


def test_plugins_come_in_by_the_entry_point_group(monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{__name__}:FaqRetriever"
    points = [EntryPoint("retriever-faq", path, GROUP), EntryPoint("collector-x", "no:x", GROUP)]
    monkeypatch.setattr(plugins, "find_entry_points", lambda path: points)
    assert list(load_retrievers()) == ["http", "faq"]


UNUSABLE = {
    "no.such:Thing": "cannot be loaded",
    f"{__name__}:FaqOptions": "is not a retriever, it lacks",
    f"{__name__}:URL": "is not a retriever",
}


@pytest.mark.parametrize(("value", "fault"), UNUSABLE.items())
def test_a_plugin_that_cannot_be_used_stops_the_start(monkeypatch: pytest.MonkeyPatch, value: str, fault: str) -> None:
    monkeypatch.setattr(plugins, "find_entry_points", lambda path: [EntryPoint("retriever-x", value, GROUP)])
    with pytest.raises(Faults, match=fault):
        load_retrievers()


def test_the_example_policies_are_valid() -> None:
    settings = load_settings(ROOT / "examples/retrievers/config.yaml", {})
    assert set(check_policies(settings).resources) == {"support/handbook", "support/archive"}


def test_check_says_where_another_mode_suits_the_type(tmp_path: Path) -> None:
    resources = {
        "long": {"type": "document", "data": {"content": "word " * 600}},
        "short": {"type": "document", "data": {"content": "word"}},
        "text": {"type": "text", "data": {"content": "word " * 600}},
        "needed": {"type": "document", "required": True, "data": {"content": "word " * 600}},
        "search": {"type": "retriever", "data": URL},
        "rare": {"type": "retriever", "description": "d", "mode": "on_demand", "data": dict(URL)},
    }
    (tmp_path / "all.yaml").write_text(yaml.safe_dump({"contexts": {"help": {"resources": resources}}}))
    snapshot = load_snapshot(PolicySource(tmp_path, load_registry(), NoMaterials()), 1)
    assert list(list_mode_advice(snapshot, load_registry(), lambda text: len(text.split()))) == [
        "help/long: on_demand suits most resources of the type document; this one adds 600 tokens to every request",
        "help/search: semantic suits most resources of the type retriever; this one is asked for every request",
    ]
