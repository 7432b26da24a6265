"""A caller of the management API without a socket."""

from dataclasses import dataclass
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from starlette.applications import Starlette
from starlette.routing import Match, Route

from gateway.domain.principal import ANONYMOUS, Principal
from gateway.edge.access import Caller
from gateway.edge.manage.app import escape_path
from gateway.edge.request import read_head


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.raw)


async def ask(
    manage: Starlette, method: str, target: str, body: Any = None, principal: Principal = ANONYMOUS, **headers: str
) -> Answer:
    """One request. `body` is sent as JSON unless it is bytes; header names are written with `_` for `-`."""
    path, _, query = target.partition("?")
    raw = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        named.setdefault("content-type", "application/json")
    lines = [(name.encode(), value.encode()) for name, value in named.items()]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": b"/api/v1" + path.encode(),
        "query_string": query.encode(),
        "headers": lines,
        "state": {"caller": Caller(read_head(lines), principal, None)},
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": raw, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await manage(scope, receive, send)
    start, *rest = sent
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(part["body"] for part in rest))


def find_template(manage: Starlette, method: str, target: str) -> str:
    """The path that answers a target, as the OpenAPI document writes it."""
    path = escape_path(b"/api/v1" + target.partition("?")[0].encode())
    scope = {"type": "http", "method": method, "path": path}
    routes = (route for route in manage.routes if isinstance(route, Route))
    return next(route.path_format for route in routes if route.matches(scope)[0] is not Match.NONE)


def check_conforms(document: dict[str, Any], method: str, template: str, answer: Answer) -> None:
    """Raise unless the OpenAPI document promises this answer to this operation."""
    operation = document["paths"][template][method.lower()]
    assert str(answer.status) in operation["responses"], f"{method} {template} does not declare {answer.status}"
    promised = operation["responses"][str(answer.status)].get("content", {})
    if not promised:
        assert answer.raw == b""
        return
    schema = promised[answer.headers["content-type"]]["schema"]
    resolved = {**schema, "components": document["components"]}
    Draft202012Validator(resolved, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(answer.json)
