"""Which objects the writer changes, and what each of their versions must hold."""

import random

from gateway.domain.record import RecordKey

WRITERS = 4  # tasks that commit at the same time
HALVES = ("agents", "contexts")  # every commit changes both objects of a pair
DELETED_EVERY = 7  # this version of an object deletes it, and the next one creates it again


def make_keys(writer: int) -> tuple[RecordKey, RecordKey]:
    first, second = (RecordKey("default", kind, f"pair-{writer}") for kind in HALVES)
    return first, second


def make_body(writer: int, version: int) -> bytes | None:
    """What a version holds, known without asking anybody."""
    if version % DELETED_EVERY == 0:
        return None
    chance = random.Random(f"{writer}/{version}")
    return chance.randbytes(chance.choice((20, 300, 4_000, 30_000)))
