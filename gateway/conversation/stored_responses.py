"""Responses that clients come back to by their ids: whose they are, and what the gateway has to know to go on."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import islice

import msgspec
from msgspec import Raw

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_queue import OVERHEAD, ResponseQueue, WaitingResponse
from gateway.conversation.response_quota import ResponseQuota, hash_name
from gateway.errors import InvalidRequest, StoreError, StoreUnavailable
from gateway.stores.protocols import EphemeralStore

RESPONSE_SECONDS = 24 * 3600.0  # that responses are kept
MAX_RESPONSE_BYTES = 4 * 1024 * 1024  # of a response with its input; larger ones are not kept
MAX_CHAIN = 500  # responses that one continues, directly or through others
LOOK_AGAIN = (0.03, 0.07, 0.2)  # seconds until a response that is missing is looked for again: see LATE_SECONDS
MAX_NAMED_ITEMS = 200  # of a response that a client can refer to by their ids
MAX_ITEM_ID = 512  # characters
MAX_REFERENCED_BYTES = 16 * 1024 * 1024  # of all responses that the items of one request come from
RESPONSES_PER_QUERY = 4
PREFIX, ITEM_PREFIX = "response:", "response_item:"
KEY_BYTES = 20  # of a hash
REMEMBERED_OWNERS = 4096
RECORD_BYTES = 1000  # of a record besides what was said: names, ids, brackets, its own overhead
GONE = b"-"  # what stands for a deleted response until it would have expired


NULL = Raw(b"null")


class ResponseRecord(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a response."""

    model: str  # that was sent
    native: str  # id under which the upstream keeps it itself; "": the gateway keeps it
    pending: tuple[Raw, ...] = ()  # results of our calls that the upstream has not got yet
    shown: Raw = NULL  # as the client saw it; null: the upstream's is the same
    input: tuple[Raw, ...] | None = None  # items that the client sent; None: the upstream has the same
    added: tuple[Raw, ...] = ()  # what followed them, hidden turns included
    earlier: tuple[str, ...] = ()  # ids of the responses before it, oldest first
    told: tuple[tuple[int, tuple[str, ...]], ...] = ()  # ids of resources, by position in `added`, else in `pending`
    known: tuple[str, ...] = ()  # ids of resources that the upstream's copy of the conversation tells of
    echoed: dict[str, Raw] | None = None  # fields of the request that the client saw in the upstream's response

    @property
    def is_shown_upstream(self) -> bool:
        return bytes(self.shown) == b"null"

    @property
    def is_relayed(self) -> bool:
        """Whether the client saw what the upstream has."""
        return self.is_shown_upstream and self.echoed is None

    @property
    def size(self) -> int:
        """The bytes of what client and model said, and of what the client saw, fields that it sent included."""
        return sum(len(memoryview(one)) for one in (self.shown, *(self.input or ()), *self.added))

    def list_output(self) -> list[Raw]:
        """The items that the client saw, as far as the gateway has them."""
        return [] if self.is_shown_upstream else _decode_shown(self.shown).output


class _ShownResponse(msgspec.Struct):
    output: list[Raw] = []


class _NamedItem(msgspec.Struct):
    id: str | None = None


class KeyStart(msgspec.Struct, frozen=True):
    """The beginning of keys: their group, and a hash of whose they are, to be copied."""

    group: str
    hashed: hashlib.blake2b

    def finish(self, identity: str, prefix: str) -> str:
        """The key of an id."""
        whole = self.hashed.copy()
        whole.update(_encode(identity) + b"]")
        return prefix + self.group + whole.hexdigest()

    def put(self, values: dict[str, bytes], identity: str, data: bytes, items: Sequence[str | None]) -> str:
        """Add what is kept of a response to these values, and whose the items with these ids are; returns its key."""
        key = self.finish(identity, PREFIX)
        values[key] = data
        if items:
            pointer = key.encode()
            for id in items[:MAX_NAMED_ITEMS]:
                if id and len(id) <= MAX_ITEM_ID:
                    values[self.finish(id, ITEM_PREFIX)] = pointer
        return key


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ResponseRecord).decode
_decode_shown = msgspec.json.Decoder(_ShownResponse).decode
_decode_named = msgspec.json.Decoder(_NamedItem).decode


class UpstreamResponse(msgspec.Struct, frozen=True, gc=False):
    """A response that its upstream keeps and the client saw as it is there, as far as that has to be remembered.

    It waits for its batch without its request and its reply: whatever it held would be out of the CPU's cache when it
    is let go, and so would be the memory that others get in its place meanwhile.
    """

    owner: ConversationOwner
    model: str  # that was sent
    native_id: str  # under which the upstream has it
    shown_id: str  # that the client saw
    names: Sequence[str]  # of what stands in it
    echoed: dict[str, Raw] | None  # fields of the request that the client saw in the upstream's response

    def measure(self) -> int:
        """More bytes than it can take in the queue: no character takes more than six."""
        most = RECORD_BYTES + 6 * len(self.model + self.native_id + self.shown_id) + OVERHEAD * len(self.names)
        return most + sum(map(len, self.echoed.values())) if self.echoed else most

    def describe(self, values: dict[str, bytes]) -> int:
        """Add what is kept of it to the values of others; returns its bytes."""
        owner = self.owner
        data = _encode(ResponseRecord(self.model, self.native_id, echoed=self.echoed))
        begin_key(owner.workspace, owner.principal, owner.user).put(values, self.shown_id, data, self.names)
        return len(data)


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
        keys = [make_key(owner, identity) for identity in ids]
        found = await self._get_many(keys, pauses)
        return [decode_record(found.get(key)) for key in keys]

    async def find_items(self, owner: ConversationOwner, ids: Collection[str]) -> dict[str, Raw | None]:
        """Those of these items that the owner's responses have; None: only the upstream knows what it says.

        Raises StoreUnavailable, and InvalidRequest if they come from too many or too large responses.
        """
        keys = {make_key(owner, identity, ITEM_PREFIX): identity for identity in ids}
        named = await self._get_many(list(keys), LOOK_AGAIN)
        wanted: dict[str, set[str]] = {}  # ids of items by the keys of their responses
        for key, response in named.items():
            wanted.setdefault(response.decode(), set()).add(keys[key])
        found: dict[str, Raw | None] = {}
        read, waiting = 0, iter(wanted)
        while batch := list(islice(waiting, RESPONSES_PER_QUERY)):
            for key, data in (await self._get_many(batch)).items():
                read += len(data)
                if read > MAX_REFERENCED_BYTES:
                    raise InvalidRequest("The items come from responses that are too large; send them instead.")
                if (record := decode_record(data)) is not None:
                    found |= dict.fromkeys(wanted[key]) | select_items(record.list_output(), wanted[key])
        return found

    async def _get_many(self, keys: Sequence[str], pauses: Sequence[float] = ()) -> dict[str, bytes]:
        """These values; those that are missing are looked for again after each of the pauses."""
        found = self.queue.find(keys)
        try:
            found |= await self._store.find_appended([key for key in keys if key not in found])
            for pause in pauses:
                if missing := [key for key in keys if key not in found]:
                    await asyncio.sleep(pause)
                    found |= await self._store.find_appended(missing)
        except StoreError as fault:
            raise StoreUnavailable("Stored responses cannot be read at the moment.") from fault
        return found

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
        data = _encode(record)
        if len(data) > MAX_RESPONSE_BYTES:
            return None
        start = begin_key(owner.workspace, owner.principal, owner.user)
        values: dict[str, bytes] = {}
        key = start.put(values, identity, data, items)
        return WaitingResponse(key, owner.workspace, values, len(data))

    async def count_bytes(self, workspace: str) -> int:
        """What a workspace keeps, or has deleted lately: that counts until it would have expired."""
        return await self.quota.count_bytes(workspace)

    async def delete(self, owner: ConversationOwner, identity: str) -> None:
        """Forget a response; those that continue it cannot be continued any more. Raises StoreUnavailable."""
        key = make_key(owner, identity)
        try:
            if self.queue.find([key]):
                await self.queue.flush()  # else it would be written over what stands for it from now on
            await self._store.append_many({key: GONE}, self._ttl)
        except StoreError as fault:
            raise StoreUnavailable("Stored responses cannot be changed at the moment.") from fault


def make_key(owner: ConversationOwner, identity: str, prefix: str = PREFIX) -> str:
    """A hash, so that ids of any length and content make a key; sessions do not count, the id says enough."""
    return begin_key(owner.workspace, owner.principal, owner.user).finish(identity, prefix)


@lru_cache(REMEMBERED_OWNERS)
def begin_key(workspace: str, principal: str, user: str) -> KeyStart:
    """What all keys of an owner have in common."""
    whose = _encode([workspace, principal, user])[:-1] + b","
    return KeyStart(f"{hash_name(workspace)}/", hashlib.blake2b(whose, digest_size=KEY_BYTES))


def select_items(items: Sequence[Raw], ids: Collection[str]) -> dict[str, Raw]:
    """The items with these ids."""
    return {identity: item for item in items if (identity := _decode_named(item).id) is not None and identity in ids}


def decode_record(data: bytes | None) -> ResponseRecord | None:
    if data is None or data == GONE:
        return None
    try:
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
