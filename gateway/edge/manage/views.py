"""How objects look to readers, and what all of them have in common."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from gateway.control.base import Object
from gateway.control.kinds import full_form
from gateway.edge.manage.routes import Paging

T = TypeVar("T")
ALIAS = Field(pattern="^[a-z0-9][a-z0-9-]{0,63}$", description="Never changes.")


class Told(BaseModel):
    """What is told of every object besides what it says."""

    id: str
    alias: str
    source: Literal["store", "file"] = Field(description="Objects of files can only be read.")
    file: str | None = Field(description="File and line, for an object that stands in one.")
    version: int = Field(description="0 for an object of a file.")
    created_at: datetime | None
    updated_at: datetime | None
    updated_by: str | None
    draft: bool = Field(description="Whether there is a draft of it, or it is one.")


class Echo(BaseModel):
    """What readers are told may be sent back; it is not looked at."""

    id: Any = None
    source: Any = None
    file: Any = None
    version: Any = None
    created_at: Any = None
    updated_at: Any = None
    updated_by: Any = None
    draft: Any = None


class Page(BaseModel, Generic[T]):
    """A part of a list, and how long the whole is."""

    items: list[T]
    total: int


def view(one: Object) -> dict[str, Any]:
    """An object with everything that holds for it."""
    record = one.record
    return {
        "id": one.id,
        "alias": one.alias,
        **full_form(one.kind, one.alias, one.data),
        "source": "file" if record is None else "store",
        "file": one.file,
        "version": one.version,
        "created_at": None if one.created is None else rfc3339(one.created),
        "updated_at": None if record is None else rfc3339(record.at),
        "updated_by": None if record is None else record.by,
        "draft": one.draft,
    }


def page(found: Sequence[Object], wanted: Paging) -> dict[str, Any]:
    """The part of a list that is wanted."""
    part = found[wanted.skip : wanted.skip + wanted.take]
    return {"items": [view(one) for one in part], "total": len(found)}


def rfc3339(seconds: float) -> str:
    """A moment in UTC to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
