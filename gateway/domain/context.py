"""A context: a named, reusable bundle of resources."""

import msgspec

from gateway.domain.resource import Resource


class Context(msgspec.Struct, frozen=True):
    """A reusable bundle of resources; its alias never changes."""

    alias: str
    name: str
    default: bool  # used when no level yields a context
    mandatory: bool  # applies to every chat request of the workspace
    resources: tuple[Resource, ...]
    valid_from: float | None = None  # seconds since 1970; None: ever since
    valid_until: float | None = None  # from this moment on it is gone; None: for good
