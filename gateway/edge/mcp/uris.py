"""URIs of resources: `context://CONTEXT/RESOURCE`, with `?query=` and `?offset=` as `get_context_resource` has them."""

from urllib.parse import parse_qsl, quote, unquote

import msgspec

SCHEME = "context://"
TEMPLATE = "context://{context}/{resource}{?query,offset}"
LONGEST = 8_192  # characters of a URI


class ResourceAddress(msgspec.Struct, frozen=True):
    """What a URI asks for."""

    id: str
    query: str | None = None
    offset: int | None = None

    @property
    def is_whole(self) -> bool:
        return self.query is None and self.offset is None


def make_uri(identity: str) -> str:
    """The URI of a resource."""
    return SCHEME + quote(identity)


def parse_uri(uri: str) -> ResourceAddress | None:
    """What a URI asks for; None if it is none of ours."""
    if not uri.startswith(SCHEME) or len(uri) > LONGEST:
        return None
    identity, _, said = uri.removeprefix(SCHEME).partition("?")
    try:
        given = dict(parse_qsl(said, strict_parsing=bool(said), max_num_fields=2))
    except ValueError:
        return None
    offset = given.pop("offset", None)
    query = given.pop("query", None)
    if given or (offset is not None and not (offset.isascii() and offset.isdigit() and len(offset) <= 9)):
        return None
    return ResourceAddress(unquote(identity), query, None if offset is None else int(offset))
