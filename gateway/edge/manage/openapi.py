"""The OpenAPI 3.1 document, made from the route table and the models that it names."""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from gateway.edge.manage.problems import MEDIA, Problem
from gateway.edge.manage.routes import ApiRoute, Content, Media
from gateway.errors import (
    BodyTooLarge,
    Forbidden,
    GatewayError,
    InvalidApiKey,
    InvalidJson,
    InvalidObject,
    InvalidRequest,
    PreconditionFailed,
    StoreUnavailable,
    UnsupportedMediaType,
)

VERSION = "1"  # of the API, as in its path
JSON = "application/json"
REFERENCE = "#/components/schemas/{model}"
PARAMETER = {"type": "string", "minLength": 1, "maxLength": 512}
TAG = {"type": "string"}

Moded = tuple[type[BaseModel], JsonSchemaMode]
Schemas = Mapping[Any, Mapping[str, Any]]  # by Moded

# What any request can meet before its handler is reached, and a store that fails behind it.
EVERYWHERE: tuple[type[GatewayError], ...] = (InvalidRequest, InvalidApiKey, Forbidden, GatewayError, StoreUnavailable)
WITH_BODY: tuple[type[GatewayError], ...] = (InvalidJson, BodyTooLarge, UnsupportedMediaType, InvalidObject)


def document(routes: Sequence[ApiRoute]) -> dict[str, Any]:
    """The whole document."""
    schemas, definitions = models_json_schema(sorted_models(routes), ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.pattern.template, {})[route.method.lower()] = operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Context Gateway management API",
            "version": VERSION,
            "description": "Roles: chat < editor < admin. `x-role` says which one an operation needs.",
        },
        "servers": [{"url": "/api/v1"}],
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


def statuses(route: ApiRoute) -> dict[int, type[GatewayError]]:
    """The errors that a route can answer with, one class per status."""
    classes = [*route.errors, *EVERYWHERE]
    if route.body is not None:
        classes += WITH_BODY
    if route.query is not None:
        classes.append(InvalidObject)
    if route.conditional and route.method != "GET":
        classes.append(PreconditionFailed)
    return {kind.status: kind for kind in sorted(classes, key=lambda kind: kind.status)}


def sorted_models(routes: Iterable[ApiRoute]) -> list[Moded]:
    """Every model that the document refers to, once, in an order that does not change."""
    wanted: dict[Moded, None] = {(Problem, "serialization"): None}
    for route in routes:
        if isinstance(route.body, type):
            wanted[(route.body, "validation")] = None
        for content in route.responses.values():
            if isinstance(content, type):
                wanted[(content, "serialization")] = None
    return list(wanted)


def operation(route: ApiRoute, schemas: Schemas) -> dict[str, Any]:
    """One operation of a path."""
    made: dict[str, Any] = {
        "operationId": route.operation,
        "tags": [route.tag],
        "summary": route.summary,
        "x-role": route.role.value,
        "parameters": [*_path_parameters(route), *_query_parameters(route), *_conditions(route)],
        "responses": {
            **{str(status): _answer(status, content, route, schemas) for status, content in _answers(route).items()},
            **{str(status): _problem(status, schemas) for status in statuses(route)},
        },
    }
    if route.body is not None:
        made["requestBody"] = {"required": True, "content": _content(route.body, "validation", schemas)}
    return made


def _answers(route: ApiRoute) -> dict[int, Content]:
    return {**route.responses, **({304: None} if route.conditional and route.method == "GET" else {})}


def _path_parameters(route: ApiRoute) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": PARAMETER} for name in route.pattern.parameters]


def _query_parameters(route: ApiRoute) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = route.query.model_json_schema(mode="validation")
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _untitled(inner)}
        for name, inner in schema.get("properties", {}).items()
    ]


def _conditions(route: ApiRoute) -> list[dict[str, Any]]:
    if not route.conditional:
        return []
    name = "If-None-Match" if route.method == "GET" else "If-Match"
    return [{"name": name, "in": "header", "required": False, "schema": TAG}]


def _answer(status: int, content: Content, route: ApiRoute, schemas: Schemas) -> dict[str, Any]:
    made: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    headers = {}
    if route.conditional and status != 204:
        headers["ETag"] = {"schema": {"type": "string"}}
    if status == 201:
        headers["Location"] = {"schema": {"type": "string"}}
    if headers:
        made["headers"] = headers
    if content is not None:
        made["content"] = _content(content, "serialization", schemas)
    return made


def _problem(status: int, schemas: Schemas) -> dict[str, Any]:
    schema = schemas[(Problem, "serialization")]
    return {"description": HTTPStatus(status).phrase, "content": {MEDIA: {"schema": schema}}}


def _content(content: Content, mode: Literal["validation", "serialization"], schemas: Schemas) -> dict[str, Any]:
    if isinstance(content, Media):
        return {media: {} for media in content.types}
    return {JSON: {"schema": schemas[(content, mode)]}}


def _untitled(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name != "title"}
