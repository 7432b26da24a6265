"""Restarts a gateway with many semantic resources whose vectors are stored; prints figures as JSON.

The vectors are drawn at random: embedding so many texts would take minutes, and a restart reads them all the same.
"""

import asyncio
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from gateway.app import Gateway
from gateway.semantic.factory import open_vectors
from gateway.semantic.index.passages import split_resources
from gateway.semantic.model.files import locate_model
from gateway.settings import Settings
from scripts.benchmark.semantic_figures import Figure, print_figures
from scripts.benchmark.semantic_select import draw_clustered

IN_A_FILE = 500
SECONDS = 150


@dataclass(frozen=True, slots=True)
class Restart:
    """How a restart went."""

    read_seconds: float  # until policies are read
    ready_seconds: float  # until they can be searched
    passages: int
    embedded: int


def write_policies(directory: Path, count: int) -> Settings:
    """Policies with so many semantic resources, some hundred to a file, and a persistent store."""
    (directory / "policies").mkdir()
    for start in range(0, count, IN_A_FILE):
        numbers = range(start, min(start + IN_A_FILE, count))
        resources = {f"r{number}": build_resource(number) for number in numbers}
        policies = {"contexts": {f"c{start}": {"resources": resources}}}
        (directory / "policies" / f"c{start}.yaml").write_text(json.dumps(policies))
    return Settings.model_validate(
        {
            "policies": str(directory / "policies"),
            "store": f"sqlite:///{directory / 'gateway.db'}",
            "upstreams": {"demo": {"kind": "demo"}},
            "routes": [{"model": "*", "upstream": "demo"}],
        }
    )


def build_resource(number: int) -> dict[str, Any]:
    return {"type": "text", "mode": "semantic", "data": {"content": f"What is to be known about matter {number}."}}


async def store_vectors(settings: Settings) -> None:
    """What a gateway that has embedded everything would have left behind."""
    gateway = await Gateway.open(settings.model_copy(update={"store": "memory:"}))
    passages = split_resources(gateway.policies.current.resources.values())
    await gateway.close()
    rows = draw_clustered(len(passages), 1).astype("<f2")
    store, model = await open_vectors(settings.store), locate_model().id
    await store.put_many({one.key(model): row.tobytes() for one, row in zip(passages, rows, strict=True)})
    await store.close()


async def restart(settings: Settings) -> Restart:
    """Start a gateway and wait until its policies can be searched."""
    began = time.perf_counter()
    gateway = await Gateway.open(settings)
    read = time.perf_counter() - began
    service = gateway.semantic
    assert service is not None
    running = asyncio.create_task(service.run())
    async with asyncio.timeout(SECONDS):
        await service.wait_until_indexed()
    ready = time.perf_counter() - began
    assert service.indexer is not None
    total, embedded = service.indexer.progress.total, service.indexer.embedded
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await gateway.close()
    return Restart(read, ready, total, embedded)


async def measure(count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        settings = write_policies(Path(directory), count)
        await store_vectors(settings)
        done = await restart(settings)
    if done.passages < count:
        raise RuntimeError(f"Only {done.passages} passages of {count} resources are indexed.")
    name = f"restart with {count:,} resources"
    return [
        Figure(f"{name}, passages embedded", float(done.embedded), "", target=0),
        Figure(f"{name}, until policies are read", done.read_seconds, "s"),
        Figure(f"{name}, until they can be searched", done.ready_seconds, "s"),
    ]


if __name__ == "__main__":
    print_figures(uvloop.run(measure(int(sys.argv[1]))))
