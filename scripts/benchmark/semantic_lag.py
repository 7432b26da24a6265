"""How late an event loop is while its process embeds, beside one whose machine is as busy; prints figures as JSON."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import uvloop

from gateway.semantic.model.files import locate_model
from gateway.semantic.model.onnx_embedder import OnnxEmbedder
from scripts.benchmark.processes import build_command, read_line, run_process
from scripts.benchmark.semantic_figures import Figure, get_percentile, print_figures

TICK = 0.001
ASKING = 4  # questions under way at any time: two are embedded, two wait


async def measure_lags(seconds: float) -> list[float]:
    """Milliseconds by which each tick came too late, smallest first."""
    found: list[float] = []
    end = time.perf_counter() + seconds  # the loop's own clock counts in milliseconds
    while (now := time.perf_counter()) < end:
        await asyncio.sleep(TICK)
        found.append(max(0.0, time.perf_counter() - now - TICK) * 1000)
    return sorted(found)


@asynccontextmanager
async def embed_constantly() -> AsyncGenerator[None]:
    """Distinct questions embedded in this process all the time."""
    embedder = OnnxEmbedder(locate_model())
    await embedder.embed(["warm up"])
    numbers = iter(range(1_000_000))

    async def ask() -> None:
        while True:
            await embedder.embed([f"How do I change the address of order {next(numbers)} before it is sent?"], 60)

    asking = [asyncio.create_task(ask()) for _ in range(ASKING)]
    try:
        yield
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await embedder.close()


async def measure(seconds: float) -> list[Figure]:
    async with embed_constantly():
        inside = await measure_lags(seconds)
    with run_process(build_command("semantic_burn")) as process:
        await asyncio.to_thread(read_line, process)
        outside = await measure_lags(seconds)
    return [
        Figure(
            f"event loop's lag while embedding, p{share:g}",
            get_percentile(inside, share),
            "ms",
            get_percentile(outside, share),
            "control",
        )
        for share in (50, 99, 99.9)
    ]


if __name__ == "__main__":
    print_figures(uvloop.run(measure(float(sys.argv[1]))))
