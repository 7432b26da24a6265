"""How a version and an audit line stand on the server, and under which names."""

from hashlib import sha256

import msgspec

from gateway.domain.record import AuditEntry, Author, Record, RecordKey, RecordWrite
from gateway.stores.codec import decoded, encoded

PREFIX = "gateway-records:"  # the ephemeral store's keys begin otherwise, whatever they are
HEAD, CHANGED, KEPT, AUDITS = (PREFIX + word for word in ("head", "changed", "kept", "audits"))

_version = msgspec.msgpack.Decoder(tuple[bytes, bytes, bytes, bytes | None, float, bytes, bytes])
_line = msgspec.msgpack.Decoder(tuple[bytes, bytes, bytes, float, bytes, bytes, bytes])


def object_name(key: RecordKey) -> str:
    """A name of hexadecimal digits: no text of a user stands in the name of anything."""
    return sha256(msgspec.msgpack.encode([encoded(word) for word in key])).hexdigest()


def workspace_name(workspace: str) -> str:
    return sha256(encoded(workspace)).hexdigest()


def object_key(name: str) -> str:
    return f"{PREFIX}object:{name}"


def audit_key(name: str) -> str:
    return f"{PREFIX}audit:{name}"


def version_text(write: RecordWrite, author: Author, at: float) -> bytes:
    """A version without its id and number, which only the server knows."""
    key = write.key
    words = (encoded(key.workspace), encoded(key.kind), encoded(key.alias))
    return msgspec.msgpack.encode((*words, write.body, at, encoded(author.by), encoded(author.action)))


def line_text(write: RecordWrite, author: Author, at: float) -> bytes:
    """An audit line without its number and version; its moment is legible for the server, which prunes by it."""
    key = write.key
    words = (encoded(key.workspace), encoded(key.kind), encoded(key.alias))
    packed = msgspec.msgpack.encode((*words, at, encoded(author.by), encoded(author.action), write.changes))
    return b"%s %s" % (repr(at).encode(), packed)


def parsed_version(number: bytes, text: bytes) -> Record:
    identity, _, packed = text.partition(b" ")
    workspace, kind, alias, body, at, by, action = _version.decode(packed)
    key = RecordKey(decoded(workspace), decoded(kind), decoded(alias))
    return Record(key, parsed_id(identity), int(number), body, at, decoded(by), decoded(action))


def parsed_line(text: bytes) -> AuditEntry:
    number, version, _, packed = text.split(b" ", 3)
    workspace, kind, alias, at, by, action, changes = _line.decode(packed)
    key = RecordKey(decoded(workspace), decoded(kind), decoded(alias))
    return AuditEntry(int(number), key, int(version), at, decoded(by), decoded(action), changes)


def id_text(identity: str) -> str:
    """An id without blanks, so that the server can put it before a text."""
    return encoded(identity).hex()


def parsed_id(digits: bytes) -> str:
    return decoded(bytes.fromhex(digits.decode()))
