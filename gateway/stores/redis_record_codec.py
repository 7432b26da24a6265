"""How records and their indexes are encoded on a Redis server."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple
from uuid import uuid4

import msgspec

from gateway.domain.content import Backlink, NodeLink
from gateway.domain.record import AuditEntry, Author, Record, RecordKey, RecordWrite
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import AuditFilter

PREFIX = "gateway-records:"  # no key of another store starts with it


class PackedAuditEntry(msgspec.Struct, array_like=True):
    """An audit entry on the server; those of earlier releases end before the last field."""

    workspace: bytes
    kind: bytes
    alias: bytes
    at: float
    by: bytes
    action: bytes
    changes: bytes
    author_key: bytes | None = None


_version_decoder = msgspec.msgpack.Decoder(tuple[bytes, bytes, bytes, bytes | None, float, bytes, bytes])
_audit_decoder = msgspec.msgpack.Decoder(PackedAuditEntry)


def encode_write(write: RecordWrite, author: Author, at: float) -> list[str | bytes]:
    """The arguments of the commit script for one write, without its workspace."""
    expected = "" if write.expected is None else str(write.expected)
    deletes = str(int(write.body is None))
    object_id = encode_id(write.id or str(uuid4()))
    encoded = (encode_version(write.key, write.body, author, at), encode_audit_entry(write, author, at))
    outline, size = b"", len(write.body or b"")
    if write.outline is not None:
        outline = encode_outline(write.key, write.outline, size, author, at)
    indexed = (outline, pack_links(write.key, write.links), encode_text(author.by))
    return [hash_key(write.key), expected, deletes, object_id, *encoded, *indexed]


def hash_key(key: RecordKey) -> str:
    """The name of an object, in hexadecimal digits: no name on the server contains text from a user."""
    return sha256(msgspec.msgpack.encode([encode_text(word) for word in key])).hexdigest()


def hash_workspace(workspace: str) -> str:
    return sha256(encode_text(workspace)).hexdigest()


class RecordNames(NamedTuple):
    """The names of keys on the server; each set of records has a prefix of its own."""

    prefix: str
    head: str
    changed: str
    kept: str
    audits: str

    @classmethod
    def build(cls, prefix: str) -> "RecordNames":
        return cls(prefix, *(prefix + word for word in ("head", "changed", "kept", "audits")))

    def make_object_key(self, name: str) -> str:
        return f"{self.prefix}object:{name}"

    def make_audit_key(self, name: str) -> str:
        return f"{self.prefix}audit:{name}"


POLICY_NAMES = RecordNames.build(PREFIX)


def encode_version(key: RecordKey, body: bytes | None, author: Author, at: float) -> bytes:
    """A version without its id and number, which only the server knows."""
    words = [encode_text(word) for word in key]
    return msgspec.msgpack.encode((*words, body, at, encode_text(author.by), encode_text(author.action)))


def encode_outline(key: RecordKey, outline: bytes, size: int, author: Author, at: float) -> bytes:
    """What is loaded in place of a version whose body has so many bytes."""
    return b"%d %s" % (size, encode_version(key, outline, author, at))


def decode_version(number: bytes, value: bytes, whole: bytes = b"") -> Record:
    """A version; `whole`: the bytes of the whole one, if this is its outline."""
    object_id, _, packed = value.partition(b" ")
    workspace, kind, alias, body, at, by, action = _version_decoder.decode(packed)
    key = RecordKey(decode_text(workspace), decode_text(kind), decode_text(alias))
    names = decode_text(by), decode_text(action)
    return Record(key, decode_id(object_id), int(number), body, at, *names, int(whole) if whole else None)


def pack_links(key: RecordKey, links: Sequence[NodeLink]) -> bytes:
    """The entries of the index of backlinks, key and member in turn, as the server unpacks them."""
    pairs = [(make_links_key(key.workspace, link.target), encode_backlink(link.type, key.alias)) for link in links]
    return msgspec.msgpack.encode([word for pair in pairs for word in pair]) if pairs else b""


def make_links_key(workspace: str, target: str) -> str:
    return f"{PREFIX}links:{sha256(msgspec.msgpack.encode([encode_text(workspace), encode_text(target)])).hexdigest()}"


def encode_backlink(type: str, source: str) -> str:
    """In hexadecimal digits, so that members sort by their sources."""
    return f"{encode_text(source).hex()} {encode_text(type).hex()}"


def decode_backlink(member: bytes) -> Backlink:
    source, _, type = member.partition(b" ")
    return Backlink(decode_id(type), decode_id(source))


def encode_audit_entry(write: RecordWrite, author: Author, at: float) -> bytes:
    """An audit entry without its number and version; its time is readable by the server, which prunes by it."""
    workspace, kind, alias = (encode_text(word) for word in write.key)
    by, action = encode_text(author.by), encode_text(author.action)
    author_key = None if author.key is None else encode_text(author.key)
    entry = PackedAuditEntry(workspace, kind, alias, at, by, action, write.changes, author_key)
    packed = msgspec.msgpack.encode(entry)
    return b"%s %s" % (repr(at).encode(), packed)


class AuditLine(NamedTuple):
    """An audit entry as far as a filter has to look at it."""

    number: int
    version: int
    entry: PackedAuditEntry

    @classmethod
    def read(cls, line: bytes) -> "AuditLine":
        number, version, _, packed = line.split(b" ", 3)
        return cls(int(number), int(version), _audit_decoder.decode(packed))

    def decode(self) -> AuditEntry:
        entry = self.entry
        key = RecordKey(decode_text(entry.workspace), decode_text(entry.kind), decode_text(entry.alias))
        by, action = decode_text(entry.by), decode_text(entry.action)
        author_key = None if entry.author_key is None else decode_text(entry.author_key)
        return AuditEntry(self.number, key, self.version, entry.at, by, action, entry.changes, author_key)


class AuditMatcher:
    """An audit filter on entries as the server keeps them."""

    def __init__(self, criteria: AuditFilter) -> None:
        words = (criteria.kind, criteria.alias, criteria.by)
        self._kind, self._alias, self._by = (None if word is None else encode_text(word) for word in words)

    def matches(self, entry: PackedAuditEntry) -> bool:
        if self._by not in (None, entry.by, entry.author_key):
            return False
        return self._kind in (None, entry.kind) and self._alias in (None, entry.alias)


def encode_id(object_id: str) -> str:
    """An id without spaces, so that the server can put it before a value."""
    return encode_text(object_id).hex()


def decode_id(digits: bytes) -> str:
    return decode_text(bytes.fromhex(digits.decode()))
