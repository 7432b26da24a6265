"""`/v1/responses/{id}`: reading and deleting responses, kept by the gateway or by the upstream that gave them."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote as quote_path

import msgspec
import orjson
from msgspec import Raw
from starlette.requests import Request
from starlette.responses import Response

from gateway.conversation.dialects.responses.echoed import EchoedFields
from gateway.conversation.dialects.responses.items import NO_RESPONSE, UNREADABLE_ITEM, decode_object
from gateway.conversation.hidden_turns import ConversationOwner
from gateway.conversation.relay import check_reply
from gateway.conversation.response_record import ResponseRecord
from gateway.conversation.stored_responses import StoredResponses
from gateway.domain.upstream import UpstreamRequest
from gateway.edge.access import Caller, get_caller
from gateway.edge.limits import RateLimiter
from gateway.edge.outcomes import get_outcome
from gateway.edge.paths import AZURE_ROOTS, drop_azure_version
from gateway.edge.response import select_client_headers
from gateway.errors import EndpointUnavailable, InvalidRequest, NotFound, UpstreamInvalid, quote
from gateway.scopes.context_request import read_context_request
from gateway.scopes.scope import require_user_right
from gateway.upstreams.routes import Routes

PAGE, LONGEST_PAGE = 20, 100  # items
JSON = "application/json"

_encode = msgspec.json.Encoder().encode


class StoredResponsesEndpoint:
    """The responses of a caller; those of others do not exist."""

    def __init__(self, stored: StoredResponses, routes: Routes, limiter: RateLimiter) -> None:
        self._stored, self._routes, self._limiter = stored, routes, limiter

    async def serve(self, request: Request) -> Response:
        """`GET` and `DELETE /v1/responses/{id}`."""
        caller, identity, record = await self._find(request)
        if request.method == "DELETE":
            return await self._delete(request, caller, identity, record)
        if record.is_relayed:
            return await self._ask_upstream(request, caller, record)
        if request.query_params.get("stream") == "true":
            raise InvalidRequest("A response that is over cannot be streamed again.", param="stream")
        if record.echoed is None:
            return Response(bytes(record.shown), media_type=JSON)
        return await self._ask_upstream(request, caller, record, echoed=record.echoed)

    async def list_input(self, request: Request) -> Response:
        """`GET /v1/responses/{id}/input_items`."""
        caller, _, record = await self._find(request)
        if record.input is None:
            return await self._ask_upstream(request, caller, record, "/input_items")
        return Response(_encode(build_page(record.input, request.query_params)), media_type=JSON)

    async def cancel(self, request: Request) -> Response:
        """`POST /v1/responses/{id}/cancel`: only what runs in the background could be cancelled."""
        await self._find(request)
        raise InvalidRequest("Only background responses can be cancelled, and they are not supported.")

    async def compact(self, request: Request) -> Response:
        """`POST /v1/responses/compact`: nobody could check what the sealed result tells of."""
        get_outcome(request.scope).route = "responses"
        raise EndpointUnavailable(
            "/v1/responses/compact is not implemented: a compacted conversation is sealed, so the gateway could not "
            "check again whose context is in it. Send shorter input, or `truncation: auto`."
        )

    async def _find(self, request: Request) -> tuple[Caller, str, ResponseRecord]:
        caller, identity = get_caller(request), request.path_params["id"]
        get_outcome(request.scope).route = "responses"
        await self._limiter.admit(caller.principal, set())
        record = await self._stored.find(find_owner(caller), identity)
        if record is None:
            raise NotFound(f"There is no response {quote(identity)}.", param="response_id")
        return caller, identity, record

    async def _delete(self, request: Request, caller: Caller, identity: str, record: ResponseRecord) -> Response:
        if record.native:
            answer = await self._ask_upstream(request, caller, record)
            if answer.status_code >= 400:
                return answer
        await self._stored.delete(find_owner(caller), identity)
        return Response(orjson.dumps({"id": identity, "object": "response", "deleted": True}), media_type=JSON)

    async def _ask_upstream(
        self,
        request: Request,
        caller: Caller,
        record: ResponseRecord,
        below: str = "",
        echoed: Mapping[str, Raw] | None = None,
    ) -> Response:
        """What the upstream that keeps a response says about it, with these fields of the client's own request."""
        asked = request.url.query
        if request.url.path.startswith(AZURE_ROOTS):
            asked = drop_azure_version(asked)
        query = f"?{asked}" if asked else ""
        forwarded = caller.head.forward(caller.bearer)
        call = UpstreamRequest(
            f"/responses/{quote_path(record.native, safe='')}{below}{query}",
            b"",
            forwarded.later,
            model=record.model,
            method="GET" if request.method == "HEAD" else request.method,  # for its length, which few upstreams tell
            bearer=forwarded.bearer,
            dialect="responses",
        )
        answer = await self._routes.send(self._routes.get_candidates(record.model), call)
        try:
            check_reply(answer.upstream, answer.reply)
            headers = {name.decode(): value.decode() for name, value in select_client_headers(answer.reply.headers)}
            body, status = await answer.reply.read_all(), answer.reply.status
            return Response(body if echoed is None or status >= 400 else restore(body, echoed), status, headers)
        finally:
            await answer.reply.close()


def restore(body: bytes, echoed: Mapping[str, Raw]) -> bytes:
    """The upstream's response with the client's own fields: nobody sees what we added."""
    try:
        return _encode(EchoedFields(echoed).restore(decode_object(body)))
    except UNREADABLE_ITEM as fault:
        raise UpstreamInvalid(NO_RESPONSE) from fault


def find_owner(caller: Caller) -> ConversationOwner:
    """Whose responses a request may name."""
    asked = read_context_request(caller.head.context, None)
    require_user_right(asked, caller.principal)
    return ConversationOwner.from_principal(caller.principal, asked.user, None)


def build_page(items: Sequence[Raw], query: Mapping[str, str]) -> dict[str, Any]:
    """Some items as a page, newest first unless asked otherwise; those without an id get one by their position."""
    named = [name_item(item, position) for position, item in enumerate(items)]
    if query.get("order") != "asc":
        named.reverse()
    ids = [item["id"] for item in named]
    after = query.get("after")
    start = ids.index(after) + 1 if after in ids else 0
    limit = query.get("limit", "")
    size = min(max(int(limit), 1), LONGEST_PAGE) if limit.isdecimal() and len(limit) < 6 else PAGE
    page = named[start : start + size]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"object": "list", "data": page, **ends, "has_more": start + size < len(named)}


def name_item(item: Raw, position: int) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.json.decode(item)
    content = fields.get("content")
    if isinstance(content, str):
        kind = "output_text" if fields.get("role") == "assistant" else "input_text"
        fields["content"] = [{"type": kind, "text": content}]
    return {"type": "message", **fields, "id": fields.get("id") or f"item_{position}"}
