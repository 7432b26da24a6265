"""Builds contexts for requests about nodes of one workspace, in process, without a store; prints JSON.

Pages below sections below sites, of about a hundred words each, with typed links, 1,000 resources and a tenth as many
entities as nodes, with relationships and axioms. Every request is about another page and asks something else, so that
nothing of the last one helps.
"""

import asyncio
import gc
import random
import re
import resource
import sys
import tempfile
import time
from pathlib import Path

import orjson
import uvloop
from msgspec.structs import replace

from gateway.app import Gateway
from gateway.domain.content import NodeContent, NodeLink
from gateway.domain.exchange import Exchange
from gateway.domain.knowledge import Axiom, Entity, KnowledgeSet, Relationship
from gateway.domain.node import Node
from gateway.domain.node_tree import NodeTree
from gateway.domain.principal import ANONYMOUS
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.settings import Settings
from gateway.worker import GC_THRESHOLDS
from scripts.benchmark.control_snapshot import build_context
from scripts.benchmark.semantic_figures import Figure, print_figures

ROOT = Path(__file__).resolve().parents[2]
CONTEXTS = 100  # of ten resources each
PAGES, SECTIONS = 50, 20  # of a section, and of a site
WORDS, SENTENCE = 100, 12  # of a page, and of a sentence
TYPES = 20  # of entities
TARGET_MS = 15.0
PATIENCE = 300.0  # seconds until all nodes are indexed


def read_vocabulary() -> list[str]:
    """The words of this project's documents, as often as they occur there: tokens of made-up words cost far more."""
    texts = (file.read_text(encoding="utf-8") for file in sorted((ROOT / "docs").rglob("*.md")))
    return [word for text in texts for word in re.findall(r"[A-Za-z]{2,}", text)]


def make_content(count: int, vocabulary: list[str], draw: random.Random) -> tuple[NodeTree, dict[str, NodeContent]]:
    """A tree of pages, and what its nodes say."""
    nodes: dict[str, Node] = {}
    contents: dict[str, NodeContent] = {}

    def add(id: str, path: str, parent: str | None, words: list[str], links: tuple[NodeLink, ...] = ()) -> None:
        nodes[path] = Node(id, path, parent, "page", " ".join(words[:3]))
        body = " ".join(" ".join(words[at : at + SENTENCE]) + "." for at in range(0, len(words), SENTENCE))
        contents[id] = NodeContent(body, {"status": draw.choice(["open", "done"])}, links)

    for number in range(count):
        section, site = number // PAGES, number // (PAGES * SECTIONS)
        above = f"site-{site}/section-{section}"
        if number % (PAGES * SECTIONS) == 0:
            add(f"site-{site}", f"site-{site}", None, draw.choices(vocabulary, k=30))
        if number % PAGES == 0:
            add(f"section-{section}", above, f"site-{site}", draw.choices(vocabulary, k=30))
        links = tuple(NodeLink("see", f"page-{draw.randrange(count)}") for _ in range(2))
        add(f"page-{number}", f"{above}/page-{number}", above, draw.choices(vocabulary, k=WORDS), links)
    return NodeTree(nodes, {node.id: path for path, node in nodes.items()}), contents


def make_knowledge(count: int, vocabulary: list[str], draw: random.Random) -> KnowledgeSet:
    """Entities with a few properties, each related to two others, and an axiom for every type."""
    entities = {
        f"e{one}": Entity(
            f"e{one}",
            f"type-{one % TYPES}",
            " ".join(draw.choices(vocabulary, k=2)),
            properties={f"property {place}": " ".join(draw.choices(vocabulary, k=SENTENCE)) for place in range(3)},
        )
        for one in range(count)
    }
    ties = [(f"e{one}", f"e{draw.randrange(count)}") for one in range(count) for _ in range(2)]
    relationships = {f"r{at}": Relationship(f"r{at}", "uses", *ends) for at, ends in enumerate(ties)}
    texts = [" ".join(draw.choices(vocabulary, k=SENTENCE)) for _ in range(TYPES)]
    axioms = {f"a{at}": Axiom(f"a{at}", (f"type-{at}",), text) for at, text in enumerate(texts)}
    return KnowledgeSet(entities, relationships, axioms)


async def open_gateway(directory: Path) -> Gateway:
    """A gateway whose collectors may take their time: on a busy machine, they would be left out instead."""
    data = {
        "policies": str(directory),
        "store": "memory:",
        "secret": "s",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "semantic": {"enabled": False},
        "limits": {"collect_milliseconds": 30_000},
    }
    return await Gateway.open(Settings.model_validate(data))


async def fill(gateway: Gateway, count: int, vocabulary: list[str], draw: random.Random) -> None:
    """Contexts in the store, and content as policy files would give it; what a store takes to read is not measured."""
    writes = [
        RecordWrite(RecordKey("default", "contexts", f"area-{one}"), build_context(one)) for one in range(CONTEXTS)
    ]
    await gateway.policies.commit(writes, Author("bench", "create"))
    tree, contents = make_content(count, vocabulary, draw)
    _ = tree.children  # as where policies are compiled
    tree.names.build()  # as the first request about content has it built, in the background
    snapshot = replace(gateway.policies.get_snapshot("default"), tree=tree, contents=contents)
    gateway.policies.get_snapshot = lambda workspace: snapshot  # type: ignore[method-assign]
    knowledge = make_knowledge(max(10, count // 10), vocabulary, draw)
    gateway.policies.get_knowledge = lambda: knowledge  # type: ignore[method-assign]
    ready = asyncio.Event()
    gateway.knowledge.repository.watch(lambda workspace: ready.set())
    gateway.knowledge.repository.follow_files(knowledge)
    await ready.wait()


class Sample:
    """Milliseconds of one request: how long it took, and the CPU of all threads."""

    def __init__(self) -> None:
        self._began, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float]:
        return (time.perf_counter() - self._began) * 1000, (time.process_time() - self._cpu) * 1000


async def prepare(gateway: Gateway, node: str, question: str) -> tuple[float, float, str]:
    """The times of a request about a node, and the system message that it gets."""
    headers = [
        (b"x-context-content", node.encode()),
        (b"x-context-type", b"assist"),
        (b"x-context-contexts", b"area-1"),
    ]
    body = orjson.dumps({"model": "demo", "messages": [{"role": "user", "content": question}]})
    exchange = Exchange("x", ANONYMOUS, gateway.policies.get_snapshot("default"), headers)
    sample = Sample()
    prepared = await gateway.pipeline.prepare(exchange, body)
    sent = prepared.body
    times = sample.stop()
    assert not exchange.degraded, exchange.degraded
    return *times, orjson.loads(sent)["messages"][0]["content"]


async def wait_until_indexed(gateway: Gateway) -> float:
    """Seconds of CPU until all nodes can be found."""
    began = time.process_time()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        headers = [(b"x-context-type", b"search")]
        exchange = Exchange("x", ANONYMOUS, gateway.policies.get_snapshot("default"), headers)
        body = orjson.dumps({"model": "demo", "messages": [{"role": "user", "content": "xyzzy"}]})
        prepared = await gateway.pipeline.prepare(exchange, body)
        (nodes,) = [one for one in prepared.injection.selection.collectors if one.name == "nodes"]
        if nodes.failure is None and nodes.considered and not nodes.truncated:
            return time.process_time() - began
    raise TimeoutError("the nodes were never indexed")


def find_percentile(samples: list[float], share: float) -> float:
    return sorted(samples)[min(len(samples) - 1, int(share * len(samples)))]


async def measure(count: int, rounds: int) -> list[Figure]:
    draw = random.Random(1)
    vocabulary = read_vocabulary()
    with tempfile.TemporaryDirectory() as directory:
        gateway = await open_gateway(Path(directory))
        async with gateway.running():
            await fill(gateway, count, vocabulary, draw)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            indexed = await wait_until_indexed(gateway)
            gc.collect()
            gc.freeze()  # as after every change of policies
            gc.set_threshold(*GC_THRESHOLDS)
            after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            samples = []
            for number in range(rounds + 10):
                question = " ".join(draw.choices(vocabulary, k=8)) + "?"
                took, cpu, block = await prepare(gateway, f"page-{draw.randrange(count)}", question)
                assert "--- Focused Content [" in block
                assert "--- Knowledge [" in block
                if number >= 10:
                    samples.append((took, cpu))
    name, times = f"context for one of {count:,} nodes", [one for one, _ in samples]
    return [
        Figure(f"{name}, CPU, p50", find_percentile([cpu for _, cpu in samples], 0.5), "ms"),
        Figure(f"{name}, CPU, p95", find_percentile([cpu for _, cpu in samples], 0.95), "ms", target=TARGET_MS),
        Figure(f"{name}, time, p95", find_percentile(times, 0.95), "ms"),
        Figure(f"{name}, index made, CPU", indexed, "s"),
        Figure(f"{name}, index, memory", max(0.0, after - before), "MB"),
    ]


if __name__ == "__main__":
    print_figures(uvloop.run(measure(int(sys.argv[1]), int(sys.argv[2]))))
