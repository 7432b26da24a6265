"""`gateway keys`: makes, lists and revokes keys in the configured store, whether or not a gateway runs on it."""

import argparse
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gateway.control.key_shape import KeyWish
from gateway.control.keys import CreatedKey, KeyInfo, Keys
from gateway.domain.principal import ANY_GROUP, Principal, Role
from gateway.domain.record import Author, Record, RecordWrite
from gateway.errors import Faults, NotFound, StoreError
from gateway.settings import Settings
from gateway.stores.open import open_stores
from gateway.stores.protocols import RecordStore
from gateway.strict_yaml import YamlDocument
from gateway.validation import validate

COLUMNS = ("id", "name", "workspace", "role", "agents", "groups", "tier", "limits", "expires_at", "source")


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """What a store holds at the moment, for the service that a running gateway uses too."""

    store: RecordStore
    records: tuple[Record, ...]

    def stored(self, kind: str) -> Iterable[Record]:
        return (record for record in self.records if record.key.kind == kind)

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        return await self.store.commit(writes, author)


def operator(workspace: str) -> Principal:
    """Whoever can write the store: may grant everything in any workspace."""
    rights, groups = frozenset({"act_as_user"}), frozenset({ANY_GROUP})
    return Principal("operator", workspace, rights=rights, role=Role.ADMIN, groups=groups)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[StoredKeys]:
    """The configured store; raises StoreError if it cannot be used or would forget at once."""
    if settings.store == "memory:":
        raise StoreError("The store is memory:, which ends with the process. Configure a store to keep keys in.")
    stores = await open_stores(settings.store)
    try:
        yield StoredKeys(stores.records, (await stores.records.load()).records)
    finally:
        await stores.close()


async def create(settings: Settings, wish: KeyWish, workspace: str) -> CreatedKey:
    """Make a key."""
    async with opened(settings) as book:
        return await Keys(book, settings.auth.keys).create(operator(workspace), wish)


async def listed(settings: Settings, workspace: str | None) -> list[KeyInfo]:
    """The keys of a workspace, or of all."""
    async with opened(settings) as book:
        keys = Keys(book, settings.auth.keys)
        known = {key.workspace for key in settings.auth.keys} | {one.key.workspace for one in book.stored("keys")}
        wanted = sorted(known) if workspace is None else [workspace]
        return [held for name in wanted for held in keys.of(name)]


async def revoke(settings: Settings, id: str) -> None:
    """End a key, in whichever workspace it is; raises NotFound."""
    async with opened(settings) as book:
        found = next((one for one in book.stored("keys") if one.key.alias == id), None)
        configured = Keys(book, settings.auth.keys)
        workspaces = [found.key.workspace] if found else [key.workspace for key in settings.auth.keys]
        for workspace in workspaces:
            if any(held.id == id for held in configured.of(workspace)):
                return await configured.revoke(operator(workspace), id)
    raise NotFound(f"There is no key {id!r}.")


def wish_of(given: argparse.Namespace) -> KeyWish:
    """What the command line asks for; raises Faults."""
    said = {"name": given.name, "role": given.role, "agents": given.agents, "agent": given.agent}
    said |= {"groups": given.groups or [], "tier": given.tier, "act_for_users": given.act_for_users}
    said |= {"limits": {"requests": given.requests, "tokens": given.tokens}, "expires_at": given.expires}
    wish, faults = validate(KeyWish, said, YamlDocument("(command line)", None, {}), ())
    if wish is None:
        raise Faults(faults)
    return wish


def made_as_text(made: CreatedKey) -> str:
    """The new key for a person."""
    data = made.held.data
    return (
        f"Key {data['id']} of workspace {data['workspace']}, role {data['role']}:\n\n{made.secret}\n\n"
        "It is shown only this once: the store keeps its SHA-256 and nothing else of it."
    )


def table(held: Iterable[KeyInfo]) -> str:
    """Keys as lines with aligned columns."""
    rows = [COLUMNS, *(tuple(cell(one.data[name]) for name in COLUMNS) for one in held)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def cell(value: Any) -> str:
    match value:
        case None | [] | "":
            return "-"
        case dict():
            return cell(",".join(f"{name}={number}" for name, number in value.items() if number is not None))
        case list():
            return ",".join(value)
        case _:
            return str(value)
