"""Forgets versions and audit lines that nobody is to keep any longer."""

import asyncio
import logging
import secrets
import time

from gateway.errors import StoreError
from gateway.settings import VersionSettings
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore, RecordStore

LEASE = "lease:retention"
PAUSE_SECONDS = 3600.0
DAY_SECONDS = 86_400.0

log = logging.getLogger(__name__)


async def forget(records: RecordStore, store: EphemeralStore, wanted: VersionSettings) -> None:
    """Prune now and then until cancelled; of several nodes or workers one does it at a time."""
    lease = Lease(store, LEASE, secrets.token_hex(8), PAUSE_SECONDS)
    while True:
        try:
            if await lease.taken():
                await prune(records, wanted, time.time())
        except StoreError as error:
            log.warning("old versions stay for now: %s", error)
        await asyncio.sleep(PAUSE_SECONDS)


async def prune(records: RecordStore, wanted: VersionSettings, now: float) -> int:
    """Prune until nothing is left to forget; how much it was."""
    total = 0
    while forgotten := await records.prune(wanted.keep, now - wanted.audit_days * DAY_SECONDS):
        total += forgotten
    if total:
        log.info("%d old versions and audit lines are forgotten", total)
    return total
