"""Sweeps what processes that are gone have left unfinished, and deletes receipts that need not be kept any longer."""

import asyncio
import logging
import secrets
import time

from gateway.errors import StoreError
from gateway.settings import ReceiptSettings
from gateway.stores.lease import Lease
from gateway.stores.protocols import EphemeralStore, ReceiptStore

LEASE_KEY = "lease:receipts"
INTERVAL_SECONDS = 10.0
DAY_SECONDS = 86_400.0
MEGABYTE = 1_000_000

log = logging.getLogger(__name__)


async def keep_receipts_tidy(receipts: ReceiptStore, store: EphemeralStore, settings: ReceiptSettings) -> None:
    """Sweep and prune every few seconds until cancelled; of several replicas or workers, one does it at a time."""
    lease = Lease(store, LEASE_KEY, secrets.token_hex(8), 3 * INTERVAL_SECONDS)
    while True:
        try:
            if await lease.acquire():
                await tidy_receipts(receipts, settings, time.time())
        except StoreError as error:
            log.warning("old receipts are not deleted for now: %s", error)
        await asyncio.sleep(INTERVAL_SECONDS)


async def tidy_receipts(receipts: ReceiptStore, settings: ReceiptSettings, now: float) -> None:
    """Sweep once, and prune until nothing is left to delete."""
    if swept := await receipts.sweep():
        log.warning("%d exchanges were cut off when their process ended; their receipts say aborted", swept)
    total = 0
    while deleted := await receipts.prune(now - settings.days * DAY_SECONDS, settings.max_mb * MEGABYTE):
        total += deleted
        await asyncio.sleep(0)  # writers get their turn between two steps
    if total:
        log.info("deleted %d old receipts", total)
