"""The MCP server: what is listed, read and called, for the scope that each request names itself.

There are no sessions: each request is complete by itself, so that any worker can answer it and nothing is kept.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    REQUEST_TIMEOUT,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)
from pydantic import ValidationError

from gateway.domain.exchange import Exchange
from gateway.domain.resource import Resource
from gateway.domain.retriever import Retriever
from gateway.edge.errors import log_internal_error
from gateway.edge.mcp.call import FindCall, McpCall
from gateway.edge.mcp.documents import (
    INPUT,
    TEXT,
    cut_list,
    describe_prompt,
    describe_resource,
    describe_template,
    list_placeholders,
    list_tools,
    name_argument,
)
from gateway.edge.mcp.identity import INSTRUCTIONS, NAME, TITLE
from gateway.edge.mcp.uris import ResourceAddress, parse_uri
from gateway.errors import GatewayError, InvalidRequest, quote
from gateway.injection.neutral import neutralize
from gateway.injection.tools import PLAIN_TOOLS
from gateway.pipeline import Pipeline
from gateway.retrieval.tool_runner import cut_page
from gateway.scope_view import ScopeView, fill_prompt, open_view

SECONDS = 30.0  # for one request
WHOLE = 200_000  # code points of a resource that are read at once

Context = ServerRequestContext[Any, Any]
CountRun = Callable[[str], None]


class McpHandlers:
    """Answers the requests of MCP clients; whose they are, `find_call` tells."""

    def __init__(self, pipeline: Pipeline, find_call: FindCall, count_run: CountRun, seconds: float = SECONDS) -> None:
        self._pipeline, self._find_call, self._count_run, self._seconds = pipeline, find_call, count_run, seconds

    async def guard(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """A middleware of the package: a deadline, and errors that a client can read."""
        outcome = self._find_call(ctx.request).outcome
        outcome.detail = ctx.method
        try:
            async with asyncio.timeout(self._seconds):
                return await call_next(ctx)
        except TimeoutError:
            outcome.code = "timeout"
            raise MCPError(REQUEST_TIMEOUT, f"The request took longer than {self._seconds:g} s.") from None
        except (MCPError, ValidationError):
            outcome.code = outcome.code or "invalid_request"
            raise
        except GatewayError as error:
            outcome.code = error.code
            code = INVALID_PARAMS if error.status < 500 else INTERNAL_ERROR
            raise MCPError(code, error.message, {"code": error.code, "param": error.param}) from error
        except Exception as error:
            failure = log_internal_error(error)
            outcome.code = failure.code
            raise MCPError(INTERNAL_ERROR, failure.message) from error

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=list_tools())

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """The result of one of our two tools, as a model would read it in a chat."""
        if params.name not in PLAIN_TOOLS.names:
            raise InvalidRequest(f"There is no tool {quote(params.name)}.", param="name")
        call, view = await self._open(context, params.name)
        result = await view.runner.run(params.name, msgspec.json.encode(params.arguments or {}).decode())
        self._count_run(params.name)
        if view.session is not None and params.name == PLAIN_TOOLS.get and view.scope.retains:
            await self._pipeline.sessions.retain(view.session, result.resources, call.exchange.degraded)
        return CallToolResult(content=[TextContent(text=result.text)], is_error=result.failed)

    async def list_resources(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        _, view = await self._open(context)
        page = cut_list(view.resources, params.cursor if params else None, lambda one: one.id)
        shown = [describe_resource(one) for one in page.entries]
        return ListResourcesResult(resources=shown, next_cursor=page.cursor)

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[describe_template()])

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """The text of a resource, or the part of it that its URI asks for."""
        address = parse_uri(params.uri)
        call, view = await self._open(context, address.id if address is not None else "")
        found = view.find(address.id) if address is not None else None
        if address is None or found is None:
            raise InvalidRequest(f"There is no resource {quote(params.uri)}.", param="uri")
        text = await self._read(call.exchange, view, found, address)
        return ReadResourceResult(contents=[TextResourceContents(uri=params.uri, mime_type=TEXT, text=text)])

    async def list_prompts(self, context: Context, params: PaginatedRequestParams | None) -> ListPromptsResult:
        call, view = await self._open(context)
        known = list(call.exchange.snapshot.prompts.values())
        page = cut_list(known, params.cursor if params else None, lambda one: one.alias)
        has_content = view.scope.node is not None
        prompts = [describe_prompt(one, has_content=has_content) for one in page.entries]
        return ListPromptsResult(prompts=prompts, next_cursor=page.cursor)

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """A prompt filled in, with the context that it brings."""
        call = self._find_call(context.request)
        call.note(context.method, params.name)
        given = dict(params.arguments or {})
        question = given.pop(INPUT, "")
        known = call.exchange.snapshot.prompts.get(params.name)
        names = [name for name in list_placeholders(known) if name.startswith("vars.")] if known is not None else []
        variables = {
            name.removeprefix("vars."): given[name_argument(name)] for name in names if name_argument(name) in given
        }
        filled = await fill_prompt(self._pipeline, call.exchange, params.name, question, variables)
        texts = [text for text in (filled.context, filled.text) if text]
        messages = [PromptMessage(role="user", content=TextContent(text=text)) for text in texts]
        return GetPromptResult(description=filled.name, messages=messages)

    async def _open(self, context: Context, about: str = "") -> tuple[McpCall, ScopeView]:
        call = self._find_call(context.request)
        call.note(context.method, about)
        return call, await open_view(self._pipeline, call.exchange)

    async def _read(self, exchange: Exchange, view: ScopeView, resource: Resource, address: ResourceAddress) -> str:
        if not address.is_whole or isinstance(resource.data, Retriever):
            asked = {"resource_id": resource.id, "query": address.query, "offset": address.offset}
            result = await view.runner.run(PLAIN_TOOLS.get, msgspec.json.encode(asked).decode())
            return result.text
        text = resource.text or ""
        cut = text if len(text) <= WHOLE else cut_page(text, None, WHOLE)
        return await self._pipeline.builder.threads.run(exchange.principal.workspace, lambda: neutralize(cut))


def build_server(handlers: McpHandlers) -> Server[Any]:
    """A server that answers with these handlers."""
    server: Server[Any] = Server(
        NAME,
        title=TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    server.middleware[:] = [handlers.guard]
    return server
