"""Semantic search as the gateway runs it: built when needed, again after a failure, and for the newest policies."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.agent import SelectionSettings
from gateway.domain.resource import Mode, Resource
from gateway.domain.search import SearchResult
from gateway.errors import StoreError
from gateway.semantic.factory import open_embedder, open_vectors
from gateway.semantic.model.embedder import EmbedderUnavailable
from gateway.semantic.model.remote_embedder import RemoteEmbedder
from gateway.semantic.search.sentences import split_query
from gateway.semantic.service import SemanticService
from gateway.settings import SemanticSettings
from gateway.stores.memory_vectors import MemoryVectorStore
from gateway.stores.protocols import VectorStore
from gateway.stores.sqlite_vectors import SqliteVectorStore
from tests.support.redis_server import running_redis
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

PASSWORD = resource("help/password", "reset forgotten password account")
INVOICE = resource("help/invoice", "download monthly invoice billing")
MANUAL = resource("help/manual", "operating manual of the machine", Mode.ON_DEMAND)


class Opened(list[FakeEmbedder]):
    """The embedders that were opened, in order; `missing` is why none can be."""

    missing: str | None = None

    def open(self, settings: SemanticSettings) -> FakeEmbedder:
        if self.missing is not None:
            raise EmbedderUnavailable(self.missing)
        self.append(FakeEmbedder())
        return self[-1]


@pytest.fixture
def opened() -> Opened:
    return Opened()


@asynccontextmanager
async def serving(
    opened: Opened,
    *resources: Resource,
    vectors: Callable[[], Any] = open_memory_vectors,
    sweep: float = 60,
    **settings: Any,
) -> AsyncGenerator[SemanticService]:
    factory = make_factory(opened.open, sweep_seconds=sweep)
    service = SemanticService(SemanticSettings.model_validate(settings), vectors, factory=factory)
    service.submit(make_snapshot(*resources))
    async with run_service(service):
        yield service


async def find(service: SemanticService, text: str, *among: Resource) -> SearchResult:
    return await service.find("w", split_query(text), [one.id for one in among], SelectionSettings())


def names(found: SearchResult) -> list[str]:
    return [pick.resource for pick in found.picks]


async def test_what_is_submitted_is_found_and_a_question_that_comes_too_early_is_not_a_failure(opened: Opened) -> None:
    async with serving(opened, PASSWORD, INVOICE) as service:
        early = await find(service, "reset forgotten password", PASSWORD, INVOICE)
        assert early == SearchResult(pending=frozenset({"help/password", "help/invoice"}))
        await wait_until_indexed(service)
        assert names(await find(service, "reset forgotten password", PASSWORD, INVOICE)) == ["help/password"]
    assert [bag.closed for bag in opened] == [True]


async def test_nothing_is_loaded_before_there_is_something_to_find(opened: Opened) -> None:
    async with serving(opened, MANUAL) as service:
        await asyncio.sleep(0.02)
        assert (opened, service.cache_counts) == ([], {})
        assert await service.rank("w", "operating manual", ["help/manual"]) is None
        await wait_until_indexed(service)
        assert await service.rank("w", "operating manual", ["help/manual"]) == ["help/manual"]
        assert await service.find_passages("w", "operating manual", "help/manual") == [
            "operating manual of the machine"
        ]


async def test_hits_and_misses_are_counted(opened: Opened) -> None:
    async with serving(opened, PASSWORD) as service:
        await wait_until_indexed(service)
        for _ in range(3):
            await find(service, "reset forgotten password", PASSWORD)
        assert service.cache_counts == {("hit",): 2, ("miss",): 1}


async def test_an_embedder_that_cannot_be_opened_is_unavailable_and_tried_again(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    opened.missing = "the folder is gone"
    async with serving(opened, PASSWORD) as service:
        await wait_until(lambda: service.error is not None)
        found = await find(service, "reset forgotten password", PASSWORD)
        assert (found.reason, service.error) == ("unavailable", "the folder is gone")
        assert await service.rank("w", "reset password", ["help/password"]) is None
        assert await service.find_passages("w", "reset password", "help/password") == []
        await asyncio.sleep(0.1)
        assert [record.message for record in caplog.records] == [
            "semantic resources stay on demand: the folder is gone"
        ]
        opened.missing = None
        await wait_until_indexed(service)
        assert names(await find(service, "reset forgotten password", PASSWORD)) == ["help/password"]
        assert service.error is None


async def test_an_embedder_that_does_not_work_is_closed_and_opened_anew(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    until_third: list[int] = []
    monkeypatch.setattr(FakeEmbedder, "embed", broken(until_third))
    async with serving(opened, PASSWORD) as service:
        await wait_until_indexed(service)
        assert len(until_third) == 3
        assert [bag.closed for bag in opened] == [True, True, False]
        assert names(await find(service, "reset forgotten password", PASSWORD)) == ["help/password"]


def broken(tries: list[int]) -> Any:
    """Embeds from the third warm-up on: a model file is read again, not only asked again."""
    embed = FakeEmbedder.embed

    async def embed_or_not(self: FakeEmbedder, texts: Any, within: float | None = None, workspace: str = "") -> Any:
        if len(tries) < 3:
            tries.append(1)
            self.broken = len(tries) < 3
        return await embed(self, texts, within)

    return embed_or_not


async def test_what_was_edited_is_pending_until_the_new_index_serves(opened: Opened) -> None:
    async with serving(opened, PASSWORD, INVOICE) as service:
        await wait_until_indexed(service)
        (bag,) = opened
        bag.gate.clear()
        edited = resource("help/password", "everything about holidays")
        service.submit(make_snapshot(edited, INVOICE))
        bag.passages.clear()
        await wait_until(lambda: bag.passages == ["everything about holidays"])
        bag.gate.set()  # for the questions; the index waits for them
        found = await find(service, "download monthly invoice", edited, INVOICE)
        assert (names(found), found.pending) == (["help/invoice"], frozenset({"help/password"}))
        await wait_until_indexed(service)
        found = await find(service, "everything about holidays", edited, INVOICE)
        assert (names(found), found.pending) == (["help/password"], frozenset())
        assert bag.passages == ["everything about holidays"]


async def test_a_policy_change_that_leaves_the_texts_alone_embeds_nothing(opened: Opened) -> None:
    async with serving(opened, PASSWORD, INVOICE) as service:
        await wait_until_indexed(service)
        opened[0].passages.clear()
        service.submit(make_snapshot(INVOICE, PASSWORD))
        await wait_until_indexed(service)
        assert opened[0].passages == []


async def test_a_restart_embeds_nothing(opened: Opened, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/gateway.db"
    for _ in range(2):
        async with serving(opened, PASSWORD, INVOICE, vectors=lambda: open_vectors(store)) as service:
            await wait_until_indexed(service)
            assert names(await find(service, "reset forgotten password", PASSWORD, INVOICE)) == ["help/password"]
    assert [len(bag.passages) for bag in opened] == [3, 1]  # each has warmed up


async def test_a_new_replica_on_the_same_server_embeds_nothing_and_one_without_it_embeds_itself(opened: Opened) -> None:
    with running_redis() as server:
        for _ in range(2):
            async with serving(opened, PASSWORD, INVOICE, vectors=lambda: open_vectors(server.url)) as service:
                await wait_until_indexed(service)
        server.kill()
        async with serving(opened, PASSWORD, INVOICE, vectors=lambda: open_vectors(server.url)) as service:
            await wait_until_indexed(service)
            assert names(await find(service, "reset forgotten password", PASSWORD, INVOICE)) == ["help/password"]
    assert [len(bag.passages) for bag in opened] == [3, 1, 3]  # each has warmed up


async def test_a_sweep_that_fails_stops_nothing(opened: Opened) -> None:
    sweeps: list[int] = []

    class Stuck(MemoryVectorStore):
        async def sweep(self) -> int:
            sweeps.append(1)
            raise StoreError("disk")

    async def stuck() -> VectorStore:
        return Stuck()

    async with serving(opened, PASSWORD, vectors=stuck, sweep=0.005) as service:
        await wait_until(lambda: len(sweeps) >= 2)
        service.submit(make_snapshot(INVOICE))
        await wait_until_indexed(service)
        assert names(await find(service, "download monthly invoice", INVOICE)) == ["help/invoice"]


async def test_vectors_are_stored_beside_the_store_and_in_memory_where_that_fails(tmp_path: Path) -> None:
    good = await open_vectors(f"sqlite:///{tmp_path}/gateway.db")
    assert isinstance(good, SqliteVectorStore)
    assert (tmp_path / "gateway-vectors.db").is_file()
    await good.close()
    (tmp_path / "other-vectors.db").write_bytes(b"not a database" * 100)
    assert isinstance(await open_vectors(f"sqlite:///{tmp_path}/other.db"), MemoryVectorStore)
    assert isinstance(await open_vectors("memory:"), MemoryVectorStore)


async def test_a_calibration_that_cannot_be_used_is_a_reason_to_stay_on_demand(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "fitted.json").write_text("{}")
    async with serving(opened, PASSWORD, calibration=str(tmp_path / "fitted.json")) as service:
        await wait_until(lambda: service.error is not None)
        assert "fitted.json" in (service.error or "")
        assert (await find(service, "reset", PASSWORD)).reason == "unavailable"


async def test_the_settings_choose_the_embedder(tmp_path: Path) -> None:
    remote = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m", "api_key": "k"}
    embedder = open_embedder(SemanticSettings.model_validate({"embedder": remote}))
    assert isinstance(embedder, RemoteEmbedder)
    with pytest.raises(EmbedderUnavailable, match="cannot be read"):
        open_embedder(SemanticSettings.model_validate({"embedder": {"path": str(tmp_path / "nowhere")}}))


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted where Linux lists them")
def test_matrix_products_bring_no_threads_of_their_own() -> None:
    code = """
import os, sys
from gateway.semantic.service import DEFAULT_FACTORY
from gateway.settings import SemanticSettings
assert "numpy" not in sys.modules
DEFAULT_FACTORY.load(SemanticSettings())
import numpy as np
np.ones((600, 600)) @ np.ones((600, 600))
print(len(os.listdir("/proc/self/task")))
"""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
    assert (ran.stdout.strip(), ran.stderr) == ("1", "")
