"""What content costs at a size: import, start, memory, edits of texts and of the tree, lookups; times are CPU times.

Run: .venv/bin/python -m scripts.content_figures [--nodes 100000] [--store sqlite:///…]
"""

import argparse
import asyncio
import resource
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gateway.content.activity import ActivityLog
from gateway.content.reader import WorkspaceContent
from gateway.control.content import Content
from gateway.control.content_import import ContentImporter
from gateway.control.sources.source_node import SourceNode
from gateway.control.writer import PolicyWriter
from gateway.domain.principal import Principal, Role
from gateway.errors import Fault
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.resources.registry import load_registry
from gateway.settings import DocumentSettings, LinkSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.stores.open import Stores, open_stores

EDITOR = Principal("editor", role=Role.EDITOR)
PER_FOLDER = 50  # nodes below one
TEXT = "The quick brown fox jumps over the lazy dog. " * 40  # 1.8 KB
EDITS = 20


@dataclass(frozen=True, slots=True)
class GeneratedNodes:
    """Folders of pages, each of which links to two others."""

    count: int

    def read(self) -> Iterator[SourceNode | Fault]:
        folders = max(1, self.count // PER_FOLDER)
        for number in range(self.count):
            folder = number % folders
            parent = None if number < folders else f"n{folder}"
            links = [f"n{(number * 7) % self.count}", {"to": f"n{(number * 13) % self.count}", "type": "cites"}]
            body = {"key": f"n{number}", "parent": parent, "title": f"Page {number}", "body": TEXT, "links": links}
            yield SourceNode(f"n{number}", body, "generated", number + 1)


@dataclass(frozen=True, slots=True)
class OpenContent:
    """A gateway's content over a store."""

    policies: PolicyRepository
    writer: PolicyWriter
    contents: WorkspaceContent
    content: Content


@asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncIterator[OpenContent]:
    stores: Stores = await open_stores(url)
    try:
        materials = PolicyMaterials(
            DocumentCache(DocumentSettings()), LinkCache(MemoryEphemeralStore(), LinkSettings())
        )
        policies = PolicyRepository(PolicySource(folder, load_registry(), materials), stores.records)
        await policies.start()
        await policies.refresh("default")
        writer = PolicyWriter(policies, stores.ephemeral)
        contents = WorkspaceContent(policies, stores.content, ActivityLog(stores.content))
        yield OpenContent(policies, writer, contents, Content(policies, writer, contents))
        await policies.close()
    finally:
        await stores.close()


async def measure(nodes: int, url: str, folder: Path) -> dict[str, float]:
    """Every figure: seconds, megabytes, and whether the edits of texts have kept the snapshot."""
    figures: dict[str, float] = {}
    async with opened(url, folder) as gateway:
        began = time.process_time()
        await ContentImporter(gateway.policies, gateway.writer).run(EDITOR, GeneratedNodes(nodes), lambda *_: None)
        figures["import s"] = time.process_time() - began
    before, began = read_memory(), time.process_time()
    async with opened(url, folder) as gateway:
        figures["start s"] = time.process_time() - began
        figures["memory MB"] = read_memory() - before
        figures |= await measure_edits(gateway, nodes)
    return figures


async def measure_edits(gateway: OpenContent, nodes: int) -> dict[str, float]:
    content, contents = gateway.content, gateway.contents
    before, last = gateway.policies.get_snapshot("default"), nodes - 1

    async def edit_text(number: int) -> None:
        body = {"title": f"Page {last}", "body": f"{TEXT}{number}", "links": ["n1"]}
        await content.replace(EDITOR, f"n{last}", body)

    async def move(number: int) -> None:
        await content.move(EDITOR, f"n{last}", {"order": number + 1})

    async def look_up(number: int) -> None:
        await contents.read("default", [f"n{(number * 31 + one) % nodes}" for one in range(20)])

    async def look_back(number: int) -> None:
        await contents.list_backlinks("default", f"n{number}", 20)

    figures = {"edit a text ms": 1000 * await clock(edit_text)}
    figures["snapshots lost"] = float(gateway.policies.get_snapshot("default") is not before)
    figures["read 20 texts ms"] = 1000 * await clock(look_up)
    figures["backlinks ms"] = 1000 * await clock(look_back)
    figures["edit the tree ms"] = 1000 * await clock(move, 5)
    return figures


async def clock(work: Callable[[int], Awaitable[None]], times: int = EDITS) -> float:
    """The median of several runs, after one that does not count."""
    taken = []
    for number in range(times + 1):
        began = time.process_time()
        await work(number)
        taken.append(time.process_time() - began)
    return median(taken[1:])


def read_memory() -> float:
    """Resident megabytes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    arguments = parser.parse_args()
    for nodes in arguments.nodes:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place, "policies")
            folder.mkdir()
            figures = asyncio.run(measure(nodes, f"sqlite:///{place}/gateway.db", folder))
        print(f"{nodes:>9,} nodes  " + "  ".join(f"{name} {value:.1f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
