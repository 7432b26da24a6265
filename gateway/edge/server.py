"""The uvicorn server, set up for this product."""

import math

import uvicorn
from starlette.types import ASGIApp

from gateway.edge.connection import BoundedProtocol
from gateway.settings import Settings

KEEP_ALIVE_SECONDS = 75  # longer than the pools of common clients, so that it is they who let go of a connection


def build_server(app: ASGIApp, settings: Settings) -> uvicorn.Server:
    """The server for `app`; SIGTERM stops accepting and lets what runs finish within `limits.drain_seconds`."""

    class Protocol(BoundedProtocol):
        limits = settings.limits

    config = uvicorn.Config(
        app,
        host=settings.listen.host,
        port=settings.listen.port,
        loop="uvloop",
        http=Protocol,
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(settings.limits.drain_seconds),
    )
    return uvicorn.Server(config)
