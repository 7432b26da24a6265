"""`/{kind}/{object}/versions` and `/rollback`: former versions of objects and nodes, and how to get them back."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from gateway.control.object_bodies import kind_name
from gateway.control.objects import PolicyObject
from gateway.control.versions import Versions, decode_body
from gateway.domain.principal import Role
from gateway.domain.record import Record
from gateway.edge.manage.calls import ApiCall, ApiReply, JsonBody
from gateway.edge.manage.paging import Page, Paging, QueryParameters, build_page
from gateway.edge.manage.routes import WRITE_ERRORS, ApiRoute
from gateway.edge.manage.views import format_timestamp, render_object
from gateway.errors import NotFound

HIGHEST = 2**31 - 1


class VersionView(BaseModel):
    """A version in the list of an object's versions."""

    version: int
    at: datetime
    by: str
    action: str = Field(description="create, update, delete, rollback, publish, import …")


class VersionPage(Page[VersionView]):
    """A page of the versions that are kept, newest first."""


class VersionDetail(VersionView):
    """A version with the object as it was, in the form of a policy file."""

    body: dict[str, Any] | None = Field(description="null: this version deleted the object.")


class ChangeView(BaseModel):
    """A value that differs."""

    pointer: str = Field(description="JSON pointer; resources by id, their order at /resources/order.")
    before: Any = Field(alias="from", description="null if it is absent.")
    after: Any = Field(alias="to", description="null if it is absent.")


class ComparisonView(BaseModel):
    """What differs between two versions."""

    before: int = Field(alias="from")
    after: int = Field(alias="to")
    changes: list[ChangeView]


class CompareQuery(QueryParameters):
    """The two versions to compare."""

    before: int = Field(alias="from", ge=1, le=HIGHEST)
    after: int = Field(alias="to", ge=1, le=HIGHEST)


class RollbackBody(BaseModel):
    """The version to go back to."""

    model_config = ConfigDict(extra="forbid")

    version: int = Field(ge=1, le=HIGHEST, strict=True)


class VersionRoutes(msgspec.Struct, frozen=True):
    """The versions of one kind of object. A deleted object is still found here by its alias."""

    kind: str
    path: str  # of one object
    view: type[BaseModel]  # of one object
    versions: Versions
    render: Callable[[str, PolicyObject], Awaitable[JsonBody]]

    def list_routes(self) -> Iterator[ApiRoute]:
        one = kind_name(self.kind)
        route = partial(ApiRoute, role=Role.EDITOR, tag=self.kind)
        read = partial(route, method="GET", errors=(NotFound,))
        yield read(
            path=f"{self.path}/versions",
            handler=self.list,
            summary=f"List the versions of the {one}",
            query=Paging,
            responses={200: VersionPage},
        )
        yield read(
            path=f"{self.path}/versions/compare",
            handler=self.compare,
            summary=f"Compare two versions of the {one}",
            query=CompareQuery,
            responses={200: ComparisonView},
        )
        yield read(
            path=f"{self.path}/versions/{{version}}",
            handler=self.get,
            summary=f"Get a version of the {one}",
            responses={200: VersionDetail},
        )
        yield route(
            method="POST",
            path=f"{self.path}/rollback",
            handler=self.rollback,
            summary=f"Make a former version of the {one} the next one, also after a deletion",
            body=RollbackBody,
            responses={200: self.view},
            errors=WRITE_ERRORS,
            conditional=True,
        )

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        skip, take = call.query.skip, call.query.take
        records, total = await self.versions.list_all(call.workspace, self._get_name(call), skip, take)
        return ApiReply(build_page([_render_version(record) for record in records], total))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        wanted = call.path["version"]
        if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 10):
            raise NotFound(f"There is no version {wanted!r}.")
        record = await self.versions.get(call.workspace, self._get_name(call), int(wanted))
        return ApiReply({**_render_version(record), "body": decode_body(record)})

    async def compare(self, call: ApiCall[CompareQuery, None]) -> ApiReply:
        pair = call.query.before, call.query.after
        changes = await self.versions.compare(call.workspace, self._get_name(call), pair)
        return ApiReply({"from": pair[0], "to": pair[1], "changes": changes})

    async def rollback(self, call: ApiCall[None, RollbackBody]) -> ApiReply:
        one = await self.versions.rollback(call.principal, self._get_name(call), call.body.version, call.if_match)
        return ApiReply(await self.render(call.workspace, one), etag=one.tag)

    def _get_name(self, call: ApiCall[Any, Any]) -> str:
        return call.path[kind_name(self.kind)]


async def render_current(workspace: str, one: PolicyObject) -> JsonBody:
    """An object whose record says everything about it."""
    return render_object(one)


def _render_version(record: Record) -> dict[str, Any]:
    return {"version": record.version, "at": format_timestamp(record.at), "by": record.by, "action": record.action}
