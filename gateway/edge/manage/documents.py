"""`/documents`: uploaded files, for resources of the type `document`."""

from collections.abc import Iterator
from functools import partial
from typing import Literal
from urllib.parse import quote

import msgspec
from pydantic import AwareDatetime, BaseModel, Field

from gateway.control.documents import UNKNOWN_TYPE, DocumentInfo, Documents, Upload
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply, reply_created, reply_empty
from gateway.edge.manage.paging import ListQuery, Page, QueryParameters, paginate
from gateway.edge.manage.routes import ApiRoute, MediaContent, require_media_type
from gateway.edge.manage.views import to_datetime
from gateway.errors import Conflict, NotFound
from gateway.extraction.formats import MEDIA_TYPES

TAG = "documents"
TYPES = (*MEDIA_TYPES, UNKNOWN_TYPE)


class UploadQuery(QueryParameters):
    """The name of an upload."""

    name: str = Field("", max_length=200, pattern=r"^[^\x00-\x1f\x7f/\\]*$", description="The name of the file.")


class DocumentView(BaseModel):
    """An uploaded document, without its text."""

    sha256: str = Field(description="The hash of its bytes; resources refer to it by this.")
    name: str
    media_type: str
    size: int = Field(description="Bytes as uploaded.")
    characters: int = Field(description="Length of its text.")
    used_by: list[str] = Field(description="The resources that use it, as `context/resource`.")
    source: Literal["store", "file"]
    file: str | None = Field(description="File and line of a document from a policy file.")
    created_at: AwareDatetime | None
    created_by: str | None


class DocumentPage(Page[DocumentView]):
    """A page of the list of documents."""


class DocumentRoutes(msgspec.Struct, frozen=True):
    """The documents of a workspace."""

    documents: Documents
    max_bytes: int

    def list_routes(self) -> Iterator[ApiRoute]:
        route = partial(ApiRoute, role=Role.EDITOR, tag=TAG)
        yield route(
            method="GET",
            path="/documents",
            handler=self.list,
            summary="List the documents of the workspace",
            query=ListQuery,
            responses={200: DocumentPage},
        )
        yield route(
            method="POST",
            path="/documents",
            handler=self.upload,
            summary="Upload a document; the same bytes are the same document",
            query=UploadQuery,
            body=MediaContent(TYPES, self.max_bytes),
            responses={201: DocumentView, 200: DocumentView},
        )
        yield route(
            method="GET",
            path="/documents/{sha256}",
            handler=self.get,
            summary="Get a document, without its text",
            responses={200: DocumentView},
            errors=(NotFound,),
        )
        yield route(
            method="GET",
            path="/documents/{sha256}/content",
            handler=self.download,
            summary="Download a document as it was uploaded",
            responses={200: MediaContent(tuple(MEDIA_TYPES))},
            errors=(NotFound,),
        )
        yield route(
            method="DELETE",
            path="/documents/{sha256}",
            handler=self.delete,
            summary="Delete a document that no resource uses",
            responses={204: None},
            errors=(NotFound, Conflict),
        )

    async def list(self, call: ApiCall[ListQuery, None]) -> ApiReply:
        found = [one for one in self.documents.list_all(call.workspace) if call.query.accepts(one.name)]
        return ApiReply(paginate(found, call.query, _build_view))

    async def upload(self, call: ApiCall[UploadQuery, bytes]) -> ApiReply:
        media_type = require_media_type(call.content_type, TYPES)
        charset = _parse_charset(call.content_type.decode("latin-1"))
        upload = Upload(call.body, media_type, charset, call.query.name)
        document, is_new = await self.documents.add(call.principal, upload)
        view = _build_view(document)
        return reply_created(f"/documents/{document.sha256}", view) if is_new else ApiReply(view)

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        return ApiReply(_build_view(self.documents.get(call.workspace, call.path["sha256"])))

    async def download(self, call: ApiCall[None, None]) -> ApiReply:
        document, content = await self.documents.original(call.workspace, call.path["sha256"])
        # An uploaded page must not run scripts in the name of this server.
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(document.name, safe='')}",
            "content-security-policy": "default-src 'none'; sandbox",
        }
        return ApiReply(content, headers=headers, media_type=document.media_type)

    async def delete(self, call: ApiCall[None, None]) -> ApiReply:
        await self.documents.remove(call.principal, call.path["sha256"])
        return reply_empty()


def _parse_charset(content_type: str) -> str | None:
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip(' "')
    return None


def _build_view(document: DocumentInfo) -> DocumentView:
    record = document.record
    return DocumentView(
        sha256=document.sha256,
        name=document.name,
        media_type=document.media_type,
        size=document.size,
        characters=document.characters,
        used_by=list(document.used_by),
        source="file" if record is None else "store",
        file=document.file,
        created_at=None if record is None else to_datetime(record.at),
        created_by=None if record is None else record.by,
    )
