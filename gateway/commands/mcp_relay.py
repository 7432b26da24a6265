"""MCP over this process's standard input and output, answered by a running gateway."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import aiohttp
import msgspec
import orjson
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    CallToolResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
)
from pydantic import BaseModel, ValidationError

from gateway.edge.mcp.identity import INSTRUCTIONS, NAME, TITLE

SECONDS = 60.0  # for one request to a running gateway; it answers within 30
PROTOCOL = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
}

Answer = TypeVar("Answer", bound=BaseModel)


async def serve_gateway(url: str, headers: dict[str, str]) -> None:
    """Answer with what a running gateway answers, until the input ends."""
    timeout = aiohttp.ClientTimeout(SECONDS)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as web:
        await serve_stdio(build_relay(GatewayRelay(web, url)))


class GatewayRelay(msgspec.Struct, frozen=True):
    """Hands requests on, each as one of its own: the gateway may restart meanwhile, or start later."""

    web: aiohttp.ClientSession
    url: str

    async def send(self, method: str, params: BaseModel | None, kind: type[Answer]) -> Answer:
        """The gateway's answer; raises MCPError with what it refused, or that it does not answer."""
        given = {} if params is None else params.model_dump(mode="json", by_alias=True, exclude_none=True)
        given.pop("_meta", None)  # about this connection, not about the gateway's
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": given})
        try:
            async with self.web.post(self.url, data=body, headers=PROTOCOL, allow_redirects=False) as reply:
                answer, status = await reply.read(), reply.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise MCPError(INTERNAL_ERROR, f"The gateway at {self.url} does not answer ({error}).") from error
        try:
            return self._read_answer(orjson.loads(answer), kind)
        except (orjson.JSONDecodeError, ValidationError, TypeError) as error:
            told = f"What answers at {self.url} is not a gateway, or has no MCP endpoint (HTTP {status})."
            raise MCPError(INTERNAL_ERROR, told) from error

    @staticmethod
    def _read_answer(answer: Any, kind: type[Answer]) -> Answer:
        """The result; raises MCPError with an error of the gateway's, TypeError for what is neither."""
        match answer:
            case {"result": result}:
                return kind.model_validate(result)
            case {"error": dict(said)}:
                code = said.get("code")
                raise MCPError(
                    code if isinstance(code, int) else INVALID_REQUEST,
                    str(said.get("message") or "The gateway refused the request."),
                    said.get("data") or {"code": code, "param": said.get("param")},
                )
        raise TypeError("neither a result nor an error")


def build_relay(relay: GatewayRelay) -> Server[Any]:
    """A server whose answers are the gateway's."""

    def hand_on(method: str, kind: type[Answer]) -> Callable[[Any, Any], Coroutine[Any, Any, Answer]]:
        async def answer(_: Any, params: BaseModel | None) -> Answer:
            return await relay.send(method, params, kind)

        return answer

    return Server(
        NAME,
        title=TITLE,
        instructions=INSTRUCTIONS,
        on_list_tools=hand_on("tools/list", ListToolsResult),
        on_call_tool=hand_on("tools/call", CallToolResult),
        on_list_resources=hand_on("resources/list", ListResourcesResult),
        on_list_resource_templates=hand_on("resources/templates/list", ListResourceTemplatesResult),
        on_read_resource=hand_on("resources/read", ReadResourceResult),
        on_list_prompts=hand_on("prompts/list", ListPromptsResult),
        on_get_prompt=hand_on("prompts/get", GetPromptResult),
    )


async def serve_stdio(server: Server[Any]) -> None:
    """Answer what comes on standard input, until it ends."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
