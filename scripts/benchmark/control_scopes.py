"""What a request pays for being one of 10,000 scopes, beside one scope that is asked again and again; prints JSON.

CPU of `prepare` and of encoding the body, in process: nothing else hides the difference.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import orjson
import uvloop

from gateway.app import Gateway
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.domain.record import Author, RecordKey, RecordWrite
from scripts.benchmark.control_snapshot import build_context, open_gateway
from scripts.benchmark.semantic_figures import Figure, print_figures

Headers = list[tuple[bytes, bytes]]

CONTEXTS = ["area-0", "area-1"]
BODY = orjson.dumps({"model": "demo", "messages": [{"role": "user", "content": "Some question of one KB. " * 40}]})
TIMES = 1.2
COLD_US = 150  # besides what a known scope takes


def build_writes(scopes: int) -> list[RecordWrite]:
    """Agents with the same contexts, and nodes below one that has them."""
    bodies = {("contexts", alias): build_context(number) for number, alias in enumerate(CONTEXTS)}
    bodies[("content", "site")] = orjson.dumps({"title": "Site", "contexts": CONTEXTS})
    for number in range(scopes):
        bodies[("agents", f"a-{number}")] = orjson.dumps({"instructions": f"Area {number}.", "contexts": CONTEXTS})
        bodies[("content", f"n-{number}")] = orjson.dumps({"title": f"Node {number}", "parent": "site"})
    return [RecordWrite(RecordKey("default", kind, alias), body) for (kind, alias), body in bodies.items()]


async def measure_cpu(gateway: Gateway, requests: Sequence[Headers]) -> float:
    """Microseconds of CPU per request."""
    snapshot, prepare = gateway.policies.get_snapshot("default"), gateway.pipeline.prepare
    began = time.process_time()
    for headers in requests:
        _ = (await prepare(Exchange("x", ANONYMOUS, snapshot, headers), BODY)).body
    return (time.process_time() - began) / len(requests) * 1e6


async def measure_kind(gateway: Gateway, noun: str, many: Sequence[Headers], rounds: int) -> list[Figure]:
    """One scope and many, in turn; and the first time that each of the many is asked for."""
    one = [many[0]] * len(many)
    await measure_cpu(gateway, one[:10])
    cold = await measure_cpu(gateway, many)
    pairs = [(await measure_cpu(gateway, many), await measure_cpu(gateway, one)) for _ in range(rounds)]
    ratio = statistics.median(ours / plain for ours, plain in pairs)
    plain = statistics.median(plain for _, plain in pairs)
    name = f"a request of one of {len(many):,} {noun}"
    return [
        Figure(name, plain * ratio, "µs", plain, "one of them", TIMES),
        Figure(f"{name}, the first, over a known one", cold - plain, "µs", target=COLD_US),
    ]


async def measure(scopes: int, rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        gateway = await open_gateway(Path(directory))
        async with gateway.running():
            await gateway.policies.commit(build_writes(scopes), Author("bench", "create"))
            agents: list[Headers] = [[(b"x-context-agent", b"a-%d" % number)] for number in range(scopes)]
            nodes: list[Headers] = [[(b"x-context-content", b"n-%d" % number)] for number in range(scopes)]
            return [
                *await measure_kind(gateway, "agents", agents, rounds),
                *await measure_kind(gateway, "nodes", nodes, rounds),
            ]


if __name__ == "__main__":
    print_figures(uvloop.run(measure(int(sys.argv[1]), int(sys.argv[2]))))
