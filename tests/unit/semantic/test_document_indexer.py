"""Nodes and entities are found by their meaning as soon as they have vectors, and by their words until then."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from gateway.collectors.node_search import NodeCollector
from gateway.domain.knowledge import Entity
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.search import NodeMatches, NodeQuery
from gateway.domain.snapshot import Snapshot
from gateway.fair_queue import FairThreads
from gateway.knowledge.entity_index import EntityIndex
from gateway.knowledge.entity_vectors import EntityVectors, MeaningRule
from gateway.knowledge.matches import TypeFilter
from gateway.semantic.document_indexer import DocumentIndexer
from gateway.semantic.node_search import NodeSearch
from gateway.semantic.service import SemanticService
from gateway.settings import SemanticSettings
from gateway.stores.memory_vectors import MemoryVectorStore
from gateway.stores.protocols import VectorStore
from tests.support.content_orders import FakeContent, make_order
from tests.support.search_harness import FakeEmbedder, make_factory, run_service, wait_until

Policies = Callable[[str], Snapshot]

TREE = """
content:
  work:
    body: Everything about work.
    children:
      leave: {title: Leave, body: parents may stay at home with the child}
      coffee: {title: Coffee, body: grind the beans and heat the water}
      secret:
        title: Board
        readers: ['group:board']
        children: {home: {title: Homes, body: at home with the child parents may stay}}
"""
# The embedder compares words; the index of words is asked for something else.
MEANT = "parents may stay at home with the child"
BOARD = frozenset({"group:board"})


class LastingVectors(MemoryVectorStore):
    """Vectors that are still there after a restart."""

    async def close(self) -> None:
        """Nothing is held open."""


@dataclass
class Meaning:
    """A search with vectors, and what it is made of."""

    search: NodeSearch
    documents: DocumentIndexer
    embedder: FakeEmbedder
    content: FakeContent

    async def find(
        self, words: str = "xyzzy", readers: frozenset[str] = frozenset(), max_embedded: int = 100
    ) -> NodeMatches:
        query = NodeQuery((words,), meant=(MEANT,), max_embedded=max_embedded, seconds=5.0)
        return await self.search.find("default", self.content.snapshot, readers, query, 10)

    async def list_found(self, words: str = "xyzzy", readers: frozenset[str] = frozenset()) -> list[str]:
        return [one.id.rpartition("/")[2] for one in (await self.find(words, readers)).matches if one.score >= 0.6]

    async def wait(self) -> None:
        async with asyncio.timeout(10):
            await self.search.wait_until_indexed("default")
            await self.find()
            await self.documents.wait_until_indexed()


@pytest.fixture
def tree(policies: Policies) -> Snapshot:
    return policies(TREE)


@asynccontextmanager
async def open_meaning(
    tree: Snapshot, store: VectorStore | None = None, embedder: FakeEmbedder | None = None, max_bytes: int = 2**24
) -> AsyncGenerator[Meaning]:
    vectors, embedder = store or MemoryVectorStore(), embedder or FakeEmbedder()

    async def open_vectors() -> VectorStore:
        return vectors

    settings = SemanticSettings(milliseconds=5000)
    service = SemanticService(settings, open_vectors, factory=make_factory(lambda _: embedder))
    threads, content = FairThreads("tests"), FakeContent(tree)
    documents = DocumentIndexer(service, threads, max_bytes, share=1.0)
    async with run_service(service):
        running = asyncio.create_task(documents.run())
        try:
            yield Meaning(NodeSearch(content, threads, documents, patience=20.0), documents, embedder, content)
        finally:
            embedder.gate.set()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_node_is_found_by_its_meaning_by_whoever_may_read_it(tree: Snapshot) -> None:
    async with open_meaning(tree) as meaning:
        await meaning.find()
        await meaning.wait()
        assert await meaning.list_found() == ["leave"]
        assert sorted(await meaning.list_found(readers=BOARD)) == ["home", "leave"]
        (match,) = [one for one in (await meaning.find()).matches if one.id.endswith("leave")]
        assert match.by_meaning


async def test_until_there_are_vectors_words_find_nodes_and_nobody_waits(tree: Snapshot) -> None:
    async with open_meaning(tree) as meaning:
        await meaning.find()
        meaning.embedder.gate.clear()
        found = await meaning.find("beans and water")
        assert [one.id for one in found.matches] == ["work/coffee"]
        assert found.failure is None, "it is not degraded: there are no vectors yet"


async def test_what_others_have_embedded_is_not_embedded_again(tree: Snapshot) -> None:
    store = LastingVectors()
    async with open_meaning(tree, store) as first:
        await first.find()
        await first.wait()
        assert first.documents.embedded == 4
    async with open_meaning(tree, store) as second:
        await second.find()
        await second.wait()
        assert await second.list_found() == ["leave"]
        assert second.documents.embedded == 0


async def test_an_edit_is_found_by_what_it_says_now(tree: Snapshot) -> None:
    async with open_meaning(tree) as meaning:
        await meaning.find()
        await meaning.wait()
        meaning.content.changes["work/leave"] = replace(tree.contents["work/leave"], body="dogs are welcome")
        meaning.content.changes["work/coffee"] = replace(tree.contents["work/coffee"], body=MEANT)
        meaning.search.note_change("default", ["work/leave", "work/coffee"])
        await meaning.find()
        await meaning.wait()
        assert await meaning.list_found() == ["coffee"]


async def test_a_broken_embedder_leaves_the_words_and_is_told(tree: Snapshot) -> None:
    async with open_meaning(tree) as meaning:
        await meaning.find()
        await meaning.wait()
        meaning.embedder.broken = True
        query = NodeQuery(("beans",), meant=("never asked before",), max_embedded=100, seconds=5.0)
        found = await meaning.search.find("default", tree, frozenset(), query, 10)
        assert ([one.id for one in found.matches], found.failure) == (["work/coffee"], "unavailable")


async def test_a_question_whose_vector_comes_too_late_is_answered_by_words(tree: Snapshot) -> None:
    async with open_meaning(tree) as meaning:
        await meaning.find()
        await meaning.wait()
        meaning.embedder.gate.clear()
        query = NodeQuery(("beans",), meant=("never asked before",), max_embedded=100, seconds=0.01)
        found = await meaning.search.find("default", tree, frozenset(), query, 10)
        assert ([one.id for one in found.matches], found.failure) == (["work/coffee"], "late")


async def test_what_is_switched_off_embeds_nothing(tree: Snapshot) -> None:
    async with open_meaning(tree) as meaning:
        nodes = NodeCollector(meaning.content, meaning.search)
        for options in ({"semantic": False}, {"max_embedded": 0}):
            order = make_order(nodes, tree, ContextRequest(type="chat"), "coffee beans", Principal("t"), **options)
            await nodes.collect(order)
        await meaning.search.wait_until_indexed("default")
        await nodes.collect(order)
        assert (meaning.embedder.queries, meaning.embedder.passages) == ([], [])


async def test_memory_and_numbers_are_bounded(tree: Snapshot) -> None:
    async with open_meaning(tree, max_bytes=1) as meaning:
        await meaning.find()
        await meaning.wait()
        assert meaning.documents.embedded == 4, "one step, and then no more"
        await meaning.documents.mark_used()
    async with open_meaning(tree) as meaning:
        await meaning.find(max_embedded=1)
        await meaning.search.wait_until_indexed("default")
        await meaning.find(max_embedded=1)
        await wait_until(lambda: meaning.documents.embedded > 0)
        await meaning.documents.wait_until_indexed()
        assert meaning.documents.embedded == 1


async def test_entities_are_found_by_their_meaning_among_those_that_are_visible(tree: Snapshot) -> None:
    stay = Entity("leave", "Policy", "Leave", (), {"text": MEANT})
    hidden = Entity("home", "Policy", "Homes", (), {"text": MEANT}, readers=("group:board",))
    index = EntityIndex.build([stay, hidden, Entity("coffee", "Guide", "Coffee", (), {"text": "beans"})])
    rule = MeaningRule((MEANT,), 0.32, 100, 5.0)

    async with open_meaning(tree) as meaning:
        entities = EntityVectors(meaning.documents, FairThreads("tests"))
        assert (await entities.compare("default", index, rule)).meaning is None
        await meaning.documents.wait_until_indexed()
        known = (await entities.compare("default", index, rule)).meaning
        for readers, expected in ((frozenset[str](), ["leave"]), (BOARD, ["home", "leave"])):
            found = index.search(("xyzzy",), readers, TypeFilter(), 10, known)
            assert sorted(one.entity.id for one in found.found if one.score >= 0.5) == expected
        revised = index.revise({"leave": replace(stay, properties={"text": "dogs"}), "home": None})
        await entities.compare("default", revised, rule)
        await meaning.documents.wait_until_indexed()
        known = (await entities.compare("default", revised, rule)).meaning
        assert not [one for one in revised.search(("xyzzy",), BOARD, TypeFilter(), 10, known).found if one.score >= 0.5]
