"""The API keys in the configured store, whether or not a gateway runs on it."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import msgspec

from gateway.commands.common import build_operator, require_lasting_store
from gateway.control.key_shape import KeyInfo, KeySpec
from gateway.control.keys import CreatedKey, Keys
from gateway.domain.record import Author, Record, RecordWrite
from gateway.errors import NotFound
from gateway.policies.quotas import Quotas
from gateway.policies.workspace import StoredPolicies
from gateway.settings import Settings
from gateway.stores.open import open_stores
from gateway.stores.protocols import RecordStore


class StoredKeys(msgspec.Struct, frozen=True):
    """The records of a store as they are now, for the service that a running gateway uses too."""

    store: RecordStore
    records: tuple[Record, ...]
    quotas: Quotas

    def list_records(self, kind: str) -> Iterable[Record]:
        return (record for record in self.records if record.key.kind == kind)

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        self.quotas.check_writes(writes, StoredPolicies().apply(self.records))
        return await self.store.commit(writes, author)


@asynccontextmanager
async def open_stored_keys(settings: Settings) -> AsyncGenerator[StoredKeys]:
    """The configured store; raises StoreError if it cannot be used or would not last."""
    require_lasting_store(settings, "keep keys in")
    stores = await open_stores(settings.store)
    try:
        yield StoredKeys(stores.records, (await stores.records.load()).records, Quotas(settings.quotas))
    finally:
        await stores.close()


async def create_key(settings: Settings, spec: KeySpec, workspace: str) -> CreatedKey:
    async with open_stored_keys(settings) as stored:
        return await Keys(stored, settings.auth.keys).create(build_operator(workspace), spec)


async def list_keys(settings: Settings, workspace: str | None) -> list[KeyInfo]:
    """The keys of a workspace, or of all."""
    async with open_stored_keys(settings) as stored:
        keys = Keys(stored, settings.auth.keys)
        known = {key.workspace for key in settings.auth.keys}
        known |= {record.key.workspace for record in stored.list_records("keys")}
        wanted = sorted(known) if workspace is None else [workspace]
        return [info for name in wanted for info in keys.list_all(name)]


async def revoke_key(settings: Settings, id: str) -> None:
    """Revoke a key, whatever its workspace; raises NotFound."""
    async with open_stored_keys(settings) as stored:
        found = next((record for record in stored.list_records("keys") if record.key.alias == id), None)
        keys = Keys(stored, settings.auth.keys)
        workspaces = [found.key.workspace] if found else [key.workspace for key in settings.auth.keys]
        for workspace in workspaces:
            if any(info.id == id for info in keys.list_all(workspace)):
                return await keys.revoke(build_operator(workspace), id)
    raise NotFound(f"There is no key {id!r}.")
