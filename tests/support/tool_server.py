"""A real MCP server, written with the package: `python -m tests.support.tool_server [PORT [json]]`; no port: stdio."""

import asyncio
import sys
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from tests.support.tool_answers import DESCRIPTIONS, ToolFailure, answer, choose_schema, list_names


async def list_tools(context: Any, params: Any) -> ListToolsResult:
    names = await asyncio.to_thread(list_names)
    return ListToolsResult(
        tools=[
            Tool(name=name, description=DESCRIPTIONS.get(name, name), input_schema=choose_schema(name))
            for name in names
        ]
    )


async def call_tool(context: Any, params: Any) -> CallToolResult:
    if params.name == "hang":
        await asyncio.sleep(3600)
    try:
        text = answer(params.name, params.arguments or {})
    except ToolFailure as failure:
        return CallToolResult(content=[TextContent(text=str(failure))], is_error=True)
    return CallToolResult(content=[TextContent(text=text)])


def make_server() -> Server[Any]:
    return Server("test-tools", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve_stdio() -> None:
    server = make_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main(port: str = "", form: str = "") -> None:
    if not port:
        asyncio.run(serve_stdio())
        return
    app = make_server().streamable_http_app(json_response=form == "json")
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="error")


if __name__ == "__main__":
    main(*sys.argv[1:])
