"""`/documents`: files that were uploaded, for resources of the type `document`."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import quote

from pydantic import AwareDatetime, BaseModel, Field

from gateway.control.documents import UNKNOWN_TYPE, DocumentInfo, Documents, Upload
from gateway.domain.principal import Role
from gateway.edge.manage.bodies import require_media
from gateway.edge.manage.calls import ApiCall, ApiReply, created, no_content, ok
from gateway.edge.manage.routes import ApiRoute, ListQuery, Media, Query
from gateway.errors import Conflict, NotFound
from gateway.extraction.formats import MEDIA_TYPES

TAG = "documents"
TYPES = (*MEDIA_TYPES, UNKNOWN_TYPE)


class Naming(Query):
    """What an upload is called."""

    name: str = Field("", max_length=200, pattern=r"^[^\x00-\x1f\x7f/\\]*$", description="The name of the file.")


class DocumentView(BaseModel):
    """An uploaded document, without its text."""

    sha256: str = Field(description="The hash of its bytes, by which resources refer to it.")
    name: str
    media_type: str
    size: int = Field(description="Bytes, as it was uploaded.")
    characters: int = Field(description="Length of its text.")
    used_by: list[str] = Field(description="The resources that use it, as `context/resource`.")
    source: Literal["store", "file"]
    file: str | None = Field(description="Where it stands, if that is a policy file.")
    created_at: AwareDatetime | None
    created_by: str | None


class DocumentPage(BaseModel):
    """A part of the list of documents."""

    items: list[DocumentView]
    total: int


@dataclass(frozen=True, slots=True)
class DocumentNoun:
    """Uploads as resources of the API."""

    documents: Documents
    max_bytes: int

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/documents",
            handler=self.list,
            role=Role.EDITOR,
            tag=TAG,
            summary="List the documents of the workspace",
            query=ListQuery,
            responses={200: DocumentPage},
        )
        yield ApiRoute(
            method="POST",
            path="/documents",
            handler=self.upload,
            role=Role.EDITOR,
            tag=TAG,
            summary="Upload a document; the same bytes again give the same document",
            query=Naming,
            body=Media(TYPES, self.max_bytes),
            responses={201: DocumentView, 200: DocumentView},
        )
        yield from self._of_one()

    def _of_one(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/documents/{sha256}",
            handler=self.get,
            role=Role.EDITOR,
            tag=TAG,
            summary="One document, without its text",
            responses={200: DocumentView},
            errors=(NotFound,),
        )
        yield ApiRoute(
            method="GET",
            path="/documents/{sha256}/content",
            handler=self.content,
            role=Role.EDITOR,
            tag=TAG,
            summary="The document as it was uploaded",
            responses={200: Media(tuple(MEDIA_TYPES))},
            errors=(NotFound,),
        )
        yield ApiRoute(
            method="DELETE",
            path="/documents/{sha256}",
            handler=self.remove,
            role=Role.EDITOR,
            tag=TAG,
            summary="Delete a document that no resource uses",
            responses={204: None},
            errors=(NotFound, Conflict),
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        held = [one for one in self.documents.of(call.workspace) if call.query.filter.lower() in one.name.lower()]
        page = held[call.query.skip :][: call.query.take]
        return ok(DocumentPage(items=[_view(one) for one in page], total=len(held)))

    async def upload(self, call: ApiCall[Naming, bytes]) -> ApiReply:
        media = require_media(call.headers, TYPES)
        charset = _charset(call.headers.get(b"content-type", b"").decode("latin-1"))
        held, new = await self.documents.add(call.principal, Upload(call.body, media, charset, call.query.name))
        return created(f"/documents/{held.sha256}", _view(held)) if new else ok(_view(held))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        return ok(_view(self.documents.get(call.workspace, call.path["sha256"])))

    async def content(self, call: ApiCall[None, None]) -> ApiReply:
        held, content = await self.documents.original(call.workspace, call.path["sha256"])
        # A page that somebody uploaded must not run in the name of this server.
        headers = (
            (b"content-disposition", f"attachment; filename*=UTF-8''{quote(held.name, safe='')}".encode()),
            (b"content-security-policy", b"default-src 'none'; sandbox"),
        )
        return ApiReply(200, content, headers, held.media_type)

    async def remove(self, call: ApiCall[None, None]) -> ApiReply:
        await self.documents.remove(call.principal, call.path["sha256"])
        return no_content()


def _charset(content_type: str) -> str | None:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip(' "')
    return None


def _view(held: DocumentInfo) -> DocumentView:
    record = held.record
    return DocumentView(
        sha256=held.sha256,
        name=held.name,
        media_type=held.media_type,
        size=held.size,
        characters=held.characters,
        used_by=list(held.used_by),
        source="file" if record is None else "store",
        file=held.file,
        created_at=None if record is None else datetime.fromtimestamp(record.at, UTC),
        created_by=None if record is None else record.by,
    )
