"""`python -m scripts.durability_check.writer FILE [early]`: commits until it is killed, and prints each commit."""

import asyncio
import itertools
import os
import sys

from gateway.domain.record import Author, RecordWrite
from gateway.stores.open import open_stores
from gateway.stores.protocols import RecordStore
from scripts.durability_check.objects import WRITERS, make_body, make_keys

READY = "ready"


def report_line(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # unbuffered: what was printed before a kill is out


async def write_versions(records: RecordStore, writer: int, early: bool) -> None:
    _, done = await records.list_versions(make_keys(writer)[0], 0, 0)
    for version in itertools.count(done + 1):
        held = make_body(writer, version)
        writes = [RecordWrite(key, held) for key in make_keys(writer)]
        if early:
            report_line(f"{writer} {version}")
            await asyncio.sleep(0)
        await records.commit(writes, Author("writer", "update"))
        if not early:
            report_line(f"{writer} {version}")


async def main(file: str, early: bool) -> None:
    stores = await open_stores(f"sqlite:///{file}")
    await stores.records.load()
    report_line(READY)
    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(write_versions(stores.records, writer, early))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], "early" in sys.argv[2:]))
