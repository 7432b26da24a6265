"""Writes back what a store with another history has lost and this replica still knows."""

import contextlib
import logging

from gateway.domain.record import Author, FeedPosition, RecordBatch, RecordWrite
from gateway.errors import VersionConflict
from gateway.policies.workspace import StoredPolicies
from gateway.stores.protocols import RecordStore

ATTEMPTS = 5  # while other replicas do the same
RESTORER = Author("gateway", "restore")

log = logging.getLogger(__name__)


async def restore_lost_records(store: RecordStore, batch: RecordBatch, stored: StoredPolicies) -> RecordBatch:
    """What the store has afterwards; nobody loses access meanwhile.

    What was deleted stays deleted: a store remembers that for as long as it remembers anything. Of nodes only the tree
    is known, so what they say is lost with the store.
    """
    for _ in range(ATTEMPTS):
        everything = await store.read_changes(FeedPosition(batch.position.epoch, 0))
        known = {record.key for record in (batch if everything is None else everything).records}
        lost = [record for record in stored.records() if record.key not in known]
        if not lost:
            break
        log.error("the store has lost %d objects; they are restored without their former versions", len(lost))
        lost.sort(key=lambda record: record.id)  # in the order of creation
        with contextlib.suppress(VersionConflict):  # another replica was faster
            await store.commit([RecordWrite(one.key, one.body, 0, one.id) for one in lost], RESTORER)
        batch = await store.load()
    return batch
