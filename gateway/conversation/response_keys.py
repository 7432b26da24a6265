"""The keys under which stores have responses: by workspace, whose they are, and their ids."""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.response_quota import hash_name

PREFIX, ITEM_PREFIX = "response:", "response_item:"
MAX_NAMED_ITEMS = 200  # of a response that a client can refer to by their ids
MAX_ITEM_ID = 512  # characters
MAX_PLAIN_ID = 128  # characters of an id that stands in its key as it is
KEY_BYTES = 20  # of a hash
REMEMBERED_OWNERS = 4096

_encode = msgspec.json.Encoder().encode


class KeyStart(msgspec.Struct, frozen=True, eq=False):
    """The beginning of keys: their group, and a hash of whose they are, to be copied and as it is."""

    group: str
    hashed: hashlib.blake2b
    whose: str

    def finish(self, identity: str, prefix: str) -> str:
        """The key of an id."""
        return self.begin(prefix) + identity if is_plain(identity) else self.hash(identity, prefix)

    def begin(self, prefix: str) -> str:
        """What the keys of plain ids begin with."""
        return f"{prefix}{self.group}{self.whose}:"

    def hash(self, identity: str, prefix: str) -> str:
        """The key of an id of any length and content; earlier releases had no others."""
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


def is_plain(identity: str) -> bool:
    """Whether an id stands in its key as it is: it has letters, digits, `_` and `-` only, and not many of them."""
    return 0 < len(identity) <= MAX_PLAIN_ID and identity.isascii() and f"_{identity.replace('-', '_')}".isidentifier()


class SortedIds(NamedTuple):
    """Ids that stand in their keys as they are, with a space between each two, and the others."""

    plain: str
    odd: Sequence[str]


def sort_ids(ids: Sequence[str]) -> SortedIds:
    """Without a call for each, if all are plain."""
    joined = _join_plain(ids)
    if joined is not None:
        return SortedIds(joined, ())
    return SortedIds(" ".join(filter(is_plain, ids)), [one for one in ids if not is_plain(one)])


def _join_plain(ids: Sequence[str]) -> str | None:
    """None if one of them is not plain."""
    joined, sizes = " ".join(ids), set(map(len, ids))
    if joined.count(" ") >= len(ids) or not 0 < min(sizes) <= max(sizes) <= MAX_PLAIN_ID:
        return None
    word = f"_{joined.replace(' ', '_').replace('-', '_')}"
    return joined if joined.isascii() and word.isidentifier() else None


def get_key_start(owner: ConversationOwner) -> KeyStart:
    """What all keys of an owner have in common; sessions do not count, the id says enough."""
    return _begin_key(owner.workspace, owner.principal, owner.user)


@lru_cache(REMEMBERED_OWNERS)
def _begin_key(workspace: str, principal: str, user: str) -> KeyStart:
    hashed = hashlib.blake2b(_encode([workspace, principal, user])[:-1] + b",", digest_size=KEY_BYTES)
    return KeyStart(f"{hash_name(workspace)}/", hashed, hashed.hexdigest())
