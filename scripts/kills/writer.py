"""`python -m kills.writer FILE [early]`: commits for ever and says which commits were acknowledged."""

import asyncio
import itertools
import os
import sys

from gateway.domain.record import Author, RecordWrite
from gateway.stores.open import open_stores
from gateway.stores.protocols import RecordStore
from kills.objects import WRITERS, body, pair

READY = "ready"


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # unbuffered: what was said before a kill has been said


async def change(records: RecordStore, writer: int, early: bool) -> None:
    _, done = await records.versions(pair(writer)[0], 0, 0)
    for version in itertools.count(done + 1):
        held = body(writer, version)
        writes = [RecordWrite(key, held) for key in pair(writer)]
        if early:
            say(f"{writer} {version}")
            await asyncio.sleep(0)
        await records.commit(writes, Author("writer", "update"))
        if not early:
            say(f"{writer} {version}")


async def main(file: str, early: bool) -> None:
    stores = await open_stores(f"sqlite:///{file}")
    await stores.records.load()
    say(READY)
    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(change(stores.records, writer, early))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], "early" in sys.argv[2:]))
