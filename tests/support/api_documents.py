"""The OpenAPI document of a management API; to make it takes most of the time of a short test, so it is kept."""

from typing import Any

from starlette.applications import Starlette

from gateway.edge.manage.app import get_api_routes
from gateway.edge.manage.openapi import build_openapi

_documents: dict[tuple[Any, ...], dict[str, Any]] = {}


def get_document(manage: Starlette) -> dict[str, Any]:
    """The same for apps whose routes say the same about themselves."""
    routes = get_api_routes(manage)
    said = tuple(
        (one.method, one.path, one.role, one.query, one.body, *one.responses.items(), one.errors, one.conditional)
        for one in routes
    )
    if said not in _documents:
        _documents[said] = build_openapi(routes)
    return _documents[said]
