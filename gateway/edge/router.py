"""The ASGI app: which endpoint answers a path."""

from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from gateway.domain.principal import UNLIMITED
from gateway.edge.auth import Authenticator
from gateway.edge.chat import Chat
from gateway.edge.errors import guarded
from gateway.edge.health import Health, SnapshotSource
from gateway.edge.hosts import HostCheck
from gateway.edge.limits import Limiter
from gateway.edge.manage.lazily import LazyManagementApp
from gateway.edge.manage.problems import send_problem
from gateway.edge.metrics import Metrics
from gateway.edge.models import ModelList
from gateway.edge.passthrough import PassThrough
from gateway.edge.paths import MANAGEMENT, normalise
from gateway.errors import MethodNotAllowed

CHAT = "/v1/chat/completions"
MODELS = "/v1/models"


@dataclass(frozen=True, slots=True)
class Router:
    """Checks host and key, then hands a request to its endpoint."""

    auth: Authenticator
    hosts: HostCheck
    policies: SnapshotSource
    chat: Chat
    models: ModelList
    passthrough: PassThrough
    health: Health
    metrics: Metrics
    limiter: Limiter
    manage: LazyManagementApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await live(receive, send)
        self.metrics.running += 1
        try:
            if self.manage is not None and scope["raw_path"].startswith(MANAGEMENT):
                await guarded(self._manage, send_problem)(scope, receive, send)
            else:
                await guarded(self._serve)(scope, receive, send)
        finally:
            self.metrics.running -= 1

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = normalise(scope["raw_path"])
        if path == "/livez":
            return await self.health.livez(send)
        if path == "/readyz":
            return await self.health.readyz(send)
        headers = scope["headers"]
        self.hosts.check(headers)
        if path == "/metrics":
            return await self.metrics.serve(send)
        principal = self.auth.authenticate(headers)
        if path == CHAT:
            require(scope, "POST")
            caller = principal, self.auth.client_bearer(headers)
            return await self.chat.serve(scope, receive, send, caller, self.policies)
        if path == MODELS or path.startswith(MODELS + "/"):
            require(scope, "GET")
            wanted = path[len(MODELS) + 1 :]
            if wanted:
                return await self.models.serve_one(send, principal, wanted)
            return await self.models.serve_list(send, principal)
        if principal.limits is not UNLIMITED:
            await self.limiter.admit(principal, set(), tokens=False)
        await self.passthrough.serve(scope, receive, send, path, self.auth.client_bearer(headers))

    async def _manage(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.hosts.check(scope["headers"])
        principal = self.auth.authenticate(scope["headers"])
        if self.manage is not None:
            await self.manage.serve(scope, receive, send, principal)


def require(scope: Scope, method: str) -> None:
    if scope["method"] != method:
        raise MethodNotAllowed(f"{scope['path']} takes {method} only.")


async def live(receive: Receive, send: Send) -> None:
    """ASGI's lifespan: everything is built before the server starts and closed after it stops."""
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return
