"""The uvicorn server, configured for the gateway."""

import asyncio
import math
import socket
from collections.abc import Iterable

import uvicorn
from starlette.types import ASGIApp

from gateway.edge.access import list_passed_up
from gateway.edge.app import EdgeApp
from gateway.edge.connection import BoundedProtocol
from gateway.edge.known_heads import KnownHeads
from gateway.edge.request import DirectEndpoint, DirectEndpoints
from gateway.errors import GatewayError
from gateway.settings import Settings
from gateway.upstreams.deadlines import Deadlines

KEEP_ALIVE_SECONDS = 75  # longer than the pools of common clients, so that the client closes an idle connection first


class GatewayServer(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.listening.set()


def build_server(
    app: ASGIApp, settings: Settings, endpoints: Iterable[DirectEndpoint] = (), keep_alive: float = KEEP_ALIVE_SECONDS
) -> GatewayServer:
    """The server for `app`; on SIGTERM it stops accepting and drains for up to `limits.drain_seconds`.

    Requests for the paths of `endpoints`, by default those of the app, do not go through ASGI.
    """
    table = DirectEndpoints(app.direct if isinstance(app, EdgeApp) else endpoints)
    record = app.record_refusal if isinstance(app, EdgeApp) else None

    class LimitedProtocol(BoundedProtocol):
        limits = settings.limits
        idle = Deadlines(keep_alive)
        direct = table
        heads = KnownHeads(list_passed_up(settings))

        def refuse(self, error: GatewayError) -> None:
            if record is not None and not self._refused and not self.transport.is_closing():
                record(error)
            super().refuse(error)

    config = uvicorn.Config(
        app,
        host=settings.listen.host,
        port=settings.listen.port,
        loop="uvloop",
        http=LimitedProtocol,
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.limits.drain_seconds),
    )
    return GatewayServer(config)
