"""A page as it came from its server, and why one did not come."""

import msgspec

from gateway.links.guard import LinkError


class FetchError(LinkError):
    """A server that could not be reached, or whose reply cannot be used."""


class FetchedPage(msgspec.Struct, frozen=True):
    """The reply of a server; `text` is None for 304, when the present copy is still good."""

    status: int
    text: str | None
    content_type: str = ""
    etag: str | None = None
    last_modified: str | None = None
