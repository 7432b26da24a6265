"""The records of the knowledge graph: a RecordStore of their own, so that policies never wait for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.stores.memory_records import MemoryRecordStore
from gateway.stores.protocols import RecordStore
from gateway.stores.sqlite_connection import SqliteThreads
from gateway.stores.sqlite_records import SqliteRecordStore

if TYPE_CHECKING:
    from gateway.stores.redis_connection import RedisConnection

REDIS_PREFIX = "gateway-knowledge:"


class KnowledgeRecords:
    """Opens the store when there is something in it; a SQLite file is only made for the first item."""

    def __init__(self, path: Path | None = None, connection: RedisConnection | None = None) -> None:
        self._path = path
        self._threads: SqliteThreads | None = None
        self._lock = asyncio.Lock()
        self._store: RecordStore | None = None
        if connection is not None:
            from gateway.stores.redis_record_codec import RecordNames
            from gateway.stores.redis_records import RedisRecordStore

            self._store = RedisRecordStore(connection, names=RecordNames.build(REDIS_PREFIX))
        elif path is None:
            self._store = MemoryRecordStore()

    async def open(self, *, create: bool = False) -> RecordStore | None:
        """The store; None if nothing was ever stored, unless it is to be created. Raises StoreError."""
        if self._store is None and self._path is not None:
            async with self._lock:
                if self._store is None and (create or await asyncio.to_thread(self._path.exists)):
                    self._threads = await SqliteThreads.open(self._path)
                    self._store = SqliteRecordStore(self._threads)
        return self._store

    async def close(self) -> None:
        """Release files and threads; what runs on a server's connection is closed with that."""
        if self._threads is not None:
            await self._threads.close()
