"""What a handler of the management API receives and what it returns."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
import orjson
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.domain.principal import Principal
from gateway.edge.sign_ins import SignIn
from gateway.errors import PreconditionFailed

PREFIX = "/api/v1"
JSON = "application/json"
COMMON_HEADERS: Mapping[str, str] = MappingProxyType({"cache-control": "no-store", "x-content-type-options": "nosniff"})
_ETAG = re.compile(rb'\s*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"\s*')

Q = TypeVar("Q")  # the route's query model, None without one
B = TypeVar("B")  # the route's body model, bytes for a MediaContent body, None without one

JsonBody: TypeAlias = BaseModel | Mapping[str, Any]


class ApiCall(msgspec.Struct, Generic[Q, B], frozen=True):
    """One request to a route: the caller's role is sufficient, query and body are validated."""

    principal: Principal
    path: Mapping[str, str]  # decoded path parameters
    query: Q
    body: B
    headers: Mapping[bytes, bytes]  # lower-case names
    sign_in: SignIn | None = None  # what a browser was admitted with instead of a key

    @property
    def workspace(self) -> str:
        return self.principal.workspace

    @property
    def content_type(self) -> bytes:
        return self.headers.get(b"content-type", b"")

    @property
    def if_match(self) -> frozenset[str] | None:
        """The tags of which the object must have one ("*": any); None: no condition."""
        return parse_etags(self.headers.get(b"if-match"), weak=False)

    @property
    def if_none_match(self) -> frozenset[str]:
        """The tags of the versions that the caller has."""
        return parse_etags(self.headers.get(b"if-none-match"), weak=True) or frozenset()

    @property
    def only_new(self) -> bool:
        """Whether there must not be such an object yet (`If-None-Match: *`)."""
        return "*" in self.if_none_match


class ApiReply(Response):
    """A reply: a model or plain data as JSON, or bytes with their media type."""

    def __init__(
        self,
        content: JsonBody | bytes | None = None,
        status_code: int = 200,
        *,
        etag: str | None = None,
        headers: Mapping[str, str] | None = None,
        media_type: str = JSON,
    ) -> None:
        named = {**COMMON_HEADERS, **(headers or {})}
        if etag is not None:
            named["etag"] = f'"{etag}"'
        if content is not None:
            named["content-type"] = media_type  # not as `media_type`: starlette would append a charset to text types
        super().__init__(content, status_code, named)

    def render(self, content: JsonBody | bytes | None) -> bytes:
        if content is None or isinstance(content, bytes):
            return content or b""
        if isinstance(content, BaseModel):
            return content.model_dump_json(by_alias=True).encode()
        return orjson.dumps(content, default=_dump_model)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            self.body = b""  # Content-Length stays that of the GET
        await super().__call__(scope, receive, send)


def reply_if_changed(call: ApiCall[Any, Any], content: JsonBody, etag: str) -> ApiReply:
    """200, or 304 when the caller has this version already."""
    if call.if_none_match & {etag, "*"}:
        return ApiReply(status_code=304, etag=etag)
    return ApiReply(content, etag=etag)


def allow_replacing(call: ApiCall[Any, Any], name: str) -> None:
    """Raise PreconditionFailed if the caller wants nothing replaced; `name` is of an object that exists."""
    if call.only_new:
        raise PreconditionFailed(f"{name} exists already.")


def reply_created(location: str, content: JsonBody, etag: str | None = None) -> ApiReply:
    """201 with the path of the new object, below `/api/v1`."""
    return ApiReply(content, 201, etag=etag, headers={"location": PREFIX + location})


def reply_empty() -> ApiReply:
    """204."""
    return ApiReply(status_code=204)


def parse_etags(header: bytes | None, *, weak: bool) -> frozenset[str] | None:
    """The entity tags of a condition without their quotes, `*` as such (RFC 9110 §8.8.3, §13.1); None: no header.

    Weak tags count only where the comparison may be weak. A tag that cannot be parsed matches nothing: a misspelt
    condition must not count as none.
    """
    if header is None:
        return None
    if header.strip() == b"*":
        return frozenset({"*"})
    tags = (_ETAG.fullmatch(part) for part in header.split(b","))
    return frozenset(tag[2].decode("latin-1") for tag in tags if tag is not None and (weak or not tag[1]))


def _dump_model(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
