"""Responses that clients come back to by their ids: whose they are, and what the gateway has to know to go on."""

import hashlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec
from msgspec import Raw

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.domain.lru import LruCache
from gateway.errors import InvalidRequest, StoreError, StoreUnavailable
from gateway.stores.protocols import EphemeralStore

RESPONSE_SECONDS = 24 * 3600.0  # that responses are kept
MAX_RESPONSE_BYTES = 4 * 1024 * 1024  # of a response with its input; larger ones are not kept
MAX_CHAIN = 500  # responses that one continues, directly or through others
SIZES = "response-bytes:"
PERIODS = 24  # parts of the time that responses are kept, by which their sizes are counted
MAX_NAMED_ITEMS = 200  # of a response that a client can refer to by their ids
MAX_ITEM_ID = 512  # characters
MAX_REFERENCED_BYTES = 16 * 1024 * 1024  # of all responses that the items of one request come from
RESPONSES_PER_QUERY = 4
PREFIX, ITEM_PREFIX = "response:", "response_item:"
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

    @property
    def is_shown_upstream(self) -> bool:
        return bytes(self.shown) == b"null"

    def list_output(self) -> list[Raw]:
        """The items that the client saw, as far as the gateway has them."""
        return [] if self.is_shown_upstream else _decode_shown(self.shown).output


class _ShownResponse(msgspec.Struct):
    output: list[Raw] = []


class _NamedItem(msgspec.Struct):
    id: str | None = None


_decode = msgspec.json.Decoder(ResponseRecord).decode
_decode_shown = msgspec.json.Decoder(_ShownResponse).decode
_decode_named = msgspec.json.Decoder(_NamedItem).decode


@dataclass(frozen=True, slots=True)
class StoredResponses:
    """Keeps responses per workspace and key; nobody else finds them."""

    store: EphemeralStore
    ttl: float = RESPONSE_SECONDS
    get_quota: Callable[[str], int] | None = None  # bytes that a workspace may keep; None: any number
    clock: Callable[[], float] = time.time
    _earlier: LruCache[str, int] = field(default_factory=LruCache, compare=False)  # by the counter of a period

    async def find(self, owner: ConversationOwner, identity: str) -> ResponseRecord | None:
        """What is known of a response; None: nothing, or it is somebody else's. Raises StoreUnavailable."""
        return (await self.find_many(owner, [identity]))[0]

    async def find_many(self, owner: ConversationOwner, ids: Sequence[str]) -> list[ResponseRecord | None]:
        """The same for several."""
        keys = [make_key(owner, identity) for identity in ids]
        found = await self._get_many(keys)
        return [decode_record(found.get(key)) for key in keys]

    async def find_items(self, owner: ConversationOwner, ids: Collection[str]) -> dict[str, Raw | None]:
        """Those of these items that the owner's responses have; None: only the upstream knows what it says.

        Raises StoreUnavailable, and InvalidRequest if they come from too many or too large responses.
        """
        keys = {make_key(owner, identity, ITEM_PREFIX): identity for identity in ids}
        named = await self._get_many(list(keys))
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

    async def _get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        try:
            return await self.store.get_many(keys)
        except StoreError as fault:
            raise StoreUnavailable("Stored responses cannot be read at the moment.") from fault

    async def keep(
        self, owner: ConversationOwner, identity: str, record: ResponseRecord, output: Iterable[Raw] = ()
    ) -> bool:
        """Store a response, and whose its items are; False if it is too large, or its workspace keeps too much.

        Raises StoreError.
        """
        data = msgspec.json.encode(record)
        if len(data) > MAX_RESPONSE_BYTES or not await self._book(owner.workspace, len(data)):
            return False
        key = make_key(owner, identity)
        named = (make_key(owner, item, ITEM_PREFIX) for item in read_ids(islice(output, MAX_NAMED_ITEMS)))
        await self.store.put_many({**dict.fromkeys(named, key.encode()), key: data}, self.ttl)
        return True

    async def count_bytes(self, workspace: str) -> int:
        """What a workspace keeps, or has deleted lately: that counts until it would have expired."""
        return sum((await self.store.add_many(dict.fromkeys(self._list_periods(workspace), 0), self.ttl)).values())

    async def _book(self, workspace: str, size: int) -> bool:
        """Count a response; False if that would be more than the workspace may keep."""
        if self.get_quota is None:
            return True
        current, *earlier = self._list_periods(workspace)
        ttl = self.ttl * (PERIODS + 1) / PERIODS
        used = await self._count_earlier(current, earlier) + await self.store.add(current, size, ttl)
        if used <= self.get_quota(workspace):
            return True
        await self.store.add(current, -size, ttl)
        return False

    async def _count_earlier(self, current: str, earlier: Sequence[str]) -> int:
        """What was stored before the current period: it does not change any more, so it is read once in each."""
        known = self._earlier.get(current)
        if known is None:
            known = sum((await self.store.add_many(dict.fromkeys(earlier, 0), self.ttl)).values())
            self._earlier.put(current, known)
        return known

    def _list_periods(self, workspace: str) -> list[str]:
        """The counters of all periods in which a response was stored that may still be there, the newest first."""
        now = int(self.clock() * PERIODS / self.ttl)
        return [f"{SIZES}{hash_name(workspace)}:{now - age}" for age in range(PERIODS + 1)]

    async def delete(self, owner: ConversationOwner, identity: str) -> None:
        """Forget a response; those that continue it cannot be continued any more. Raises StoreUnavailable."""
        try:
            await self.store.put(make_key(owner, identity), GONE, self.ttl)
        except StoreError as fault:
            raise StoreUnavailable("Stored responses cannot be changed at the moment.") from fault


def make_key(owner: ConversationOwner, identity: str, prefix: str = PREFIX) -> str:
    """A hash, so that ids of any length and content make a key; sessions do not count, the id says enough."""
    whose = msgspec.json.encode([owner.workspace, owner.principal, owner.user, identity])
    return f"{prefix}{hash_name(owner.workspace)}/{hashlib.sha256(whose).hexdigest()}"


def hash_name(workspace: str) -> str:
    return hashlib.sha256(workspace.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_ids(items: Iterable[Raw]) -> list[str]:
    """The ids of items that have one which is not too long."""
    ids = (_decode_named(item).id for item in items)
    return [identity for identity in ids if identity and len(identity) <= MAX_ITEM_ID]


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
