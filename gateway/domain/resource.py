"""A resource: one typed entry of a context."""

from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import astuple


class Mode(StrEnum):
    """When a resource's text reaches the model."""

    ALWAYS = "always"
    SEMANTIC = "semantic"
    ON_DEMAND = "on_demand"
    MANUAL = "manual"


class ResourceKind(StrEnum):
    """What a resource is to the model: something to obey, to know or to call."""

    RULE = "rule"
    REFERENCE = "reference"
    TOOL = "tool"


class Resource(msgspec.Struct, frozen=True):
    """One typed entry of a context, validated and rendered once, when the snapshot is built."""

    id: str  # "context-alias/resource-id"
    context: str
    type: str
    name: str
    mode: Mode
    kind: ResourceKind
    description: str
    languages: tuple[str, ...]
    conflict_key: str | None  # resources with the same (type, conflict_key) exclude each other
    priority: int  # a lower number comes first
    required: bool  # never degraded by the budget
    mandatory: bool  # cannot be switched off by the caller
    readers: tuple[str, ...]  # empty: everyone
    examples: tuple[str, ...]
    truncate: str  # "extractive", "keep_start", "keep_end", "summarize" or "none"
    data: Any  # the validated data model of its type
    text: str | None  # rendered; None while its material (a link) has never been fetched
    valid_from: float | None = None  # seconds since 1970; None: ever since
    valid_until: float | None = None  # from this moment on it is gone; None: for good
    version: int = 1  # of its context; 1 in policy files. Resources that differ in nothing else are equal.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Resource) and astuple(self)[:-1] == astuple(other)[:-1]

    def __hash__(self) -> int:
        return hash(astuple(self)[:-1])
