"""A gateway that comes up again with many semantic resources whose vectors are stored; prints figures as JSON.

The vectors are drawn: to embed so many texts would take minutes, and a restart reads them whatever they say.
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from benchmark.semantic_figures import Figure, tell
from benchmark.semantic_select import clustered
from gateway.app import Gateway
from gateway.semantic.index.passages import passages_of
from gateway.semantic.model.files import locate
from gateway.semantic.service import open_vectors
from gateway.settings import Settings

IN_A_FILE = 500
SECONDS = 150


def written(directory: Path, count: int) -> Settings:
    """Policies with so many semantic resources, some hundred to a file, and a store that lasts."""
    (directory / "policies").mkdir()
    for start in range(0, count, IN_A_FILE):
        numbers = range(start, min(start + IN_A_FILE, count))
        resources = {f"r{number}": resource(number) for number in numbers}
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


def resource(number: int) -> dict[str, Any]:
    return {"type": "text", "mode": "semantic", "data": {"content": f"What is to be known about matter {number}."}}


async def store_vectors(settings: Settings) -> None:
    """What a gateway that has embedded everything would have left behind."""
    gateway = await Gateway.open(settings.model_copy(update={"store": "memory:"}))
    passages = passages_of(gateway.policies.current.resources.values())
    await gateway.close()
    rows = clustered(len(passages), 1).astype("<f2")
    store, model = await open_vectors(settings.store), locate().id
    await store.put_many({one.key(model): row.tobytes() for one, row in zip(passages, rows, strict=True)})
    await store.close()


async def restarted(settings: Settings) -> tuple[float, float, int, int]:
    """Seconds until policies are read and until they can be searched, passages in all and embedded."""
    began = time.perf_counter()
    gateway = await Gateway.open(settings)
    read = time.perf_counter() - began
    service = gateway.semantic
    assert service is not None
    running = asyncio.create_task(service.run())
    async with asyncio.timeout(SECONDS):
        await service.settled()
    ready = time.perf_counter() - began
    assert service.indexer is not None
    total, embedded = service.indexer.progress.total, service.indexer.embedded
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await gateway.close()
    return read, ready, total, embedded


async def measure(count: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        settings = written(Path(directory), count)
        await store_vectors(settings)
        read, ready, total, embedded = await restarted(settings)
    if total < count:
        raise RuntimeError(f"Only {total} passages of {count} resources are indexed.")
    name = f"restart with {count:,} resources"
    return [
        Figure(f"{name}, passages embedded", float(embedded), "", target=0),
        Figure(f"{name}, until policies are read", read, "s"),
        Figure(f"{name}, until they can be searched", ready, "s"),
    ]


if __name__ == "__main__":
    tell(uvloop.run(measure(int(sys.argv[1]))))
