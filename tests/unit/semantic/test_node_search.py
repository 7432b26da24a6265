"""Nodes are found by their words as soon as they are indexed, by whoever may read them."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gateway.collectors.node_search import NodeCollector
from gateway.domain.collector import Findings
from gateway.domain.hints import ContextHints
from gateway.domain.principal import Principal
from gateway.domain.scope import ContextRequest
from gateway.domain.search import NodeMatches, NodeQuery
from gateway.domain.snapshot import Snapshot
from gateway.fair_queue import FairThreads
from gateway.semantic.node_search import NodeSearch
from tests.support.content_orders import FakeContent, make_order

Policies = Callable[[str], Snapshot]

TREE = """
content:
  work:
    body: Everything about work.
    children:
      m1:
        type: task
        title: Migrate the billing database
        body: Move the tables to Postgres.
        properties: {status: open}
      m2: {type: task, title: Migrate the user database, body: Done in three steps with a dry run.}
      t3: {type: task, title: Buy coffee, body: The kitchen is empty.}
      p1: {title: Coffee guide, body: Grind the beans and heat the water.}
      secret:
        title: Salaries
        readers: ['group:board']
        children: {c: {title: Coffee money, body: Coffee is paid by nobody.}}
      silent: {title: Coffee}
"""


@pytest.fixture
def tree(policies: Policies) -> Snapshot:
    return policies(TREE)


@pytest.fixture
def content(tree: Snapshot) -> FakeContent:
    return FakeContent(tree)


@pytest.fixture
def search(content: FakeContent) -> NodeSearch:
    return NodeSearch(content, FairThreads("tests"), patience=20.0)


BOARD = frozenset({"group:board"})


async def find(search: NodeSearch, tree: Snapshot, text: str, readers: frozenset[str] = frozenset()) -> list[str]:
    found = await search.find("default", tree, readers, NodeQuery((text,)), 10)
    assert found.complete
    return [one.id.rpartition("/")[2] for one in found.matches]


async def test_a_node_is_found_by_title_text_and_properties_if_it_says_something(
    tree: Snapshot, search: NodeSearch
) -> None:
    assert sorted(await find(search, tree, "coffee")) == ["p1", "t3"]
    assert await find(search, tree, "beans and water") == ["p1"]
    assert await find(search, tree, "status: open") == ["m1"]


async def test_what_is_hidden_above_is_found_by_its_readers_only(tree: Snapshot, search: NodeSearch) -> None:
    assert "c" not in await find(search, tree, "coffee")
    assert "c" in await find(search, tree, "coffee", BOARD)
    found = [await search.find("default", tree, who, NodeQuery(("coffee",)), 10) for who in (frozenset(), BOARD)]
    assert [one.total for one in found] == [5, 6]


async def test_a_new_tree_and_new_texts_are_found_after_the_next_search(
    tree: Snapshot, policies: Policies, content: FakeContent, search: NodeSearch
) -> None:
    assert await find(search, tree, "kitchen") == ["t3"]
    other = policies(TREE.replace("The kitchen is empty.", "The cellar is empty.").replace("Buy coffee", "Buy tea"))
    content.snapshot = other
    await search.find("default", other, frozenset(), NodeQuery(("cellar",)), 10)
    await search.wait_until_indexed("default")
    assert [await find(search, other, one) for one in ("kitchen", "cellar", "tea")] == [[], ["t3"], ["t3"]]
    content.changes["work/t3"] = replace(other.contents["work/t3"], body="The attic is empty.")
    search.note_change("default", ["work/t3"])
    await find(search, other, "attic")
    await search.wait_until_indexed("default")
    assert [await find(search, other, one) for one in ("cellar", "attic")] == [[], ["t3"]]
    moved = policies(TREE.replace("t3: {type: task,", "t3: {readers: ['group:board'], type: task,"))
    assert "t3" not in await find(search, moved, "coffee"), "even before it is indexed: the newest tree counts"


async def test_a_request_does_not_wait_for_a_large_index(tree: Snapshot, content: FakeContent) -> None:
    impatient = NodeSearch(content, FairThreads("tests"), patience=0.0)
    assert await impatient.find("default", tree, frozenset(), NodeQuery(("coffee",)), 10) == NodeMatches(complete=False)
    await impatient.wait_until_indexed("default")
    assert await find(impatient, tree, "kitchen") == ["t3"]


async def test_a_store_that_failed_is_asked_again(
    tree: Snapshot, content: FakeContent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.semantic.node_search.RETRY_SECONDS", 0.01)
    search = NodeSearch(content, FairThreads("tests"), patience=0.2)
    content.fails = True
    assert not (await search.find("default", tree, frozenset(), NodeQuery(("coffee",)), 10)).complete
    content.fails = False
    await asyncio.sleep(0.05)
    await search.find("default", tree, frozenset(), NodeQuery(("coffee",)), 10)
    await search.wait_until_indexed("default")
    assert await find(search, tree, "kitchen") == ["t3"]


async def collect(
    tree: Snapshot, content: FakeContent, search: NodeSearch, asked: ContextRequest, question: str
) -> Findings:
    nodes = NodeCollector(content, search)
    return await nodes.collect(make_order(nodes, tree, asked, question, Principal("tests")))


def names(found: Findings) -> list[str]:
    return [one.id.rpartition("/")[2] for one in found.items]


async def test_tasks_are_found_by_what_the_question_means_and_by_what_the_request_puts_first(
    tree: Snapshot, content: FakeContent, search: NodeSearch
) -> None:
    found = await collect(tree, content, search, ContextRequest(type="chat"), "What tasks are overdue?")
    assert set(names(found)) == {"m1", "m2", "t3"}
    hinted = ContextRequest(hints=ContextHints(prioritize_types=("task",)))
    found = await collect(tree, content, search, hinted, "coffee beans")
    assert names(found)[0] == "p1"
    assert {"m1", "m2", "t3"} <= set(names(found))


async def test_similar_nodes_are_found_by_the_title_of_the_focus_and_never_the_focus_itself(
    tree: Snapshot, content: FakeContent, search: NodeSearch
) -> None:
    asked = ContextRequest(content="work/m1")
    found = await collect(tree, content, search, asked, "Break this task into subtasks")
    assert names(found)[0] == "m2"
    assert "m1" not in names(found)
    assert "p1" not in names(found)
    assert not names(await collect(tree, content, search, ContextRequest(content="work/p1"), "Summarize this page"))[2:]


async def test_a_short_search_runs_on_the_event_loop_where_nothing_is_hidden(policies: Policies) -> None:
    tree = policies(TREE.replace("        readers: ['group:board']\n", ""))
    threads = RunCounter("tests")
    search = NodeSearch(FakeContent(tree), threads, patience=20.0)

    async def find(text: str) -> list[str]:
        threads.here = 0
        found = await search.find("default", tree, BOARD, NodeQuery((text,)), 10)
        return [one.id for one in found.matches]

    assert await find("coffee guide") != []
    first = threads.here
    assert (await find("coffee guide"), first, threads.here) == (await find("coffee guide"), 0, 1)
    await find("coffee " * 1000)
    assert threads.here == 0


class RunCounter(FairThreads):
    """Counts what runs on the event loop."""

    here = 0

    async def run_here(self, *args, **kwargs):
        self.here += 1
        return await super().run_here(*args, **kwargs)
