"""`python -m scripts.memory_floods [--quick] [--json FILE] [FLOOD …]`: resident memory around each flood."""

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from scripts.benchmark.processes import read_resident_bytes
from scripts.chaos_run.stage import open_stage
from scripts.memory_floods.floods import FLOODS, Flood, ask, make_chat

QUICK = 0.1  # of the usual size
LOOK_SECONDS = 0.05
SETTLE_SECONDS = 5.0  # at most, until the memory of a flood is free again
MOST_LEFT_MB = 48.0  # more than before, after a flood
LITTLE_MB = 8.0
MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class FloodFigures:
    """What one flood did, in megabytes."""

    name: str
    sent: float
    before: float
    peak: float
    after: float

    @property
    def left(self) -> float:
        return self.after - self.before

    def to_text(self) -> str:
        sizes = "".join(f"{size:>9.1f}" for size in (self.sent, self.before, self.peak, self.after))
        return f"{self.name:<16}{sizes}{self.left:>+9.1f}  {'ok' if self.left <= MOST_LEFT_MB else 'MISSED'}"


HEAD = f"{'flood':<16}{'sent MB':>9}{'before':>9}{'peak':>9}{'after':>9}{'left':>9}"


async def measure_flood(name: str, flood: Flood, address: str, pid: int, scale: float) -> FloodFigures:
    before, peak = read_resident_bytes(pid), 0

    async def look() -> None:
        nonlocal peak
        while True:
            peak = max(peak, read_resident_bytes(pid))
            await asyncio.sleep(LOOK_SECONDS)

    looking = asyncio.create_task(look())
    sent = await flood(address, scale)
    after = await settle(pid, before)
    looking.cancel()
    return FloodFigures(name, *(value / MEGABYTE for value in (sent, before, max(peak, after), after)))


async def settle(pid: int, before: int) -> int:
    """What is resident after a flood, as soon as that is little more than before."""
    end = time.monotonic() + SETTLE_SECONDS
    while True:
        await asyncio.sleep(0.2)
        after = read_resident_bytes(pid)
        if after - before < LITTLE_MB * MEGABYTE or time.monotonic() > end:
            return after


async def warm_up(address: str, seconds: float = 3.0) -> None:
    """What any use loads once is no flood's doing: tokenizers, the code of other dialects."""
    said = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello, world. " * 5000}]}
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        await ask(address, orjson.dumps(said), path)
    await ask(address, orjson.dumps({"model": "m", "input": "Hello"}), "/v1/responses")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await ask(address, make_chat("How do I cancel gift cards? " * 2000, {"agent": "support"}))


async def main(arguments: argparse.Namespace) -> int:
    scale = QUICK if arguments.quick else 1.0
    found: list[FloodFigures] = []
    with tempfile.TemporaryDirectory(prefix="floods-") as directory:
        async with open_stage(Path(directory)) as stage:
            await warm_up(stage.gateway)
            print(HEAD)
            for name in arguments.floods or FLOODS:
                found.append(await measure_flood(name, FLOODS[name], stage.gateway, stage.processes[0], scale))
                print(found[-1].to_text(), flush=True)
    if arguments.json is not None:
        arguments.json.write_bytes(orjson.dumps([asdict(one) for one in found], option=orjson.OPT_INDENT_2))
    return 1 if any(one.left > MOST_LEFT_MB for one in found) else 0


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.memory_floods", description=__doc__)
    parser.add_argument("floods", nargs="*", metavar="FLOOD", help=f"one of: {', '.join(FLOODS)}")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parse_arguments(sys.argv[1:]))))
