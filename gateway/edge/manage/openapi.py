"""The OpenAPI 3.1 document, built from the routes and the models that they name."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from gateway.domain.principal import Role
from gateway.domain.session import LONGEST_ID
from gateway.edge.manage.calls import JSON, PREFIX, ApiCall, ApiReply
from gateway.edge.manage.problems import PROBLEM_JSON, Problem
from gateway.edge.manage.routes import ApiRoute, BodyContent, MediaContent
from gateway.errors import (
    BodyTooLarge,
    Forbidden,
    GatewayError,
    InvalidApiKey,
    InvalidJson,
    InvalidObject,
    InvalidRequest,
    PreconditionFailed,
    RateLimited,
    StoreUnavailable,
    UnsupportedMediaType,
)

VERSION = "1"  # of the API, as in its path
REFERENCE = "#/components/schemas/{model}"
PATH_PARAMETER = {"type": "string", "minLength": 1, "maxLength": 512}
LONGEST_NAMES = {"session": {"maxLength": LONGEST_ID}}  # of path parameters; others are only looked up
ETAG = {"type": "string"}

ModelAndMode = tuple[type[BaseModel], JsonSchemaMode]
Schemas = Mapping[Any, Mapping[str, Any]]  # by ModelAndMode

# What any request can run into: before its handler is reached, and when the store fails.
COMMON_ERRORS: tuple[type[GatewayError], ...] = (
    InvalidRequest,
    InvalidApiKey,
    Forbidden,
    InvalidObject,  # a query parameter that the operation does not have
    RateLimited,
    GatewayError,
    StoreUnavailable,
)
BODY_ERRORS: tuple[type[GatewayError], ...] = (InvalidJson, BodyTooLarge, UnsupportedMediaType)


class OpenApiDocument(BaseModel):
    """An OpenAPI document."""

    model_config = {"extra": "allow"}

    openapi: str


def make_openapi_route(routes: Sequence[ApiRoute]) -> ApiRoute:
    """`GET /openapi.json`. It is built when it is first asked for; until then `routes` may grow."""

    @cache
    def load_document() -> dict[str, Any]:
        return build_openapi(routes)

    async def get_document(call: ApiCall[None, None]) -> ApiReply:
        return ApiReply(load_document())

    return ApiRoute(
        method="GET",
        path="/openapi.json",
        handler=get_document,
        role=Role.CHAT,
        tag="openapi",
        summary="This document",
        responses={200: OpenApiDocument},
    )


def build_openapi(routes: Sequence[ApiRoute]) -> dict[str, Any]:
    """The whole document."""
    schemas, definitions = models_json_schema(list_models(routes), ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path_format, {})[route.method.lower()] = build_operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Context Gateway management API",
            "version": VERSION,
            "description": "Roles: chat < editor < admin. `x-role` is the role that an operation requires.",
        },
        "servers": [{"url": PREFIX}],
        "security": [{"bearer": []}, {"key": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": definitions.get("$defs", {}),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-context-key"},
            },
        },
    }


def list_error_statuses(route: ApiRoute) -> list[int]:
    """The statuses of the errors that a route can return."""
    classes = [*route.errors, *COMMON_ERRORS]
    if route.body is not None:
        classes += BODY_ERRORS
    if route.conditional and route.method != "GET":
        classes.append(PreconditionFailed)
    return sorted({error.status for error in classes})


def list_models(routes: Iterable[ApiRoute]) -> list[ModelAndMode]:
    """Every model that the document refers to, once, in the order of the routes."""
    wanted: dict[ModelAndMode, None] = {(Problem, "serialization"): None}
    for route in routes:
        if isinstance(route.body, type):
            wanted[(route.body, "validation")] = None
        for content in route.responses.values():
            if isinstance(content, type):
                wanted[(content, "serialization")] = None
    return list(wanted)


def build_operation(route: ApiRoute, schemas: Schemas) -> dict[str, Any]:
    """One operation of a path."""
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "tags": [route.tag],
        "summary": route.summary,
        "x-role": route.role.value,
        "parameters": [*_build_path_parameters(route), *_build_query_parameters(route), *_build_conditions(route)],
        "responses": {
            **{str(code): _build_response(code, content, route, schemas) for code, content in _list_responses(route)},
            **{str(code): _build_problem(code, schemas) for code in list_error_statuses(route)},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _build_content(route.body, "validation", schemas)}
    return operation


def _list_responses(route: ApiRoute) -> list[tuple[int, BodyContent]]:
    return [*route.responses.items(), *([(304, None)] if route.conditional and route.method == "GET" else [])]


def _build_path_parameters(route: ApiRoute) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": PATH_PARAMETER | LONGEST_NAMES.get(name, {})}
        for name in route.param_convertors
    ]


def _build_query_parameters(route: ApiRoute) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = route.query.model_json_schema(mode="validation")
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _drop_title(inner)}
        for name, inner in schema.get("properties", {}).items()
    ]


def _build_conditions(route: ApiRoute) -> list[dict[str, Any]]:
    if not route.conditional:
        return []
    names = ["If-None-Match"] if route.method == "GET" else ["If-Match"]
    if route.method == "PUT" and 201 in route.responses:
        names.append("If-None-Match")
    return [{"name": name, "in": "header", "required": False, "schema": ETAG} for name in names]


def _build_response(status: int, content: BodyContent, route: ApiRoute, schemas: Schemas) -> dict[str, Any]:
    response: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    headers = {}
    if route.conditional and status != 204:
        headers["ETag"] = {"schema": {"type": "string"}}
    if status == 201:
        headers["Location"] = {"schema": {"type": "string"}}
    if headers:
        response["headers"] = headers
    if content is not None:
        response["content"] = _build_content(content, "serialization", schemas)
    return response


def _build_problem(status: int, schemas: Schemas) -> dict[str, Any]:
    schema = schemas[(Problem, "serialization")]
    return {"description": HTTPStatus(status).phrase, "content": {PROBLEM_JSON: {"schema": schema}}}


def _build_content(
    content: BodyContent, mode: Literal["validation", "serialization"], schemas: Schemas
) -> dict[str, Any]:
    if isinstance(content, MediaContent):
        return {media: {} for media in content.types}
    return {JSON: {"schema": schemas[(content, mode)]}}


def _drop_title(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "title"}
