"""Several workspaces in one index: each finds its own and the files' resources, as if it were alone."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from gateway.domain.agent import Agent, SelectionSettings
from gateway.domain.resource import Mode, Resource
from gateway.domain.search import SearchResult
from gateway.domain.snapshot import Snapshot
from gateway.semantic.index.indexed_resources import IndexedResources, get_resource_id
from gateway.semantic.index.indexer import IndexerOptions
from gateway.semantic.index.vector_index import EXACT_LIMIT, ExactIndex, Floats, Rows
from gateway.semantic.model.onnx_model import normalise_vectors
from gateway.semantic.search.sentences import split_query
from gateway.semantic.service import SemanticService
from gateway.settings import SemanticSettings
from tests.support.search_harness import (
    FakeEmbedder,
    make_factory,
    make_snapshot,
    open_memory_vectors,
    resource,
    run_service,
    wait_until,
    wait_until_indexed,
)

FILE = resource("help/password", "reset forgotten password account")
A_FEES = resource("own/fees", "fees of a transfer abroad")
B_FEES = resource("own/fees", "holiday calendar of every office")
B_ONLY = resource("own/secret", "plans of the new factory")
WORDS = ("invoice", "refund", "password", "parcel", "holiday", "office", "billing", "mail", "transfer", "fees", "plan")
QUESTIONS = (
    "reset forgotten password",
    "fees of a transfer. And the plans of the factory? Forgotten account.",
    "invoice billing parcel refund. Where is the holiday plan of the office? Which fees has a transfer by mail?",
)


Policies = tuple[Snapshot, Mapping[str, Snapshot]]


@asynccontextmanager
async def serving(
    policies: Policies, embedder: FakeEmbedder | None = None, exact_limit: int = EXACT_LIMIT, **settings: Any
) -> AsyncGenerator[SemanticService]:
    opened = embedder or FakeEmbedder()
    factory = make_factory(lambda _: opened, indexer=IndexerOptions(exact_limit=exact_limit))
    semantic = SemanticSettings.model_validate({"milliseconds": 5000, **settings})
    service = SemanticService(semantic, open_memory_vectors, factory=factory)
    service.submit(*policies)
    async with run_service(service):
        await wait_until_indexed(service)
        yield service


async def find(service: SemanticService, workspace: str, text: str, among: Sequence[str]) -> SearchResult:
    return await service.find(workspace, split_query(text), among, SelectionSettings())


TWO = (make_snapshot(FILE), {"a": make_snapshot(FILE, A_FEES), "b": make_snapshot(FILE, B_FEES, B_ONLY)})


async def test_the_same_id_is_another_resource_in_another_workspace() -> None:
    async with serving(TWO) as service:
        for workspace, theirs, others in (("a", A_FEES, B_FEES), ("b", B_FEES, A_FEES)):
            found = await find(service, workspace, theirs.name, ["help/password", "own/fees"])
            assert [pick.resource for pick in found.picks] == ["own/fees"]
            found = await find(service, workspace, others.name, ["help/password", "own/fees"])
            assert (found.picks, found.pending) == ((), frozenset())
            assert await service.rank(workspace, theirs.name, ["own/fees"]) == ["own/fees"]
            assert await service.find_passages(workspace, "fees", "own/fees") == [theirs.name]


async def test_what_the_files_hold_is_found_in_every_workspace_and_indexed_once() -> None:
    async with serving(TWO) as service:
        for workspace in ("a", "b", "never heard of"):
            found = await find(service, workspace, "reset forgotten password", ["help/password"])
            assert [pick.resource for pick in found.picks] == ["help/password"]
        assert service.indexer is not None
        assert service.indexer.progress.total == 4


@pytest.mark.parametrize("workspace", ["a", "never heard of", ""])
async def test_an_id_of_another_workspace_is_an_unknown_one(workspace: str) -> None:
    async with serving(TWO) as service:
        found = await find(service, workspace, B_ONLY.name, ["own/secret"])
        assert found == SearchResult(pending=frozenset({"own/secret"}))
        assert await service.rank(workspace, B_ONLY.name, ["own/secret"]) is None
        assert await service.find_passages(workspace, B_ONLY.name, "own/secret") == []


async def test_an_edit_in_one_workspace_is_pending_there_alone() -> None:
    (base, workspaces), bag = TWO, FakeEmbedder()
    async with serving(TWO, bag) as service:
        bag.gate.clear()
        edited = resource("own/fees", "opening hours of the canteen")
        service.submit(base, {**workspaces, "a": make_snapshot(FILE, edited)})
        bag.passages.clear()
        await wait_until(lambda: bool(bag.passages))
        bag.gate.set()  # for the questions; the index waits for them
        ours, theirs = [await find(service, name, B_FEES.name, ["own/fees"]) for name in ("a", "b")]
        assert (ours.picks, ours.pending) == ((), frozenset({"own/fees"}))
        assert ([pick.resource for pick in theirs.picks], theirs.pending) == (["own/fees"], frozenset())
        await wait_until_indexed(service)
        found = await find(service, "a", "opening hours of the canteen", ["own/fees"])
        assert [pick.resource for pick in found.picks] == ["own/fees"]
        assert bag.passages == ["opening hours of the canteen"]


async def test_the_reason_of_an_expansion_names_resources_as_the_workspace_knows_them() -> None:
    near = resource("own/near", "transfer abroad takes three working days")
    policies = (make_snapshot(FILE), {"a": make_snapshot(FILE, A_FEES, near)})
    async with serving(policies, expansion={"depth": 1, "threshold": 0.3}, top_n=1) as service:
        found = await find(service, "a", A_FEES.name, ["help/password", "own/fees", "own/near"])
        assert [(pick.resource, pick.via) for pick in found.picks][1:] == [("own/near", "expansion")]
        assert "near to own/fees" in found.picks[1].why


async def test_semantic_resources_of_one_workspace_alone_are_worth_an_engine() -> None:
    manual = replace(FILE, mode=Mode.ON_DEMAND)
    async with serving((make_snapshot(manual), {"a": make_snapshot(manual, A_FEES)})) as service:
        assert service.enabled
        assert (await find(service, "a", A_FEES.name, ["own/fees"])).picks


class BlurredEmbedder(FakeEmbedder):
    """The same meanings in fewer dimensions, all of them in use: sums of such numbers depend on how they are made."""

    async def embed(
        self, texts: Sequence[str], within: float | None = None, workspace: str = ""
    ) -> NDArray[np.float32]:
        projection = np.random.default_rng(0).standard_normal((self.width, 64)).astype(np.float32)
        return normalise_vectors(await super().embed(texts, within) @ projection)


def drawn(seed: int, context: str, count: int) -> list[Resource]:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(2, 7))) for _ in range(count)]
    asked = [[" ".join(rng.choice(WORDS, 3))] * int(rng.integers(0, 2)) for _ in range(count)]
    return [
        resource(f"{context}/{n}", text, examples=more) for n, (text, more) in enumerate(zip(texts, asked, strict=True))
    ]


def exactly(found: SearchResult) -> list[tuple[str, str]]:
    """Scores to their last bit."""
    told = [(pick.resource, pick.score) for pick in found.picks] + list(found.scores)
    return [(name, float(score).hex()) for name, score in told]


async def results(policies: Policies, among: Sequence[str], exact_limit: int = EXACT_LIMIT) -> list[object]:
    settings = {"preset": "aggressive", "top_n": 100, "top_k": 100}
    async with serving(policies, BlurredEmbedder(), exact_limit, **settings) as service:
        founds = [await find(service, "a", text, among) for text in QUESTIONS]
        assert [found.reason for found in founds] == [None] * len(QUESTIONS)
        ranked = [await service.rank("a", text, among) for text in QUESTIONS]
        return [*map(exactly, founds), *ranked, await service.find_passages("a", QUESTIONS[1], "own/3")]


def rivals(count: int) -> Policies:
    """Workspace a with 40 resources of its own beside 30 of files, and b with so many."""
    files, own = drawn(1, "help", 30), drawn(2, "own", 40)
    workspaces = {"b": make_snapshot(*files, *drawn(3, "own", count))} if count else {}
    return make_snapshot(*files), {**workspaces, "a": make_snapshot(*files, *own)}


AMONG = [*(f"help/{n}" for n in range(30)), *(f"own/{n}" for n in range(40))]


@pytest.mark.parametrize("count", [1, 35, 700])
@pytest.mark.parametrize("exact_limit", [30_000, 60], ids=["exact", "coded"])
async def test_what_another_workspace_stores_changes_no_bit(count: int, exact_limit: int) -> None:
    alone = await results(rivals(0), AMONG)
    assert await results(rivals(count), AMONG, exact_limit) == alone


def by_id(self: IndexedResources, base: Snapshot, workspaces: Mapping[str, Snapshot]) -> IndexedResources:
    """The mutant: stored resources are indexed under their ids alone."""
    every = [base, *reversed(list(workspaces.values()))]
    resources = {name: one for each in every for name, one in each.resources.items()}
    return IndexedResources(self.generation + 1, base, {}, resources)


compute_scores = ExactIndex.compute_scores


def in_one_product(self: ExactIndex, queries: Floats, rows: Rows) -> Floats:
    """The mutant: rows that are not asked for decide the last bit of a score, as in one product over everything.

    Whether such a product really rounds otherwise depends on the processor, so the bit is changed by hand.
    """
    scores = compute_scores(self, queries, rows)
    return np.nextafter(scores, np.float32(np.inf)) if len(rows) < len(self) else scores


@pytest.mark.parametrize(
    ("part", "name", "mutant"), [(IndexedResources, "update", by_id), (ExactIndex, "compute_scores", in_one_product)]
)
async def test_an_influence_of_others_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, part: type, name: str, mutant: object
) -> None:
    monkeypatch.setattr(part, name, mutant)
    assert await results(rivals(35), AMONG) != await results(rivals(0), AMONG)


def test_keys_tell_workspaces_apart_and_lead_back_to_ids() -> None:
    held = IndexedResources.empty().update(*TWO)
    assert list(held.resources) == ["help/password", "a\0own/fees", "b\0own/fees", "b\0own/secret"]
    assert list(held.get_keys("b", ["own/fees", "help/password"])) == ["b\0own/fees", "help/password"]
    assert list(held.get_keys("a", ["own/secret"])) == ["own/secret"]
    assert [get_resource_id(key) for key in held.resources] == ["help/password", "own/fees", "own/fees", "own/secret"]


def test_a_workspace_that_did_not_change_is_not_looked_at_again() -> None:
    base, workspaces = TWO
    first = IndexedResources.empty().update(base, workspaces)
    second = first.update(base, {**workspaces, "a": make_snapshot(FILE)})
    assert second.own["b"] is first.own["b"]
    assert list(second.resources) == ["help/password", "b\0own/fees", "b\0own/secret"]
    third = second.update(make_snapshot(FILE, B_ONLY), workspaces)
    assert list(third.resources) == ["help/password", "own/secret", "a\0own/fees", "b\0own/fees"]
    assert (first.generation, second.generation, third.generation) == (1, 2, 3)


async def test_the_expansion_of_any_workspaces_agent_is_prepared() -> None:
    expanding = Agent("x", "X", selection=SelectionSettings.from_data({"expansion": {"depth": 1}}))
    plain, (base, workspaces) = Agent("y", "Y"), TWO
    for agents, expands in (({"y": plain}, False), ({"y": plain, "x": expanding}, True)):
        others = {**workspaces, "b": replace(workspaces["b"], agents=agents)}
        async with serving((base, others)) as service:
            assert service.engine is not None
            assert service.engine._expands.is_set() is expands
            service.submit(base, {**others, "a": replace(workspaces["a"], agents={"x": expanding})})
            assert service.engine._expands.is_set()
