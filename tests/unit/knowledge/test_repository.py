"""Workspaces share a store of knowledge, and nothing else: nobody waits for what another has stored."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from gateway.domain.knowledge import Entity, KnowledgeSet
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.fair_queue import FairThreads
from gateway.knowledge.repository import KnowledgeRepository
from gateway.stores.knowledge_records import KnowledgeRecords

IMPORT = Author("editor", "import")


class HeldThreads(FairThreads):
    """Threads that let the work of one workspace wait."""

    def __init__(self, held: str) -> None:
        super().__init__("held")
        self.held, self.reached, self.open = held, asyncio.Event(), asyncio.Event()

    async def run(self, workspace: str, work: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if workspace == self.held:
            self.reached.set()
            await self.open.wait()
        return work(*args, **kwargs)


def write(workspace: str, id: str, name: str = "Lamp") -> RecordWrite:
    return RecordWrite(RecordKey(workspace, "entities", id), orjson.dumps({"type": "Thing", "name": name}))


def list_names(repository: KnowledgeRepository, workspace: str) -> list[str]:
    return sorted(one.name for one in repository.find(workspace).graph.items.entities.values())


async def open_repository(threads: FairThreads, records: KnowledgeRecords | None = None) -> KnowledgeRepository:
    repository = KnowledgeRepository(records, threads)
    await repository.start()
    return repository


async def test_nobody_waits_for_what_another_workspace_imports() -> None:
    threads = HeldThreads("slow")
    repository = await open_repository(threads)
    importing = asyncio.create_task(repository.commit([write("slow", f"e{one}") for one in range(100)], IMPORT))
    await threads.reached.wait()
    await asyncio.wait_for(repository.commit([write("quick", "e1", "Chair")], IMPORT), 10)
    assert list_names(repository, "quick") == ["Chair"]
    assert list_names(repository, "slow") == []
    threads.open.set()
    await importing
    assert len(list_names(repository, "slow")) == 100


async def test_what_another_has_read_of_a_workspace_is_used_by_its_own_next_commit() -> None:
    records = KnowledgeRecords()
    ours, theirs = await open_repository(FairThreads("a"), records), await open_repository(FairThreads("b"), records)
    await theirs.commit([write("first", "e1", "Chair")], IMPORT)
    await ours.commit([write("second", "e1")], IMPORT)  # reads that of the first workspace too
    await ours.commit([write("first", "e2")], IMPORT)
    assert list_names(ours, "first") == ["Chair", "Lamp"]
    assert list_names(ours, "second") == ["Lamp"]


async def test_what_could_not_be_used_is_used_the_next_time() -> None:
    threads = HeldThreads("slow")
    repository = await open_repository(threads)
    leaving = asyncio.create_task(repository.commit([write("slow", "e1")], IMPORT))
    await threads.reached.wait()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    threads.open.set()
    await repository.refresh("slow")
    assert list_names(repository, "slow") == ["Lamp"]


async def test_other_files_reach_every_workspace_and_keep_what_it_has_stored() -> None:
    repository = await open_repository(FairThreads("files"))
    await repository.commit([write("first", "e1")], IMPORT)
    repository.follow_files(KnowledgeSet({"f1": Entity("f1", "Thing", "Sofa")}))
    await repository.start()
    assert list_names(repository, "first") == ["Lamp", "Sofa"]
    assert list_names(repository, "other") == ["Sofa"]
    await repository.commit([RecordWrite(RecordKey("first", "entities", "e1"), None, 1)], IMPORT)
    assert list_names(repository, "first") == ["Sofa"]
