"""How long a snapshot takes to be made, how late the loop is meanwhile, and what a scope costs; prints JSON."""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import uvloop

from gateway.app import Gateway
from gateway.collectors.contexts import build_merge, collect_contexts
from gateway.collectors.effective import reduce_scope
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.domain.record import Author, Record, RecordKey, RecordWrite
from gateway.extraction.extract import DocumentCache
from gateway.policies.context_compiler import PolicySource
from gateway.policies.materials import PolicyMaterials
from gateway.policies.repository import PolicyRepository
from gateway.scopes.context_request import read_context_request
from gateway.scopes.scope import build_scope, resolve_assignments
from gateway.settings import Settings
from gateway.stores.memory_records import MemoryRecordStore
from scripts.benchmark.processes import build_command, read_line, run_process
from scripts.benchmark.semantic_figures import Figure, get_percentile, print_figures
from scripts.benchmark.semantic_lag import measure_lags

AUTHOR = Author("bench", "create")
RESOURCES = 10
SENTENCE = "Every product name is written as its owner writes it. "


def build_context(number: int, edition: int = 0) -> bytes:
    texts = {
        f"r-{place}": {
            "type": "text",
            "mode": "always" if place < 2 else "on_demand",
            "description": f"Rules {place} of area {number}",
            "data": {"content": f"Edition {edition}, area {number}, rule {place}. {SENTENCE * 8}"},
        }
        for place in range(RESOURCES)
    }
    return orjson.dumps({"name": f"Area {number}", "resources": texts})


def build_writes(contexts: int) -> list[RecordWrite]:
    return [
        *(
            RecordWrite(RecordKey("default", "contexts", f"area-{number}"), build_context(number))
            for number in range(contexts)
        ),
        *(
            RecordWrite(
                RecordKey("default", "agents", f"agent-{number}"), orjson.dumps({"contexts": [f"area-{number}"]})
            )
            for number in range(contexts)
        ),
    ]


async def open_gateway(directory: Path) -> Gateway:
    data: dict[str, Any] = {
        "policies": str(directory),
        "store": "memory:",
        "secret": "s",
        "upstreams": {"demo": {"kind": "demo"}},
        "routes": [{"model": "*", "upstream": "demo"}],
        "semantic": {"enabled": False},
    }
    return await Gateway.open(Settings.model_validate(data))


async def time_seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def measure_rebuilds(gateway: Gateway, rounds: int) -> tuple[float, float]:
    """Milliseconds of a snapshot made from nothing, and after one edit."""
    policies = gateway.policies
    records = list(policies.list_records("contexts")) + list(policies.list_records("agents"))
    cold = [await load_from_nothing(gateway, records) for _ in range(max(3, rounds // 4))]
    warm = []
    for edition in range(rounds):
        write = RecordWrite(RecordKey("default", "contexts", "area-0"), build_context(0, edition + 1))
        warm.append(await time_seconds(lambda write=write: policies.commit([write], AUTHOR)))  # type: ignore[misc]
    return statistics.median(cold) * 1000, statistics.median(warm) * 1000


async def load_from_nothing(gateway: Gateway, records: list[Record]) -> float:
    """Seconds of another replica's first load of the same records."""
    store = MemoryRecordStore()
    await store.commit([RecordWrite(one.key, one.body, 0, one.id) for one in records], AUTHOR)
    materials = PolicyMaterials(DocumentCache(gateway.settings.documents), gateway.links)
    source = PolicySource(Path(gateway.settings.policies), gateway.types, materials)
    other = PolicyRepository(source, store)
    took = await time_seconds(other.start)
    assert len(other.current.contexts) == len(gateway.policies.current.contexts)
    return took


async def measure_lags_while_editing(policies: PolicyRepository, duration: float) -> tuple[list[float], list[float]]:
    """How late the loop is while snapshots are made one after another, and while another process burns as much."""

    async def edit() -> None:
        for edition in range(1_000_000):
            await policies.commit(
                [RecordWrite(RecordKey("default", "contexts", "area-1"), build_context(1, edition))], AUTHOR
            )

    editing = asyncio.create_task(edit())
    inside = await measure_lags(duration)
    editing.cancel()
    await asyncio.gather(editing, return_exceptions=True)
    with run_process(build_command("control_burn")) as process:
        await asyncio.to_thread(read_line, process)
        outside = await measure_lags(duration)
    return inside, outside


async def measure_scopes(gateway: Gateway, rounds: int) -> tuple[float, float]:
    """Microseconds to resolve one scope: everything anew, and all of `prepare` when it was resolved before."""
    snapshot, merge = gateway.policies.current, build_merge(gateway.types)
    headers = [(b"x-context-agent", b"agent-7")]

    def resolve() -> None:
        scope = build_scope(read_context_request(headers, None), "demo", ANONYMOUS, snapshot)
        collect_contexts(reduce_scope(scope, resolve_assignments(scope, snapshot), snapshot), snapshot, merge)

    body = b'{"model":"demo","messages":[{"role":"user","content":"Hello"}]}'

    async def prepare() -> None:
        await gateway.pipeline.prepare(Exchange("x", ANONYMOUS, snapshot, headers), body)

    await prepare()
    fresh, warm = [], []
    for _ in range(rounds * 50):
        began = time.perf_counter()
        resolve()
        middle = time.perf_counter()
        await prepare()
        fresh.append(middle - began)
        warm.append(time.perf_counter() - middle)
    return statistics.median(fresh) * 1e6, statistics.median(warm) * 1e6


async def measure(contexts: int, rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        gateway = await open_gateway(Path(directory))
        async with gateway.running():
            await gateway.policies.commit(build_writes(contexts), AUTHOR)
            cold, warm = await measure_rebuilds(gateway, rounds)
            inside, outside = await measure_lags_while_editing(gateway.policies, 0.3 * rounds)
            fresh, prepared = await measure_scopes(gateway, rounds)
    size = f"{contexts:,} × {RESOURCES}"
    return [
        Figure(f"first load of {size} resources at a start", cold, "ms"),
        Figure(f"snapshot of {size} resources rebuilt after an edit", warm, "ms", target=300),
        Figure(
            "loop's lag while snapshots are made, p50",
            get_percentile(inside, 50),
            "ms",
            get_percentile(outside, 50),
            "control",
        ),
        Figure(
            "loop's lag while snapshots are made, p99",
            get_percentile(inside, 99),
            "ms",
            get_percentile(outside, 99),
            "control",
        ),
        Figure("loop's lag while snapshots are made, worst", inside[-1], "ms", outside[-1], "control"),
        Figure("a scope resolved anew", fresh, "µs", target=100),
        Figure("a whole request prepared, its scope known", prepared, "µs", target=100),
    ]


if __name__ == "__main__":
    print_figures(uvloop.run(measure(int(sys.argv[1]), int(sys.argv[2]))))
