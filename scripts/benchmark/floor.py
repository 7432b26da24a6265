"""The floors: what the same stack costs when it only relays, or relays and injects 4 KB, and knows nothing else.

Prints its port, then serves until it is told to stop: python -m scripts.benchmark.floor UPSTREAM_PORT
"""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from scripts.benchmark.payloads import CONTEXT


class FloorServer:
    """Two endpoints over one pooled client."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncGenerator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as self._session:
            yield

    async def relay(self, request: Request) -> Response:
        return await self._forward(await request.body())

    async def inject(self, request: Request) -> Response:
        body = orjson.loads(await request.body())
        add_context(body["messages"])
        return await self._forward(orjson.dumps(body))

    async def _forward(self, body: bytes) -> Response:
        assert self._session is not None
        headers = {"content-type": "application/json"}
        reply = await self._session.post(self._upstream, data=body, headers=headers)
        if reply.content_type == "text/event-stream":
            return StreamingResponse(iterate_chunks(reply), reply.status, media_type="text/event-stream")
        async with reply:
            return Response(await reply.read(), reply.status, media_type=reply.content_type)


def add_context(messages: list[dict[str, Any]]) -> None:
    if messages and messages[0]["role"] == "system":
        messages[0]["content"] += f"\n\n{CONTEXT}"
    else:
        messages.insert(0, {"role": "system", "content": CONTEXT})


async def iterate_chunks(reply: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    async with reply:
        async for chunk in reply.content.iter_any():
            yield chunk


async def serve(upstream_port: int) -> None:
    floor = FloorServer(f"http://127.0.0.1:{upstream_port}/v1/chat/completions")
    routes = [
        Route("/relay/v1/chat/completions", floor.relay, methods=["POST"]),
        Route("/inject/v1/chat/completions", floor.inject, methods=["POST"]),
    ]
    app = Starlette(routes=routes, lifespan=floor.lifespan)
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(app, loop="uvloop", http="httptools", log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listener]))
    while not server.started and not serving.done():  # noqa: ASYNC110  (uvicorn offers no event to wait for)
        await asyncio.sleep(0.01)
    print(listener.getsockname()[1], flush=True)
    await serving


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
