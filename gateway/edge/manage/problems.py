"""Errors of the management API as RFC 9457 problems; `handle_error` is the error boundary of the whole surface."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Send

from gateway.edge.errors import build_error_headers, log_internal_error
from gateway.edge.manage.calls import ApiReply
from gateway.edge.request import ClientDisconnected
from gateway.edge.response import Headers, send_body
from gateway.errors import (
    Conflict,
    GatewayError,
    InsufficientStorage,
    InvalidObject,
    MethodNotAllowed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    UnknownEndpoint,
)

PROBLEM_JSON = "application/problem+json"
TYPE_PREFIX = "urn:context-gateway:problem:"


class ProblemFault(BaseModel):
    """One thing that is wrong with the request."""

    model_config = ConfigDict(defer_build=True)  # only documentation is made of it

    pointer: str | None = Field(None, description="JSON pointer into the body.")
    parameter: str | None = Field(None, description="Name of a query parameter.")
    message: str


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(defer_build=True)  # only documentation is made of it

    type: str
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable and documented.")
    errors: list[ProblemFault] = []


class ProblemReply(ApiReply):
    """An error as a problem."""

    def __init__(self, error: GatewayError, headers: Mapping[str, str] | None = None) -> None:
        own = {name.decode(): value.decode() for name, value in build_error_headers(error)}
        named = {**own, **(headers or {})}
        super().__init__(render_problem(error), error.status, headers=named, media_type=PROBLEM_JSON)


def render_problem(error: GatewayError) -> bytes:
    """The problem as JSON; each fault has either a pointer or a parameter."""
    body: dict[str, Any] = {
        "type": TYPE_PREFIX + error.code,
        "title": HTTPStatus(error.status).phrase,
        "status": error.status,
        "detail": _replace_surrogates(error.message),
        "code": error.code,
    }
    if isinstance(error, InvalidObject | Conflict) and error.faults:
        body["errors"] = [
            {place: _replace_surrogates(named), "message": _replace_surrogates(one.message)}
            for one in error.faults
            for place, named in (("pointer", one.pointer), ("parameter", one.parameter))
            if named is not None
        ]
    return orjson.dumps(body)


async def send_problem(send: Send, error: GatewayError, headers: Headers = ()) -> None:
    """Send an error that happened before the management API was reached."""
    media = (b"content-type", PROBLEM_JSON.encode())
    await send_body(send, error.status, render_problem(error), (media, *build_error_headers(error), *headers))


async def handle_error(request: Request, error: Exception) -> ApiReply:
    """Turn any exception into a problem; a client that has left gets nothing."""
    if isinstance(error, ClientDisconnected):
        raise error
    if isinstance(error, HTTPException):
        return _build_routing_problem(error)
    if isinstance(error, StoreError):
        return ProblemReply(convert_store_error(error))
    return ProblemReply(error if isinstance(error, GatewayError) else log_internal_error(error))


def convert_store_error(error: StoreError) -> GatewayError:
    """What a caller is told when the store fails."""
    if isinstance(error, StoreFull):
        return InsufficientStorage("The store is full. Existing data can still be read.")
    return StoreUnavailable("The store is not reachable at the moment. Try again.")


def _build_routing_problem(error: HTTPException) -> ProblemReply:
    """The 404 and 405 of starlette's router."""
    allow = (error.headers or {}).get("allow")
    if allow is not None:
        return ProblemReply(MethodNotAllowed(f"This path accepts {allow}."), {"allow": allow})
    return ProblemReply(
        UnknownEndpoint("The management API has no such path. GET /api/v1/openapi.json lists all paths.")
    )


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
