"""Errors of the management API as RFC 9457 problems."""

from http import HTTPStatus
from typing import Any

import orjson
from pydantic import BaseModel, Field
from starlette.types import Send

from gateway.edge.errors import error_headers
from gateway.edge.respond import Headers, send_body
from gateway.errors import GatewayError, InsufficientStorage, InvalidObject, StoreError, StoreFull, StoreUnavailable

MEDIA = "application/problem+json"
TYPES = "urn:context-gateway:problem:"


class ProblemFault(BaseModel):
    """One thing that is wrong with the request."""

    pointer: str | None = Field(None, description="JSON pointer into the body.")
    parameter: str | None = Field(None, description="Name of a query parameter.")
    message: str


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable and documented.")
    errors: list[ProblemFault] = []


def problem(error: GatewayError) -> bytes:
    """The problem as JSON; a fault has either a pointer or a parameter."""
    body: dict[str, Any] = {
        "type": TYPES + error.code,
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": _utf8(error.message),
        "code": error.code,
    }
    if isinstance(error, InvalidObject) and error.faults:
        body["errors"] = [
            {place: _utf8(named), "message": _utf8(one.message)}
            for one in error.faults
            for place, named in (("pointer", one.pointer), ("parameter", one.parameter))
            if named is not None
        ]
    return orjson.dumps(body)


async def send_problem(send: Send, error: GatewayError, headers: Headers = ()) -> None:
    """Answer with a problem; `headers` come in addition to the error's own."""
    media = (b"content-type", MEDIA.encode())
    await send_body(send, error.status, problem(error), (media, *error_headers(error), *headers))


def of_store(error: StoreError) -> GatewayError:
    """What a caller is told when the store fails under a request."""
    if isinstance(error, StoreFull):
        return InsufficientStorage("The store is full. What it holds can still be read.")
    return StoreUnavailable("The store cannot be reached at the moment. Try again.")


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
