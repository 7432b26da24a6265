"""`ApiRoute`, a starlette route with all that its role check, its validation and the OpenAPI document need."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
import orjson
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.domain.principal import UNLIMITED, Role
from gateway.edge.access import get_caller
from gateway.edge.limits import RateLimiter
from gateway.edge.manage.calls import ApiCall
from gateway.edge.request import RequestHead, read_body, require_json
from gateway.errors import (
    Conflict,
    FieldError,
    Forbidden,
    GatewayError,
    InsufficientStorage,
    InvalidJson,
    InvalidObject,
    InvalidRequest,
    NotFound,
    UnsupportedMediaType,
    quote,
)
from gateway.strict_yaml import YamlDocument
from gateway.validation import format_pointer, validate

WRITE_ERRORS = (NotFound, Conflict, InvalidObject, InsufficientStorage)

MAX_DEPTH = 64  # as in policy files; orjson cannot write what is nested deeper than 254
TOO_LARGE = 2**63  # an integer from here on, also written as 1e30, could be read but not written again
MAX_PARAMETERS = 50
LITERAL, PARAMETER, SPAN, END = range(4)  # what is tried first, segment by segment

Model = TypeVar("Model", bound=BaseModel)
Handler: TypeAlias = Callable[[ApiCall[Any, Any]], Awaitable[Response]]


class MediaContent(msgspec.Struct, frozen=True):
    """A body that is not JSON: its media types, and for requests its maximum size (None: limits.body_bytes)."""

    types: tuple[str, ...]
    max_bytes: int | None = None


BodyContent: TypeAlias = type[BaseModel] | MediaContent | None


@dataclass(kw_only=True, eq=False)
class ApiRoute(Route):
    """One operation. Every status that it can return is declared: in `responses`, and in `errors` by class."""

    method: str
    path: str  # below /api/v1
    handler: Handler
    role: Role
    tag: str
    summary: str  # one line for the OpenAPI document
    query: type[BaseModel] | None = None
    body: BodyContent = None
    handler_validates: bool = False  # the handler gets any JSON value; `body` only describes it
    responses: Mapping[int, BodyContent]
    errors: tuple[type[GatewayError], ...] = ()  # in addition to those of every route of its form
    conditional: bool = False  # GET: If-None-Match and 304; others: If-Match and 412; both send an ETag

    def __post_init__(self) -> None:
        super().__init__(self.path, self.answer, methods=[self.method])
        self.name = self.operation_id

    @property
    def operation_id(self) -> str:
        words = self.path_format.strip("/").replace("{", "").replace("}", "").replace("/", "-")
        return f"{self.method.lower()}-{words}"

    @property
    def precedence(self) -> tuple[int, ...]:
        """Sorts the more specific path first: `/contexts/global` before `/contexts/{context}`."""
        return *(_rank_segment(segment) for segment in self.path.strip("/").split("/")), END

    async def answer(self, request: Request) -> Response:
        """Check the role, validate query and body, and call the handler."""
        caller = get_caller(request)
        principal = caller.principal
        if not principal.role.covers(self.role):
            raise Forbidden(f"This needs a key with the role {self.role.value}; yours has {principal.role.value}.")
        limiter: RateLimiter | None = request.app.state.limiter
        if limiter is not None and principal.limits is not UNLIMITED:
            await limiter.admit_call(principal)
        path = {name: unquote(value) for name, value in request.path_params.items()}
        query = parse_query(self.query, request.scope["query_string"])
        body = await self._read_body(request, caller.head)
        headers = dict(request.scope["headers"])
        return await self.handler(ApiCall(principal, path, query, body, headers, caller.sign_in))

    async def _read_body(self, request: Request, head: RequestHead) -> Any:
        if self.body is None:
            return None
        max_bytes = request.app.state.limits.body_bytes
        if isinstance(self.body, MediaContent):
            require_media_type(head.content_type, self.body.types)
            if self.body.max_bytes is not None:
                max_bytes = min(max_bytes, self.body.max_bytes)
            return await read_body(head, request.receive, max_bytes)
        require_json(head)
        raw = await read_body(head, request.receive, max_bytes)
        return decode_json(raw) if self.handler_validates else parse_json(self.body, raw)


class RouteGroup(Protocol):
    """A part of the API."""

    def list_routes(self) -> Iterable[ApiRoute]:
        """Its operations, in the order of the OpenAPI document."""
        ...


def parse_query(model: type[Model] | None, raw: bytes) -> Model | None:
    """The query string as the route's model, None for a route without one; unknown and repeated parameters are errors.

    An operation that ignored `?dry_run=1` would do what its caller only wanted to try.
    """
    if not raw and model is None:
        return None
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise InvalidRequest("The query string cannot be decoded.") from error
    given = dict(pairs)
    known = {} if model is None else {field.alias or name: field for name, field in model.model_fields.items()}
    if unknown := [name for name in given if name not in known]:
        wrong = [FieldError(None, describe_parameters(name, known), name) for name in unknown]
        raise InvalidObject("A query parameter is unknown.", wrong)
    if model is None:
        return None
    repeated = sorted({name for name in given if sum(name == other for other, _ in pairs) > 1})
    query, faults = validate(model, given, YamlDocument("query", None, {}), ())
    wrong = [FieldError(None, "is given more than once", name) for name in repeated]
    wrong += [FieldError(None, one.message, str(one.keys[0]) if one.keys else "") for one in faults]
    if query is None or wrong:
        raise InvalidObject("A query parameter is invalid.", wrong)
    return query


def describe_parameters(unknown: str, known: Collection[str]) -> str:
    """That an operation has no such parameter, and which ones it has."""
    others = f"This operation takes {', '.join(known)}." if known else "This operation takes none."
    return f"There is no query parameter {quote(unknown)}. {others}"


def parse_json(model: type[Model], raw: bytes) -> Model:
    """The body as the route's model; raises InvalidJson or InvalidObject."""
    body, faults = validate(model, decode_json(raw), YamlDocument("body", None, {}), ())
    if body is None:
        wrong = [FieldError(format_pointer(one.keys), one.message) for one in faults]
        raise InvalidObject("The request body is invalid.", wrong)
    return body


def decode_json(raw: bytes) -> Any:
    """Any JSON value of bounded depth."""
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidJson(f"The request body is not valid JSON: {error}.") from error
    level = [data]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(one, int | float) and abs(one) >= TOO_LARGE for one in level):
            raise InvalidJson("The request body contains a number that is too large.")
        level = [inner for one in level if isinstance(one, dict | list) for inner in _list_children(one)]
        if not level:
            return data
    raise InvalidJson(f"The request body is nested deeper than {MAX_DEPTH} levels.")


def require_media_type(content_type: bytes, types: Sequence[str]) -> str:
    """The media type of a body that need not be JSON; raises UnsupportedMediaType unless it is one of `types`."""
    given = content_type.split(b";")[0].strip().lower().decode("latin-1")
    if given not in types:
        raise UnsupportedMediaType(f"Send the body with one of these Content-Types: {', '.join(types)}.")
    return given


def _rank_segment(segment: str) -> int:
    if not segment.startswith("{"):
        return LITERAL
    return SPAN if segment.endswith(":path}") else PARAMETER


def _list_children(value: dict[str, Any] | list[Any]) -> Sequence[Any]:
    return list(value.values()) if isinstance(value, dict) else value
