"""Responses that clients come back to by their ids: whose they are, and what the gateway has to know to go on."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from itertools import islice

import msgspec
from msgspec import Raw

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.noted_responses import ITEM_UPSTREAM
from gateway.conversation.response_keys import ITEM_PREFIX, PREFIX, get_key_start
from gateway.conversation.response_queue import ResponseQueue
from gateway.conversation.response_quota import ResponseQuota
from gateway.conversation.response_record import GONE, ResponseRecord, decode_record, encode_record
from gateway.conversation.waiting_responses import WaitingResponse
from gateway.errors import InvalidRequest, StoreError, StoreUnavailable
from gateway.stores.protocols import EphemeralStore

RESPONSE_SECONDS = 24 * 3600.0  # that responses are kept
MAX_RESPONSE_BYTES = 4 * 1024 * 1024  # of a response with its input; larger ones are not kept
MAX_CHAIN = 500  # responses that one continues, directly or through others
LOOK_AGAIN = (0.03, 0.07, 0.2)  # seconds until a response that is missing is looked for again: see LATE_SECONDS
MAX_REFERENCED_BYTES = 16 * 1024 * 1024  # of all responses that the items of one request come from
RESPONSES_PER_QUERY = 4


class _NamedItem(msgspec.Struct):
    id: str | None = None


_decode_named = msgspec.json.Decoder(_NamedItem).decode


class StoredResponses:
    """Keeps responses per workspace and key; nobody else finds them.

    They are written behind the client's back (`ResponseQueue`), and found here at once. Another process finds them as
    soon as they are written, so whoever does not find one looks again for a moment.
    """

    def __init__(
        self,
        store: EphemeralStore,
        ttl: float = RESPONSE_SECONDS,
        get_quota: Callable[[str], int] | None = None,  # bytes that a workspace may keep; None: any number
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._ttl = store, ttl
        self.quota = ResponseQuota(store, ttl, get_quota, clock)
        self.queue = ResponseQueue(store, ttl, self.quota)

    async def find(self, owner: ConversationOwner, identity: str) -> ResponseRecord | None:
        """What is known of a response; None: nothing, or it is somebody else's. Raises StoreUnavailable."""
        return (await self.find_many(owner, [identity], LOOK_AGAIN))[0]

    async def find_many(
        self, owner: ConversationOwner, ids: Sequence[str], pauses: Sequence[float] = ()
    ) -> list[ResponseRecord | None]:
        """The same for several."""
        found = await self._get_named(owner, ids, PREFIX, pauses)
        return [decode_record(found.get(identity), identity) for identity in ids]

    async def find_items(self, owner: ConversationOwner, ids: Collection[str]) -> dict[str, Raw | None]:
        """Those of these items that the owner's responses have; None: only the upstream knows what it says.

        Raises StoreUnavailable, and InvalidRequest if they come from too many or too large responses.
        """
        named = await self._get_named(owner, ids, ITEM_PREFIX, LOOK_AGAIN)
        found: dict[str, Raw | None] = {}
        wanted: dict[str, set[str]] = {}  # ids of items by the keys of their responses
        for identity, told in named.items():
            if told == ITEM_UPSTREAM:
                found[identity] = None
            else:
                wanted.setdefault(told.decode(), set()).add(identity)
        read, waiting = 0, iter(wanted)
        while batch := list(islice(waiting, RESPONSES_PER_QUERY)):
            for key, data in (await self._get_many(batch)).items():
                read += len(data)
                if read > MAX_REFERENCED_BYTES:
                    raise InvalidRequest("The items come from responses that are too large; send them instead.")
                if (record := decode_record(data)) is not None:
                    found |= dict.fromkeys(wanted[key]) | select_items(record.list_output(), wanted[key])
        return found

    async def _get_named(
        self, owner: ConversationOwner, ids: Collection[str], prefix: str, pauses: Sequence[float] = ()
    ) -> dict[str, bytes]:
        """What is kept under these ids; those that are missing are looked for again after each of the pauses."""
        start = get_key_start(owner)
        keys = {identity: start.finish(identity, prefix) for identity in ids}
        values = await self._get_many(list(keys.values()))
        if missing := [identity for identity in ids if keys[identity] not in values]:
            former = {start.hash(identity, prefix): keys[identity] for identity in missing}
            values |= {former[key]: value for key, value in (await self._get_many(list(former))).items()}
        for pause in pauses:
            if missing := [key for key in keys.values() if key not in values]:
                await asyncio.sleep(pause)
                values |= await self._get_many(missing)
        return {identity: values[key] for identity, key in keys.items() if key in values}

    async def _get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        found = self.queue.find(keys)
        try:
            return found | await self._store.find_appended([key for key in keys if key not in found])
        except StoreError as fault:
            raise StoreUnavailable("Stored responses cannot be read at the moment.") from fault

    async def keep(
        self, owner: ConversationOwner, identity: str, record: ResponseRecord, items: Sequence[str | None] = ()
    ) -> bool:
        """Keep a response, and whose the items with these ids are; raises StoreError if it may be lost.

        False if it is too large, or its workspace keeps too much.
        """
        described = self.describe(owner, identity, record, items)
        return described is not None and await self.queue.add(described)

    def describe(
        self, owner: ConversationOwner, identity: str, record: ResponseRecord, items: Sequence[str | None] = ()
    ) -> WaitingResponse | None:
        """A response as it is queued, with whose the items with these ids are; None if it is too large."""
        data = encode_record(record)
        if len(data) > MAX_RESPONSE_BYTES:
            return None
        values: dict[str, bytes] = {}
        key = get_key_start(owner).put(values, identity, data, items)
        return WaitingResponse(key, owner.workspace, values, len(data))

    async def count_bytes(self, workspace: str) -> int:
        """What a workspace keeps, or has deleted lately: that counts until it would have expired."""
        return await self.quota.count_bytes(workspace)

    async def delete(self, owner: ConversationOwner, identity: str) -> None:
        """Forget a response; those that continue it cannot be continued any more. Raises StoreUnavailable."""
        start = get_key_start(owner)
        keys = (start.finish(identity, PREFIX), start.hash(identity, PREFIX))
        try:
            if self.queue.find(keys):
                await self.queue.flush()  # else it would be written over what stands for it from now on
            await self._store.append_many(dict.fromkeys(keys, GONE), self._ttl)
        except StoreError as fault:
            raise StoreUnavailable("Stored responses cannot be changed at the moment.") from fault


def select_items(items: Sequence[Raw], ids: Collection[str]) -> dict[str, Raw]:
    """The items with these ids."""
    return {identity: item for item in items if (identity := _decode_named(item).id) is not None and identity in ids}
