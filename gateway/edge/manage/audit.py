"""`/audit`: who changed what, and when."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from pydantic import BaseModel, Field

from gateway.domain.principal import Role
from gateway.domain.record import AuditEntry
from gateway.edge.manage.calls import ApiCall, ApiReply, ok
from gateway.edge.manage.routes import ApiRoute, Paging
from gateway.stores.protocols import AuditFilter


class Book(Protocol):
    """Where changes are written down."""

    async def audit(self, workspace: str, wanted: AuditFilter, skip: int, take: int) -> tuple[list[AuditEntry], int]:
        """Lines of a workspace's audit, newest first, and how many there are."""
        ...


class AuditQuery(Paging):
    """Which lines are wanted."""

    kind: str | None = Field(None, max_length=64, description="Only changes of this kind of object.")
    alias: str | None = Field(None, max_length=512, description="Only changes of this object.")
    by: str | None = Field(None, max_length=200, description="Only changes by this key or person.")


class AuditView(BaseModel):
    """One change."""

    number: int
    at: datetime
    by: str
    action: str
    kind: str
    alias: str
    version: int
    changes: list[dict[str, Any]] = Field(description="What differs from the former version, as far as it is kept.")


class AuditPage(BaseModel):
    """A part of the audit, newest first."""

    items: list[AuditView]
    total: int


@dataclass(frozen=True, slots=True)
class Audit:
    """The audit of the caller's own workspace."""

    book: Book

    def routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/audit",
            handler=self.list,
            role=Role.ADMIN,
            tag="audit",
            summary="Who changed what, newest first",
            query=AuditQuery,
            responses={200: AuditPage},
        )

    async def list(self, call: ApiCall[AuditQuery, None]) -> ApiReply:
        wish = call.query
        wanted = AuditFilter(wish.kind, wish.alias, wish.by)
        lines, total = await self.book.audit(call.workspace, wanted, wish.skip, wish.take)
        return ok(AuditPage(items=[_view(line) for line in lines], total=total))


def _view(line: AuditEntry) -> AuditView:
    return AuditView(
        number=line.number,
        at=datetime.fromtimestamp(line.at, UTC),
        by=line.by,
        action=line.action,
        kind=line.key.kind,
        alias=line.key.alias,
        version=line.version,
        changes=orjson.loads(line.changes or b"[]"),
    )
