"""`/audit`: who changed what, and when."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson
from pydantic import BaseModel, Field

from gateway.control.audit import AuditLog
from gateway.domain.principal import Role
from gateway.domain.record import AuditEntry
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.paging import Page, Paging, build_page
from gateway.edge.manage.routes import ApiRoute
from gateway.stores.protocols import AuditFilter


class AuditQuery(Paging):
    """Which entries to return."""

    kind: str | None = Field(None, max_length=64, description="Only changes of this kind of object.")
    alias: str | None = Field(None, max_length=512, description="Only changes of this object.")
    by: str | None = Field(None, max_length=200, description="Only changes by the key with this name or id.")


class AuditView(BaseModel):
    """One change."""

    number: int = Field(
        description="Counts the changes of policies, and apart from these those of the knowledge graph."
    )
    at: datetime
    by: str
    key: str | None = Field(description="The id of the key that was used; null: there was none.")
    action: str
    kind: str
    alias: str
    version: int
    changes: list[dict[str, Any]] = Field(description="What differs from the former version, shortened.")


class AuditPage(Page[AuditView]):
    """A page of the audit log, newest first."""


class AuditRoutes(msgspec.Struct, frozen=True):
    """The audit log of the caller's own workspace."""

    log: AuditLog

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/audit",
            handler=self.list,
            role=Role.ADMIN,
            tag="audit",
            summary="List who changed what, newest first",
            query=AuditQuery,
            responses={200: AuditPage},
        )

    async def list(self, call: ApiCall[AuditQuery, None]) -> ApiReply:
        query = call.query
        wanted = AuditFilter(query.kind, query.alias, query.by)
        entries, total = await self.log.list_page(call.workspace, wanted, query.skip, query.take)
        return ApiReply(build_page([_build_view(entry) for entry in entries], total))


def _build_view(entry: AuditEntry) -> AuditView:
    return AuditView(
        number=entry.number,
        at=datetime.fromtimestamp(entry.at, UTC),
        by=entry.by,
        key=entry.author_key,
        action=entry.action,
        kind=entry.key.kind,
        alias=entry.key.alias,
        version=entry.version,
        changes=orjson.loads(entry.changes or b"[]"),
    )
