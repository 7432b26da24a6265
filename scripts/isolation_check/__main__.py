"""Run: .venv/bin/python -m scripts.isolation_check [--checks 100000] [--seed 1]"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from scripts.isolation_check.campaign import IsolationCampaign, opened
from scripts.isolation_check.world import build_world


async def check(checks: int, seed: int) -> IsolationCampaign:
    world = build_world(seed)
    with tempfile.TemporaryDirectory() as folder:
        async with opened(world, Path(folder, "policies")) as gateway:
            return await IsolationCampaign(gateway, world).run(checks, seed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    done = asyncio.run(check(arguments.checks, arguments.seed))
    print(f"{done.checks:,} checks, {done.seen:,} words shown to their readers, {len(done.leaks)} leaks")
    print("\n".join(done.leaks[:20]))
    return 1 if done.leaks or not done.seen else 0


if __name__ == "__main__":
    sys.exit(main())
