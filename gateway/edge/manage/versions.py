"""`/{kind}/{object}/versions` and `/rollback`: what an object was, and how to get it back; nodes of the tree, too."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gateway.control.base import Object
from gateway.control.kinds import noun
from gateway.control.versions import Versions, body_of
from gateway.domain.principal import Role
from gateway.domain.record import Record
from gateway.edge.manage.calls import ApiCall, ApiReply, Shown, ok
from gateway.edge.manage.collection import WRITES
from gateway.edge.manage.routes import ApiRoute, Paging, Query
from gateway.edge.manage.views import Page, rfc3339, view
from gateway.errors import NotFound

HIGHEST = 2**31 - 1


class VersionView(BaseModel):
    """One version in the list of an object's versions."""

    version: int
    at: datetime
    by: str
    action: str = Field(description="create, update, delete, rollback, publish, import …")


class VersionPage(Page[VersionView]):
    """A part of the versions that are kept, newest first."""


class FormerView(VersionView):
    """One version with what the object was, in the form of a policy file."""

    body: dict[str, Any] | None = Field(description="null: this version deleted the object.")


class ChangeView(BaseModel):
    """One value that differs."""

    pointer: str = Field(description="JSON pointer; resources by id, their order at /resources/order.")
    before: Any = Field(alias="from", description="null if it is absent.")
    after: Any = Field(alias="to", description="null if it is absent.")


class ComparisonView(BaseModel):
    """What differs between two versions."""

    before: int = Field(alias="from")
    after: int = Field(alias="to")
    changes: list[ChangeView]


class Pair(Query):
    """Which two versions are compared."""

    before: int = Field(alias="from", ge=1, le=HIGHEST)
    after: int = Field(alias="to", ge=1, le=HIGHEST)


class RollbackBody(BaseModel):
    """Which version comes back."""

    model_config = ConfigDict(extra="forbid")

    version: int = Field(ge=1, le=HIGHEST, strict=True)


@dataclass(frozen=True, slots=True)
class Histories:
    """The versions of one kind of object. A deleted object is still found here by its alias."""

    kind: str
    seen: type[BaseModel]  # how an object of the kind is shown
    versions: Versions
    show: Callable[[str, Object], Shown] = lambda workspace, one: view(one)
    spans: bool = False  # whether names may hold slashes

    def routes(self) -> Iterator[ApiRoute]:
        one = noun(self.kind)
        single = f"/{self.kind}/{{{one}{'...' if self.spans else ''}}}"
        route = partial(ApiRoute, role=Role.EDITOR, tag=self.kind)
        read = partial(route, method="GET", errors=(NotFound,))
        yield read(
            path=f"{single}/versions",
            handler=self.list,
            summary=f"List the versions of a {one}",
            query=Paging,
            responses={200: VersionPage},
        )
        yield read(
            path=f"{single}/versions/compare",
            handler=self.compare,
            summary=f"What differs between two versions of a {one}",
            query=Pair,
            responses={200: ComparisonView},
        )
        yield read(
            path=f"{single}/versions/{{version}}",
            handler=self.get,
            summary=f"One version of a {one}",
            responses={200: FormerView},
        )
        yield route(
            method="POST",
            path=f"{single}/rollback",
            handler=self.rollback,
            summary=f"Make a former version of a {one} the next one, also of a deleted one",
            body=RollbackBody,
            responses={200: self.seen},
            errors=WRITES,
            conditional=True,
        )

    async def list(self, call: ApiCall[Paging, None]) -> ApiReply:
        skip, take = call.query.skip, call.query.take
        records, total = await self.versions.every(call.workspace, self._name(call), skip, take)
        return ok({"items": [_told(record) for record in records], "total": total})

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        wanted = call.path["version"]
        if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 10):
            raise NotFound(f"There is no version {wanted!r}.")
        record = await self.versions.one(call.workspace, self._name(call), int(wanted))
        return ok({**_told(record), "body": body_of(record)})

    async def compare(self, call: ApiCall[Pair, None]) -> ApiReply:
        pair = call.query.before, call.query.after
        changes = await self.versions.compare(call.workspace, self._name(call), pair)
        return ok({"from": pair[0], "to": pair[1], "changes": changes})

    async def rollback(self, call: ApiCall[None, RollbackBody]) -> ApiReply:
        one = await self.versions.rollback(call.principal, self._name(call), call.body.version, call.if_match)
        return ok(self.show(call.workspace, one), one.tag)

    def _name(self, call: ApiCall[Any, Any]) -> str:
        return call.path[noun(self.kind)]


def _told(record: Record) -> dict[str, Any]:
    return {"version": record.version, "at": rfc3339(record.at), "by": record.by, "action": record.action}
