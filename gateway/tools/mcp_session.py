"""One session with an MCP server. This is the only module that speaks to the `mcp` package, and it is imported late."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client import Client, IncomingMessage, Transport
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    PaginatedRequestParams,
    TextContent,
    TextResourceContents,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gateway.domain.tool import ToolOutcome, ToolServerAddress
from gateway.links.guard import LinkGuard
from gateway.settings import CONNECT_SECONDS, ToolServerSettings
from gateway.tools.connection import McpFailure
from gateway.tools.guarded_http import GuardedTransport
from gateway.tools.listing import MAX_TOOLS, ToolListing, build_listing
from gateway.tools.long_messages import MAX_MESSAGE
from gateway.tools.stdio import open_process

MAX_PAGES = 100  # of a list of tools
# What a server's answer may lead to besides an error of the protocol.
FAILURES = (MCPError, ValidationError, ValueError, RuntimeError, OSError, httpx2.HTTPError)


class McpSession:
    """An open session: lists tools and calls them."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_tools(self) -> ToolListing:
        """The tools of the server now, page by page; raises McpFailure."""
        described: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            try:
                page = await self._client.session.list_tools(params=params)
            except FAILURES as error:
                raise McpFailure(describe_error(error)) from error
            described += (
                {"name": one.name, "description": one.description, "schema": one.input_schema} for one in page.tools
            )
            cursor = page.next_cursor
            if not cursor or len(described) > MAX_TOOLS:
                break
        return build_listing(described)

    async def call(self, name: str, arguments: dict[str, Any], seconds: float) -> ToolOutcome:
        """The result of a call; what the server itself calls an error is a result. Raises McpFailure.

        The request is sent without the package's check of results against the server's own schema: that schema could
        be made to take minutes.
        """
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
        try:
            result = await self._client.session.send_request(request, CallToolResult, seconds)
        except FAILURES as error:
            raise McpFailure(describe_error(error), answered=is_answer(error)) from error
        texts = [text for block in result.content if (text := read_block(block))]
        if not texts and result.structured_content is not None:
            texts = [str(result.structured_content)]
        return ToolOutcome("\n".join(texts), bool(result.is_error))

    async def watch_list(self, report_change: Callable[[], None]) -> None:
        """Report changes of the list, if this version of the protocol has to be asked for that; until it ends."""
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            async with self._client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    report_change()
        except (*FAILURES, SubscriptionLost, TimeoutError):
            return  # the list is asked for now and then all the same


@asynccontextmanager
async def open_session(
    address: ToolServerAddress,
    settings: ToolServerSettings | None,
    guard: LinkGuard,
    report_change: Callable[[], None],
    report_failure: Callable[[], None],
) -> AsyncGenerator[McpSession]:
    """A session with a server; settings: it is one of the configuration. Raises whatever keeps it from opening."""

    async def notice(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            report_change()

    if settings is not None and settings.command:
        transport: Any = open_process(settings, report_failure)
        async with Client(transport, message_handler=notice, cache=None) as client:
            yield McpSession(client)
        return
    url, headers, guarded = address.url, dict(address.headers), True
    seconds = CONNECT_SECONDS
    if settings is not None:
        url, headers, guarded, seconds = settings.url or "", settings.headers, False, settings.connect_seconds
    http = GuardedTransport(guard if guarded else None, seconds, report_failure)
    async with httpx2.AsyncClient(transport=http, headers=headers, timeout=None, trust_env=False) as web:
        opened: Transport = streamable_http_client(url, http_client=web, max_sse_event_size=2 * MAX_MESSAGE)
        async with Client(opened, message_handler=notice, cache=None) as client:
            yield McpSession(client)


def read_block(block: ContentBlock) -> str:
    """What of a result a model can read; the rest is named."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents):
        return block.resource.text
    return f"[{block.type}, not shown]"


def is_answer(error: BaseException) -> bool:
    """Whether the server answered with an error, rather than not at all."""
    return isinstance(error, ValidationError) or (isinstance(error, MCPError) and error.code not in SILENT_CODES)


SILENT_CODES = frozenset({-32000, -32001})  # the connection is closed, the time is up


def describe_error(error: BaseException) -> str:
    """An error in one line, without what it was about: a server's words may be long."""
    if isinstance(error, ValidationError):
        return "the server sent something that the protocol does not allow"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 300 else f"{text[:299]}…"
