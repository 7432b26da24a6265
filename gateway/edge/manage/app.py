"""The management API as one app: finds the route, checks the role, reads query and body, renders the reply."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from gateway.domain.principal import Principal, Role
from gateway.edge.errors import internal
from gateway.edge.manage.bodies import decode_json, parse_body, parse_query, require_media
from gateway.edge.manage.calls import ApiCall, ApiReply, ok
from gateway.edge.manage.openapi import document
from gateway.edge.manage.patterns import segments
from gateway.edge.manage.problems import of_store, send_problem
from gateway.edge.manage.routes import ApiRoute, Media, RouteGroup
from gateway.edge.requests import ClientGone, headers_of, read_body, require_json
from gateway.edge.respond import Headers, send_body
from gateway.errors import Forbidden, GatewayError, MethodNotAllowed, StoreError, UnknownEndpoint
from gateway.settings import LimitSettings

PREFIX = b"/api/v1"
NOT_KEPT: Headers = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Manage:
    """Everything below `/api/v1`, for callers who have been authenticated."""

    def __init__(self, nouns: Iterable[RouteGroup], limits: LimitSettings) -> None:
        self._limits = limits
        self.routes: tuple[ApiRoute, ...] = (*(route for noun in nouns for route in noun.routes()), self._description())
        self._by_rank = sorted(self.routes, key=lambda route: route.pattern.rank)

    async def serve(self, scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        """Answer one request; whatever goes wrong becomes a problem."""
        headers: Headers = NOT_KEPT
        try:
            found, path = self._find(scope)
            route = found.get("GET" if scope["method"] == "HEAD" else scope["method"])
            if route is None:
                allow = (b"allow", ", ".join(_allowed(found)).encode())
                if scope["method"] == "OPTIONS":
                    return await send_body(send, 204, b"", (*headers, allow))
                headers = (*headers, allow)
                raise MethodNotAllowed(f"This path takes {', '.join(_allowed(found))}.")
            reply = await self._answer(route, path, scope, receive, principal)
        except ClientGone:
            raise
        except StoreError as error:
            return await send_problem(send, of_store(error), headers)
        except GatewayError as error:
            return await send_problem(send, error, headers)
        except Exception as error:
            return await send_problem(send, internal(error), headers)
        await _send(send, reply, headers, scope["method"] == "HEAD")

    def _find(self, scope: Scope) -> tuple[dict[str, ApiRoute], Mapping[str, str]]:
        """The routes of the most specific pattern that fits, by method."""
        path = segments(scope["raw_path"], PREFIX)
        for route in self._by_rank:
            values = route.pattern.match(path)
            if values is not None:
                same = (other for other in self._by_rank if other.pattern == route.pattern)
                return {other.method: other for other in same}, values
        raise UnknownEndpoint("The management API has no such path. GET /api/v1/openapi.json lists all.")

    async def _answer(
        self, route: ApiRoute, path: Mapping[str, str], scope: Scope, receive: Receive, principal: Principal
    ) -> ApiReply:
        if not principal.role.covers(route.role):
            raise Forbidden(f"This needs a key with the role {route.role.value}; yours has {principal.role.value}.")
        query = None if route.query is None else parse_query(route.query, scope["query_string"])
        body = await self._body(route, scope, receive)
        return await route.handler(ApiCall(principal, path, query, body, headers_of(scope)))

    async def _body(self, route: ApiRoute, scope: Scope, receive: Receive) -> Any:
        if route.body is None:
            return None
        if not isinstance(route.body, Media):
            require_json(headers_of(scope))
            raw = await read_body(scope, receive, self._limits)
            return decode_json(raw) if route.plain else parse_body(route.body, raw)
        require_media(headers_of(scope), route.body.types)
        limits = self._limits
        if route.body.max_bytes is not None:
            limits = limits.model_copy(update={"body_bytes": min(limits.body_bytes, route.body.max_bytes)})
        return await read_body(scope, receive, limits)

    def _description(self) -> ApiRoute:
        return ApiRoute(
            method="GET",
            path="/openapi.json",
            handler=self._openapi,
            role=Role.CHAT,
            tag="openapi",
            summary="This document",
            responses={200: Description},
        )

    async def _openapi(self, call: ApiCall[None, None]) -> ApiReply:
        return ok(self._document)

    @cached_property
    def _document(self) -> dict[str, Any]:
        return document(self.routes)


class Description(BaseModel):
    """An OpenAPI document."""

    model_config = {"extra": "allow"}

    openapi: str


def _allowed(found: Mapping[str, ApiRoute]) -> list[str]:
    return sorted({*found, "OPTIONS", *({"HEAD"} if "GET" in found else ())})


async def _send(send: Send, reply: ApiReply, headers: Headers, bare: bool) -> None:
    every = [*headers, *reply.headers]
    if reply.body is None:
        return await send_body(send, reply.status, b"", every)
    every.append((b"content-type", reply.media.encode()))
    payload = _payload(reply.body)
    if not bare:
        return await send_body(send, reply.status, payload, every)
    every.append((b"content-length", b"%d" % len(payload)))
    await send({"type": "http.response.start", "status": reply.status, "headers": every})
    await send({"type": "http.response.body", "body": b""})


def _payload(body: BaseModel | Mapping[str, Any] | bytes) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, BaseModel):
        return body.model_dump_json(by_alias=True).encode()
    return orjson.dumps(body)
