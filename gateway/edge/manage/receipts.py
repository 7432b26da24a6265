"""`/receipts`: what was sent to the models, why, and at what cost."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.domain.principal import Role
from gateway.domain.receipt import ID_PATTERN, ReceiptFilter, ReceiptPage
from gateway.edge.manage.calls import COMMON_HEADERS, ApiCall, ApiReply, reply_empty
from gateway.edge.manage.paging import QueryParameters
from gateway.edge.manage.routes import ApiRoute, MediaContent
from gateway.errors import InsufficientStorage, NotFound
from gateway.policies.shapes import Moment
from gateway.receipts.recorder import ReceiptRecorder
from gateway.receipts.views import describe_receipt, encode_lines, read_pages
from gateway.stores.protocols import ReceiptStore

TAG = "receipts"
JSON_LINES = "application/jsonl"

ReceiptStatus = Literal["started", "ok", "error", "aborted", "upstream_truncated", "loop_limit"]


class ReceiptCriteria(QueryParameters):
    """Which receipts to return."""

    session: str | None = Field(None, max_length=512, description="Only receipts of this session.")
    agent: str | None = Field(None, max_length=512, description="Only receipts of this agent.")
    content: str | None = Field(None, max_length=2000, description="Only receipts of the content node at this path.")
    resource: str | None = Field(None, max_length=512, description="Only exchanges that used this resource.")
    status: ReceiptStatus | None = Field(None, description="Only receipts with this status.")
    begin: Moment | None = Field(None, alias="from", description="Only exchanges that began at this time or later.")
    end: Moment | None = Field(None, alias="to", description="Only exchanges that began before this time.")

    def build_filter(self) -> ReceiptFilter:
        begin, end = (None if time is None else time.timestamp() for time in (self.begin, self.end))
        return ReceiptFilter(self.session, self.agent, self.content, self.resource, self.status, begin, end)


class ReceiptQuery(ReceiptCriteria):
    """Which page of the list to return."""

    after: str | None = Field(None, pattern=ID_PATTERN, description="`next` of the page before.")
    take: int = Field(100, ge=1, le=1000, description="How many receipts to return at most.")


class ReceiptSummary(BaseModel):
    """A receipt in a list."""

    model_config = ConfigDict(extra="allow")

    id: str = Field(description="As in the header `x-context-receipt`.")
    status: ReceiptStatus
    workspace: str
    session: str | None
    agent: str | None
    content: str | None
    at: str
    seconds: float | None
    http_status: int | None
    error: str | None
    principal: str
    key: str | None
    user: str | None
    suggested_content: str | None = None
    model: str | None
    upstream: str | None
    injected: int
    context_tokens: int
    turn_count: int
    tools_run: int
    usage: dict[str, Any] | None
    cached_tokens: int
    cost: float | None = Field(description="US dollars; null without a price or without reported usage.")
    degraded: list[str]


class ReceiptView(ReceiptSummary):
    """A receipt with everything that it says."""

    turns: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    timings: dict[str, float | None]


class ReceiptList(BaseModel):
    """A page of receipts, newest first."""

    items: list[ReceiptSummary]
    next: str | None = Field(description="For `after`. A page may be short and still have a next one; null: the end.")


class LineStream(Response):
    """JSON lines that are read from the store while they are sent."""

    def __init__(self, lines: AsyncGenerator[bytes]) -> None:
        super().__init__(headers={**COMMON_HEADERS, "content-type": JSON_LINES})
        del self.headers["content-length"]
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A client that leaves cancels the request (`BoundedProtocol`), so nobody has to listen for that.
        async with aclosing(self._lines) as lines:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                async for chunk in lines:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


class ReceiptRoutes(msgspec.Struct, frozen=True):
    """The receipts of the caller's own workspace."""

    store: ReceiptStore
    recorder: ReceiptRecorder | None = None  # of this process; None: nothing is recorded

    def list_routes(self) -> Iterator[ApiRoute]:
        # They name users and may contain what those wrote.
        route = partial(ApiRoute, role=Role.ADMIN, tag=TAG)
        yield route(
            method="GET",
            path="/receipts",
            handler=self.list,
            summary="List receipts, newest first",
            query=ReceiptQuery,
            responses={200: ReceiptList},
        )
        yield route(
            method="GET",
            path="/receipts/export",
            handler=self.export,
            summary="Export receipts as JSON lines, newest first",
            query=ReceiptCriteria,
            responses={200: MediaContent((JSON_LINES,))},
        )
        yield route(
            method="GET",
            path="/receipts/{receipt}",
            handler=self.get,
            summary="Get a receipt",
            responses={200: ReceiptView},
            errors=(NotFound,),
        )
        yield route(
            method="DELETE",
            path="/receipts/{receipt}",
            handler=self.delete,
            summary="Delete a receipt",
            responses={204: None},
            errors=(NotFound, InsufficientStorage),
        )

    async def list(self, call: ApiCall[ReceiptQuery, None]) -> ApiReply:
        query = call.query
        page = await self.store.list_page(call.workspace, query.build_filter(), query.after, query.take)
        return ApiReply({"items": [describe_receipt(one) for one in page.receipts], "next": page.next})

    async def export(self, call: ApiCall[ReceiptCriteria, None]) -> LineStream:
        pages = read_pages(self.store, call.workspace, call.query.build_filter())
        # The first page is read before the reply begins, so that a store that is down gives an error.
        return LineStream(_write_lines(await anext(pages), pages))

    async def get(self, call: ApiCall[None, None]) -> ApiReply:
        id = call.path["receipt"]
        if self.recorder is not None:
            await self.recorder.write_now(call.workspace, id)
        receipt = await self.store.find(call.workspace, id)
        if receipt is None:
            raise _make_not_found()
        return ApiReply(describe_receipt(receipt))

    async def delete(self, call: ApiCall[None, None]) -> ApiReply:
        if not await self.store.delete(call.workspace, call.path["receipt"]):
            raise _make_not_found()
        return reply_empty()


async def _write_lines(first: ReceiptPage, pages: AsyncGenerator[ReceiptPage]) -> AsyncGenerator[bytes]:
    async with aclosing(pages):
        yield encode_lines(first)
        async for page in pages:
            yield encode_lines(page)


def _make_not_found() -> NotFound:
    return NotFound("There is no such receipt.")
