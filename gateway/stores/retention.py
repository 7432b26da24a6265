"""Deletes versions and audit entries that need not be kept any longer."""

import asyncio
import logging
import secrets
import time

from gateway.errors import StoreError
from gateway.settings import VersionSettings
from gateway.stores.knowledge_records import KnowledgeRecords
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore, RecordStore

LEASE_KEY = "lease:retention"
INTERVAL_SECONDS = 3600.0
DAY_SECONDS = 86_400.0

log = logging.getLogger(__name__)


async def prune_periodically(
    records: RecordStore, knowledge: KnowledgeRecords, store: EphemeralStore, settings: VersionSettings
) -> None:
    """Prune once an hour until cancelled; of several replicas or workers, one does it at a time."""
    lease = Lease(store, LEASE_KEY, secrets.token_hex(8), INTERVAL_SECONDS)
    while True:
        try:
            if await lease.acquire():
                await prune_all(records, settings, time.time())
                if (known := await knowledge.open()) is not None:
                    await prune_all(known, settings, time.time())
        except StoreError as error:
            log.warning("old versions are not deleted for now: %s", error)
        await asyncio.sleep(INTERVAL_SECONDS)


async def prune_all(records: RecordStore, settings: VersionSettings, now: float) -> int:
    """Prune until nothing is left to delete; returns how much was deleted."""
    total = 0
    while deleted := await records.prune(settings.keep, now - settings.audit_days * DAY_SECONDS):
        total += deleted
    if total:
        log.info("deleted %d old versions and audit entries", total)
    return total
