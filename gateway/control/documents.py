"""Uploaded documents: known by the hash of their bytes, read once, kept as text and as they came."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import orjson

from gateway.control.base import PolicyRepositoryProtocol
from gateway.control.writer import PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Author, Record, RecordKey, RecordWrite
from gateway.errors import Conflict, FieldError, InvalidObject, NotFound, VersionConflict
from gateway.extraction import formats
from gateway.extraction.extract import extract_content
from gateway.extraction.formats import MEDIA_TYPES, Format
from gateway.policies.files import PolicyEntry
from gateway.settings import DocumentSettings as Limits
from gateway.stores.protocols import EphemeralStore

KIND = "documents"
UNKNOWN_TYPE = "application/octet-stream"
PIECE = 512 * 1024  # bytes; a whole document would not pass through a store's time limit for one call
MAX_TEXT = 2 * 1024 * 1024  # bytes of text; every node reads it in one call of the store, and holds it in memory
AT_ONCE = 2  # documents that are read at a time: each may take documents.memory_mb


@dataclass(frozen=True, slots=True)
class Upload:
    """What came, and what its sender said about it."""

    content: bytes
    media_type: str
    charset: str | None = None
    name: str = ""

    @property
    def sha256(self) -> str:
        return sha256(self.content).hexdigest()

    @property
    def form(self) -> Format:
        """What the sender says, else what the name promises, else how it begins."""
        return MEDIA_TYPES.get(self.media_type) or formats.by_name(self.name) or formats.by_content(self.content[:1024])

    @property
    def known_type(self) -> str:
        if self.media_type != UNKNOWN_TYPE:
            return self.media_type
        if self.name.lower().endswith((".md", ".markdown")):
            return "text/markdown"
        return next(media for media, form in MEDIA_TYPES.items() if form is self.form)


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """A document of a workspace."""

    sha256: str
    name: str
    media_type: str
    size: int  # bytes, as it was uploaded
    characters: int
    used_by: tuple[str, ...]  # resources, as `context/resource`
    record: Record | None  # None: it stands in a policy file
    file: str | None = None


class Documents:
    """The documents of every workspace."""

    def __init__(
        self, book: PolicyRepositoryProtocol, desk: PolicyWriter, store: EphemeralStore, limits: Limits
    ) -> None:
        self._book, self._desk, self._store, self._limits = book, desk, store, limits
        self._places = asyncio.Semaphore(AT_ONCE)

    def of(self, workspace: str) -> list[DocumentInfo]:
        """All documents of a workspace by name."""
        sections = self._book.entries(workspace)
        users = users_of(sections["contexts"])
        held = (_held(entry, users) for entry in sections[KIND].values())
        return sorted(held, key=lambda one: (one.name, one.sha256))

    def get(self, workspace: str, digest: str) -> DocumentInfo:
        """One document; raises NotFound, for those of other workspaces too."""
        sections = self._book.entries(workspace)
        entry = sections[KIND].get(digest)
        if entry is None:
            raise NotFound(f"There is no document {digest!r}.")
        return _held(entry, users_of(sections["contexts"]))

    async def add(self, caller: Principal, upload: Upload) -> tuple[DocumentInfo, bool]:
        """Read and keep a document; also whether it is new. Raises Invalid for one that gives no text."""
        digest = upload.sha256
        if digest not in self._book.entries(caller.workspace)[KIND]:
            text = await self._read(upload)
            async with self._desk.turn(caller.workspace):
                if digest not in self._book.entries(caller.workspace)[KIND]:
                    return await self._keep(caller, upload, text)
        return self.get(caller.workspace, digest), False

    async def original(self, workspace: str, digest: str) -> tuple[DocumentInfo, bytes]:
        """A document as it was uploaded; raises NotFound if only its text is kept."""
        held = self.get(workspace, digest)
        keys = [_piece(workspace, digest, place) for place in _places(held.size)]
        content = b"".join([(await self._store.get_many([key])).get(key, b"") for key in keys])
        if sha256(content).hexdigest() != digest:
            raise NotFound("Only the text of this document is kept; its original is gone or never was here.")
        return held, content

    async def remove(self, caller: Principal, digest: str) -> None:
        """Forget a document; raises Conflict while a resource uses it."""
        async with self._desk.turn(caller.workspace):
            held = self.get(caller.workspace, digest)
            if held.record is None:
                raise Conflict(f"The document stands in the file {held.file}; change it there.")
            if held.used_by:
                raise Conflict(f"The document is used by {', '.join(held.used_by)}.")
            write = RecordWrite(held.record.key, None, held.record.version, changes=_changes(held, None))
            try:
                await self._book.commit([write], Author(caller.name, "delete"))
            except VersionConflict as conflict:
                raise Conflict("Somebody else changed this document at the same moment.") from conflict
            for place in _places(held.size):
                await self._store.put(_piece(caller.workspace, digest, place), b"", ttl=1)

    async def _read(self, upload: Upload) -> str:
        try:
            async with self._places:
                text = await asyncio.to_thread(
                    extract_content, upload.content, upload.form, self._limits, upload.charset
                )
        except ValueError as error:
            raise _unreadable(str(error)) from error
        if not text.strip():
            raise _unreadable("it holds no text")
        if len(text.encode()) > MAX_TEXT:
            raise _unreadable(f"its text is larger than {MAX_TEXT} bytes")
        return text

    async def _keep(self, caller: Principal, upload: Upload, text: str) -> tuple[DocumentInfo, bool]:
        digest, size = upload.sha256, len(upload.content)
        for place in _places(size):
            piece = upload.content[place * PIECE : (place + 1) * PIECE]
            await self._store.put(_piece(caller.workspace, digest, place), piece)
        name = upload.name or f"{digest[:12]}.{upload.form}"
        body = {"name": name, "media_type": upload.known_type, "size": size, "text": text}
        held = DocumentInfo(digest, name, upload.known_type, size, len(text), (), None)
        write = RecordWrite(
            RecordKey(caller.workspace, KIND, digest), orjson.dumps(body), 0, changes=_changes(None, held)
        )
        try:
            (record,) = await self._book.commit([write], Author(caller.name, "create"))
        except VersionConflict:
            await self._book.refresh()  # another node was faster with the same bytes
            return self.get(caller.workspace, digest), False
        return replace(held, record=record), True


def users_of(contexts: Mapping[str, PolicyEntry]) -> dict[str, list[str]]:
    """The resources that use each document, by its hash."""
    users: dict[str, list[str]] = {}
    for context, entry in contexts.items():
        for resource, digest in _uploads(entry.data):
            users.setdefault(digest, []).append(f"{context}/{resource}")
    return users


def _uploads(context: Any) -> Iterator[tuple[str, str]]:
    resources = context.get("resources") if isinstance(context, dict) else None
    for id, resource in resources.items() if isinstance(resources, dict) else ():
        data = resource.get("data") if isinstance(resource, dict) else None
        digest = data.get("sha256") if isinstance(data, dict) else None
        if isinstance(digest, str):
            yield str(id), digest


def _held(entry: PolicyEntry, users: Mapping[str, list[str]]) -> DocumentInfo:
    data = entry.data
    return DocumentInfo(
        entry.alias,
        str(data.get("name") or ""),
        str(data.get("media_type") or "text/plain"),
        int(data.get("size") or 0),
        len(data["text"]),
        tuple(users.get(entry.alias, ())),
        entry.record,
        None if entry.record is not None else str(entry.place),
    )


def _changes(before: DocumentInfo | None, after: DocumentInfo | None) -> bytes:
    """For the audit: what it is called and how large it is, without its text."""

    def told(held: DocumentInfo | None, field: str) -> Any:
        return None if held is None else getattr(held, field)

    fields = ("name", "media_type", "size")
    return orjson.dumps([{"pointer": f"/{one}", "from": told(before, one), "to": told(after, one)} for one in fields])


def _unreadable(reason: str) -> InvalidObject:
    return InvalidObject(f"The document cannot be used: {reason}.", [FieldError("", reason)])


def _places(size: int) -> range:
    return range(-(-size // PIECE))


def _piece(workspace: str, digest: str, place: int) -> str:
    return f"document:{sha256(workspace.encode()).hexdigest()}:{digest}:{place}"
