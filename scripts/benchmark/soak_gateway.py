"""The gateway with a clock in its event loop: python -m scripts.benchmark.soak_gateway CONFIG

Prints its port. For every line of its standard input it prints as JSON how late the loop was since the last one, and
how many blocks of memory Python holds, after it has come to rest and given back what it does not need.
"""

import asyncio
import ctypes
import gc
import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

from gateway.app import Gateway
from gateway.edge.logs import log_as_json
from gateway.edge.server import GatewayServer
from gateway.redaction import build_redactor
from gateway.settings_loader import SettingsOverrides, load_settings
from gateway.worker import answer_requests, call_when_started
from scripts.benchmark.semantic_figures import get_percentile

TICK = 0.001
PERCENTS = (50, 99, 99.9, 100)
REST_SECONDS = 0.2  # until receipts and lines of the last requests are written


class LagMeter:
    """How much later than asked for the loop comes back, tick by tick."""

    def __init__(self) -> None:
        self._milliseconds: list[float] = []

    async def run(self) -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK)
            self._milliseconds.append(max(0.0, time.perf_counter() - began - TICK) * 1000)

    def take(self) -> dict[str, float]:
        """Percentiles since the last call; what was counted is given up, so that it is no leak."""
        found = sorted(self._milliseconds) or [0.0]
        self._milliseconds.clear()
        return {f"{percent:g}": get_percentile(found, percent) for percent in PERCENTS}


async def describe_state(meter: LagMeter) -> dict[str, object]:
    """The loop's lag, and how many blocks of memory Python's objects take."""
    lags = meter.take()
    await asyncio.sleep(REST_SECONDS)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # free pages come and go by half a megabyte; what leaks is not free
    return {"lags": lags, "blocks": sys.getallocatedblocks()}


@asynccontextmanager
async def measure_lag(_: Gateway, server: GatewayServer) -> AsyncGenerator[None]:
    meter = LagMeter()

    async def answer() -> None:
        while await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await describe_state(meter)), flush=True)
        server.should_exit = True

    def announce() -> None:
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)

    async with call_when_started(server, announce):
        tasks = [asyncio.create_task(meter.run()), asyncio.create_task(answer())]
        yield
        for task in tasks:
            task.cancel()


def main() -> None:
    settings = load_settings(Path(sys.argv[1]), overrides=SettingsOverrides(port=0))
    with log_as_json(settings.log, build_redactor(settings)):
        uvloop.run(answer_requests(settings, measure_lag))


if __name__ == "__main__":
    main()
