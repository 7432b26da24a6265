"""Uploaded documents: identified by the hash of their bytes, kept as extracted text and in their original form."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from gateway.control.authorship import make_author
from gateway.control.writer import PolicyWriter
from gateway.domain.principal import Principal
from gateway.domain.record import Record, RecordKey, RecordWrite
from gateway.errors import Conflict, FieldError, InvalidObject, NotFound, VersionConflict
from gateway.extraction import formats
from gateway.extraction.extractor import Extractor
from gateway.extraction.formats import MEDIA_TYPES, DocumentFormat
from gateway.policies.files import PolicyEntry
from gateway.policies.repository import PolicyRepository
from gateway.stores.protocols import EphemeralStore

KIND = "documents"
UNKNOWN_TYPE = "application/octet-stream"
PIECE = 512 * 1024  # bytes; storing a whole document in one call would exceed a store's time limit
MAX_TEXT = 2 * 1024 * 1024  # bytes; every replica reads it in one call of the store and keeps it in memory


class Upload(msgspec.Struct, frozen=True):
    """A document as it was sent, and what its sender says about it."""

    content: bytes
    media_type: str
    charset: str | None = None
    name: str = ""

    @property
    def sha256(self) -> str:
        return sha256(self.content).hexdigest()

    @property
    def form(self) -> DocumentFormat:
        """As the sender says, otherwise by its name, otherwise by its first bytes."""
        return MEDIA_TYPES.get(self.media_type) or formats.detect_format(self.name, self.content)

    @property
    def known_type(self) -> str:
        """The media type as the sender says, otherwise as its name or its first bytes suggest."""
        return self.media_type if self.media_type != UNKNOWN_TYPE else detect_media_type(self.name, self.content)


class DocumentInfo(msgspec.Struct, frozen=True):
    """A document of a workspace."""

    sha256: str
    name: str
    media_type: str
    size: int  # bytes, as it was uploaded
    characters: int
    used_by: tuple[str, ...]  # resources, as `context/resource`
    record: Record | None  # None: it is defined in a policy file
    file: str | None = None


class Documents:
    """The documents of every workspace."""

    def __init__(
        self, policies: PolicyRepository, writer: PolicyWriter, store: EphemeralStore, extractor: Extractor
    ) -> None:
        self._policies, self._writer, self._store, self._extractor = policies, writer, store, extractor

    def list_all(self, workspace: str) -> list[DocumentInfo]:
        """All documents of a workspace by name."""
        sections = self._policies.entries(workspace)
        users = find_document_users(sections["contexts"])
        documents = (_make_info(entry, users) for entry in sections[KIND].values())
        return sorted(documents, key=lambda one: (one.name, one.sha256))

    def get(self, workspace: str, digest: str) -> DocumentInfo:
        """One document; raises NotFound, also for those of other workspaces."""
        sections = self._policies.entries(workspace)
        entry = sections[KIND].get(digest)
        if entry is None:
            raise NotFound(f"There is no document {digest!r}.")
        return _make_info(entry, find_document_users(sections["contexts"]))

    async def add(self, caller: Principal, upload: Upload) -> tuple[DocumentInfo, bool]:
        """Extract and store a document; also returns whether it is new. Raises InvalidObject if it has no text."""
        digest = upload.sha256
        if digest not in self._policies.entries(caller.workspace)[KIND]:
            self._policies.check_upload(caller.workspace, len(upload.content))
            text = await self._extract(caller.workspace, upload)
            async with self._writer.lock(caller.workspace):
                if digest not in self._policies.entries(caller.workspace)[KIND]:
                    return await self._save(caller, upload, text)
        return self.get(caller.workspace, digest), False

    async def original(self, workspace: str, digest: str) -> tuple[DocumentInfo, bytes]:
        """A document as it was uploaded; raises NotFound if only its text is available."""
        info = self.get(workspace, digest)
        keys = _list_piece_keys(workspace, digest, info.size)
        content = b"".join([(await self._store.get_many([key])).get(key, b"") for key in keys])
        if sha256(content).hexdigest() != digest:
            raise NotFound("Only the text of this document is available, not the original file.")
        return info, content

    async def remove(self, caller: Principal, digest: str) -> None:
        """Delete a document; raises Conflict while a resource uses it."""
        async with self._writer.lock(caller.workspace):
            info = self.get(caller.workspace, digest)
            if info.record is None:
                raise Conflict(f"The document is defined in the file {info.file}; change it there.")
            if info.used_by:
                raise Conflict(f"The document is used by {', '.join(info.used_by)}.")
            write = RecordWrite(info.record.key, None, info.record.version, changes=_encode_changes(info, None))
            try:
                await self._policies.commit([write], make_author(caller, "delete"))
            except VersionConflict as conflict:
                raise Conflict("The document was changed by someone else in the meantime.") from conflict
            for key in _list_piece_keys(caller.workspace, digest, info.size):
                await self._store.put(key, b"", ttl=1)

    async def _extract(self, workspace: str, upload: Upload) -> str:
        try:
            text = await self._extractor.extract(workspace, upload.content, upload.form, upload.charset)
        except ValueError as error:
            raise _make_error(str(error)) from error
        if not text.strip():
            raise _make_error("it contains no text")
        if len(text.encode()) > MAX_TEXT:
            raise _make_error(f"its text is larger than {MAX_TEXT} bytes")
        return text

    async def _save(self, caller: Principal, upload: Upload, text: str) -> tuple[DocumentInfo, bool]:
        digest, size = upload.sha256, len(upload.content)
        self._policies.check_upload(caller.workspace, size)
        for position, piece in enumerate(_list_piece_keys(caller.workspace, digest, size)):
            await self._store.put(piece, upload.content[position * PIECE : (position + 1) * PIECE])
        name = upload.name or f"{digest[:12]}.{upload.form}"
        body = {"name": name, "media_type": upload.known_type, "size": size, "text": text}
        info = DocumentInfo(digest, name, upload.known_type, size, len(text), (), None)
        key = RecordKey(caller.workspace, KIND, digest)
        write = RecordWrite(key, orjson.dumps(body), 0, changes=_encode_changes(None, info))
        try:
            (record,) = await self._policies.commit([write], make_author(caller, "create"))
        except VersionConflict:
            await self._policies.refresh(caller.workspace)  # another replica was faster with the same bytes
            return self.get(caller.workspace, digest), False
        return replace(info, record=record), True


def find_document_users(contexts: Mapping[str, PolicyEntry]) -> dict[str, list[str]]:
    """The resources that use each document, by its hash."""
    users: dict[str, list[str]] = {}
    for context, entry in contexts.items():
        for resource, digest in _list_uploads(entry.data):
            users.setdefault(digest, []).append(f"{context}/{resource}")
    return users


def _list_uploads(context: Any) -> Iterator[tuple[str, str]]:
    resources = context.get("resources") if isinstance(context, dict) else None
    for id, resource in resources.items() if isinstance(resources, dict) else ():
        data = resource.get("data") if isinstance(resource, dict) else None
        digest = data.get("sha256") if isinstance(data, dict) else None
        if isinstance(digest, str):
            yield str(id), digest


def _make_info(entry: PolicyEntry, users: Mapping[str, list[str]]) -> DocumentInfo:
    data = entry.data
    return DocumentInfo(
        entry.alias,
        str(data.get("name") or ""),
        str(data.get("media_type") or "text/plain"),
        int(data.get("size") or 0),
        len(data["text"]),
        tuple(users.get(entry.alias, ())),
        entry.record,
        None if entry.record is not None else str(entry.location),
    )


def detect_media_type(name: str, content: bytes) -> str:
    """The media type of a document by its name, otherwise by its first bytes."""
    if name.lower().endswith((".md", ".markdown")):
        return "text/markdown"
    form = formats.detect_format(name, content)
    return next(media for media, known in MEDIA_TYPES.items() if known is form)


def _encode_changes(before: DocumentInfo | None, after: DocumentInfo | None) -> bytes:
    """For the audit: name, type and size, without the text."""
    fields = ("name", "media_type", "size")
    changes = [(f"/{one}", before and getattr(before, one), after and getattr(after, one)) for one in fields]
    return orjson.dumps([{"pointer": pointer, "from": former, "to": new} for pointer, former, new in changes])


def _make_error(reason: str) -> InvalidObject:
    return InvalidObject(f"The document cannot be used: {reason}.", [FieldError("", reason)])


def _list_piece_keys(workspace: str, digest: str, size: int) -> list[str]:
    owner = sha256(workspace.encode()).hexdigest()
    return [f"document:{owner}:{digest}:{position}" for position in range(-(-size // PIECE))]
