"""How policy objects look in replies, and what their models have in common."""

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, Field

from gateway.control.object_bodies import format_in_full
from gateway.control.objects import PolicyObject

ALIAS = Field(pattern="^[a-z0-9][a-z0-9-]{0,63}$", description="Never changes.")


class ObjectMetadata(BaseModel):
    """What a reply says about every object in addition to its own fields."""

    id: str
    alias: str
    source: Literal["store", "file"] = Field(description="Objects from files are read-only.")
    file: str | None = Field(description="File and line of an object from a policy file.")
    shadows: str | None = Field(None, description="File and line of the entry that it was adopted from.")
    version: int = Field(description="0 for an object from a file.")
    created_at: datetime | None
    updated_at: datetime | None
    updated_by: str | None
    draft: bool = Field(description="Whether it has a draft, or is one.")


class IgnoredMetadata(BaseModel):
    """The same fields in a request: they may be sent back and are ignored."""

    id: Any = None
    source: Any = None
    file: Any = None
    shadows: Any = None
    version: Any = None
    created_at: Any = None
    updated_at: Any = None
    updated_by: Any = None
    draft: Any = None


class ObjectModels(msgspec.Struct, frozen=True):
    """The models of a kind of object: in replies, in lists, in a body that replaces one or creates one."""

    view: type[BaseModel]
    page: type[BaseModel]
    body: type[BaseModel]
    new: type[BaseModel]


def render_object(one: PolicyObject) -> dict[str, Any]:
    """An object with all its fields, defaults included."""
    record = one.record
    return {
        "id": one.id,
        "alias": one.alias,
        **format_in_full(one.kind, one.alias, one.data),
        "source": "file" if record is None else "store",
        "file": one.file,
        "shadows": one.shadows,
        "version": one.version,
        "created_at": None if one.created is None else format_timestamp(one.created),
        "updated_at": None if record is None else format_timestamp(record.at),
        "updated_by": None if record is None else record.by,
        "draft": one.draft,
    }


BRIEF_FIELDS = ("id", "ref", "name", "type", "mode")
BRIEF_RESOURCES = 4  # of a context in a list


def render_briefly(one: PolicyObject) -> dict[str, Any]:
    """A context for a list: how many resources it has, and the first of them without what they say."""
    shown = render_object(one)
    every = shown["resources"]
    first = [{name: each[name] for name in BRIEF_FIELDS if name in each} for each in every[:BRIEF_RESOURCES]]
    return shown | {"resources": [one | {"data": {}} for one in first], "resource_count": len(every)}


def to_datetime(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def format_timestamp(seconds: float) -> str:
    """A time in UTC to the millisecond (RFC 3339)."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
