"""What a handler of the management API gets and what it gives back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from gateway.domain.principal import Principal
from gateway.edge.manage.etags import named_tags, quoted

Q = TypeVar("Q")  # the route's query model, None without one
B = TypeVar("B")  # the route's body model, bytes for a Media body, None without one

Header = tuple[bytes, bytes]
Shown: TypeAlias = BaseModel | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[Q, B]):
    """One request that fits its route: the caller's role is sufficient, query and body are validated."""

    principal: Principal
    path: Mapping[str, str]  # parameters of the path, decoded
    query: Q
    body: B
    headers: Mapping[bytes, bytes]  # lower-case names

    @property
    def workspace(self) -> str:
        return self.principal.workspace

    @property
    def if_match(self) -> frozenset[str] | None:
        """The tags of which the object must have one ("*": any); None: whatever it has."""
        return named_tags(self.headers.get(b"if-match"), weak=False)

    @property
    def if_none_match(self) -> frozenset[str]:
        """The tags that the caller has a copy of."""
        return named_tags(self.headers.get(b"if-none-match"), weak=True) or frozenset()


@dataclass(frozen=True, slots=True)
class ApiReply:
    """What goes back. `body` is a model, plain JSON data, or bytes together with their `media` type."""

    status: int
    body: Shown | bytes | None = None
    headers: tuple[Header, ...] = ()
    media: str = "application/json"


def ok(body: Shown, etag: str | None = None) -> ApiReply:
    """200 with a body, and its tag if it has one."""
    return ApiReply(200, body, _tagged(etag))


def found(call: ApiCall[Any, Any], body: Shown, etag: str) -> ApiReply:
    """200, or 304 when the caller has this version already."""
    if call.if_none_match & {etag, "*"}:
        return ApiReply(304, headers=_tagged(etag))
    return ok(body, etag)


def created(location: str, body: Shown, etag: str | None = None) -> ApiReply:
    """201 with the path of what was made, below `/api/v1`."""
    return ApiReply(201, body, (*_tagged(etag), (b"location", f"/api/v1{location}".encode())))


def no_content() -> ApiReply:
    """204: done, and there is nothing to say about it."""
    return ApiReply(204)


def _tagged(etag: str | None) -> tuple[Header, ...]:
    return () if etag is None else ((b"etag", quoted(etag)),)
