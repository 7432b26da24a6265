"""`/livez` without starlette: the first thing that is asked of a gateway, perhaps before its site is loaded."""

from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.edge.response import send_json

PATH: Final = "/livez"
METHODS: Final = ("GET", "HEAD")
ALIVE: Final = b'{"status":"alive"}'


class LivenessApp:
    """Alive as long as the loop runs; everything else is up to the site."""

    def __init__(self, site: ASGIApp) -> None:
        self._site = site

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["path"] == PATH and scope["method"] in METHODS:
            return send_json(send, 200, ALIVE)
        return self._site(scope, receive, send)
