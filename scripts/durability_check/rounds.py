"""One round: start the writer, kill it at a random moment, remember what it acknowledged."""

import random
import subprocess
import sys
import time
from pathlib import Path

from scripts.durability_check.writer import READY

LONGEST = 0.25  # seconds that a writer lives after it is ready
UNREADY_EVERY = 10  # one round in so many, the writer dies before or while it opens the file


def run_round(file: Path, number: int, chance: random.Random, early: bool) -> dict[int, int]:
    """The last version that each task acknowledged before its end."""
    command = [sys.executable, "-m", "scripts.durability_check.writer", str(file), *(["early"] if early else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = []
        if number % UNREADY_EVERY != UNREADY_EVERY - 1:
            said.append(writer.stdout.readline().strip())
            if said != [READY]:
                raise RuntimeError("The writer ended before it was ready.")
        time.sleep(chance.random() * LONGEST)
        if writer.poll() is not None:
            raise RuntimeError("The writer ended by itself.")
        writer.kill()
        said += writer.stdout.read().split("\n")
    return parse_acknowledged(said)


def parse_acknowledged(said: list[str]) -> dict[int, int]:
    """The last whole line of each task; a line that the kill cut off acknowledges nothing."""
    pairs = [line.split(" ") for line in said[:-1] if line not in ("", READY)]
    return {int(writer): int(version) for writer, version in pairs}
