"""Gives nodes that an earlier release has stored what everybody loads of them now."""

import asyncio
import logging

from gateway.errors import StoreError
from gateway.policies.node_records import make_index
from gateway.policies.repository import PolicyRepository
from gateway.stores.content import BATCH_INDEXES, ContentStore

INTERVAL_SECONDS = 5.0

log = logging.getLogger(__name__)


async def index_nodes(policies: PolicyRepository, store: ContentStore) -> int:
    """Index what waits for it; returns how many nodes. Raises StoreError, and what was not indexed waits on."""
    done = 0
    while policies.unindexed:
        keys = policies.unindexed[:BATCH_INDEXES]
        for workspace in {key.workspace for key in keys}:
            ids = [key.alias for key in keys if key.workspace == workspace]
            records = await policies.read_nodes(workspace, ids)
            await store.index([make_index(record) for record in records.values()])
            done += len(records)
        del policies.unindexed[: len(keys)]
    return done


async def index_periodically(policies: PolicyRepository, store: ContentStore) -> None:
    """Index what is loaded without an outline, until cancelled; after the first start that is hardly ever anything."""
    while True:
        try:
            if done := await index_nodes(policies, store):
                log.info("%d nodes of an earlier release were indexed", done)
        except StoreError as error:
            log.warning("nodes of an earlier release cannot be indexed yet: %s", error)
        await asyncio.sleep(INTERVAL_SECONDS)
