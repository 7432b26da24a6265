"""Who may reach an endpoint: Host and key are checked before anything else is read."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Self

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.domain.principal import Principal, Role
from gateway.edge.auth import Authenticator
from gateway.edge.outcomes import get_outcome
from gateway.edge.request import PASSED_UP, RequestHead, read_head
from gateway.edge.sign_ins import SignIn, SignIns, check_page, read_token
from gateway.errors import ForbiddenHost, GatewayError, InvalidApiKey, InvalidRequest, MissingApiKey
from gateway.settings import Settings
from gateway.stores.protocols import EphemeralStore

if TYPE_CHECKING:
    from starlette.requests import Request

HOUR_SECONDS = 3600.0
REMEMBERED = 1024  # verdicts kept; clients could otherwise fill the memory with made-up names


class HostCheck:
    """Accepts requests by the host they were sent to.

    A web page can reach an unauthenticated loopback server through a name that it controls (DNS rebinding); the browser
    then sends that name as Host, and its own as Origin.
    """

    def __init__(self, hosts: Iterable[str], origins: Iterable[str] = ()) -> None:
        self._names = frozenset(host.lower().rstrip(".").encode() for host in hosts)
        self._origins = frozenset(origin.encode() for origin in origins)  # whose pages may call the gateway
        self._verdicts: dict[bytes, bool] = {}

    def check(self, head: RequestHead, *, keyed: bool) -> None:
        """Raise unless the request names exactly one accepted Host and, without keys, no foreign Origin."""
        if len(head.hosts) > 1:
            raise InvalidRequest("The request has more than one Host header.")
        if head.origins and not keyed and not all(map(self._accepts_origin, head.origins)):
            raise ForbiddenHost("Cross-origin requests are not allowed without a key.")
        if not head.hosts or not head.hosts[0]:
            raise InvalidRequest("The request has no Host header.")
        if not (keyed and not self._names) and not self._accepts(head.hosts[0]):
            raise ForbiddenHost("This Host is not allowed. Add it to `hosts` in the gateway's configuration.")

    def is_own_origin(self, origin: bytes, host: bytes) -> bool:
        """Whether a page's origin is the host that it asks, or one of the names that the gateway is known by."""
        authority = origin.partition(b"://")[2].lower()
        return authority == host.lower() or authority in self._names or parse_host(authority) in self._names

    def _accepts_origin(self, origin: bytes) -> bool:
        return origin in self._origins or self._accepts(origin.partition(b"://")[2])

    def _accepts(self, authority: bytes) -> bool:
        verdict = self._verdicts.get(authority)
        if verdict is None:
            verdict = self._judge(authority.lower())
            if len(self._verdicts) < REMEMBERED:
                self._verdicts[authority] = verdict
        return verdict

    def _judge(self, authority: bytes) -> bool:
        name = parse_host(authority)
        if name is None:
            return False
        return authority in self._names or name in self._names or is_loopback(name)


def parse_host(authority: bytes) -> bytes | None:
    """`host[:port]` without its port and final dot; None if it is not of that form."""
    if authority.startswith(b"["):
        name, bracket, port = authority.partition(b"]")
        name, well_formed = name + bracket, bool(bracket) and (not port or port.startswith(b":"))
        port = port[1:]
    else:
        name, _, port = authority.partition(b":")
        name, well_formed = name.rstrip(b"."), True
    return name if name and well_formed and (not port or port.isdigit()) else None


def is_loopback(name: bytes) -> bool:
    """Whether a host name can only mean this machine."""
    if name == b"localhost":
        return True
    try:
        return ip_address(name.decode("ascii").strip("[]")).is_loopback
    except ValueError:
        return False


class Caller(msgspec.Struct, frozen=True):
    """A request's head with who sent it; requests with the same head share it as long as their key is valid."""

    head: RequestHead
    principal: Principal
    bearer: str | None  # the client's own, for upstreams that pass it through
    sign_in: SignIn | None = None  # what it was admitted with instead of a key
    version: object = None  # of the keys that it was found among


class OpenStreams:
    """The streams that callers read at the moment, so that they end with their keys."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Task[Any], Principal] = {}
        self._ended: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def pass_on(self, principal: Principal, stream: Awaitable[None]) -> None:
        """Wait for a stream's end; raises InvalidApiKey when its key is revoked before."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = principal
        try:
            await stream
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            task.uncancel()
            raise InvalidApiKey("The API key was revoked.") from None
        finally:
            del self._open[task]
            self._ended.discard(task)

    def end_revoked(self, is_revoked: Callable[[Principal], bool]) -> None:
        """End those whose keys are gone; one that is already ending is left to clean up."""
        for task, principal in self._open.items():
            if task not in self._ended and is_revoked(principal):
                self._ended.add(task)
                task.cancel()


class AccessControl(msgspec.Struct, frozen=True):
    """Admits requests by the host they name and the key they carry."""

    hosts: HostCheck
    auth: Authenticator
    passed_up: Mapping[bytes, str] = msgspec.field(default_factory=lambda: PASSED_UP)  # headers that go upstream
    sign_ins: SignIns | None = None  # None: nobody can sign in
    streams: OpenStreams = msgspec.field(default_factory=OpenStreams)

    @classmethod
    def from_settings(cls, settings: Settings, auth: Authenticator, store: EphemeralStore) -> Self:
        sign_ins = SignIns(store, auth, settings.auth.sign_in_hours * HOUR_SECONDS) if settings.console else None
        return cls(HostCheck(settings.hosts, settings.cors.origins), auth, list_passed_up(settings), sign_ins)

    def check_host(self, head: RequestHead) -> None:
        """Raise unless the request names an accepted Host; whether callers need a key may change at any time."""
        self.hosts.check(head, keyed=self.auth.keyed)

    def admit(self, headers: Sequence[tuple[bytes, bytes]], head: RequestHead | None = None) -> Caller:
        """Who is asking; raises a GatewayError for whoever may not. `head`: what the headers say, if that is known."""
        if head is None:
            head = read_head(headers, self.passed_up)
        known: Caller | None = head.admitted
        if known is not None and self.auth.confirms(known.version):
            return known
        self.check_host(head)
        principal, bearer = self.auth.authenticate(head), self.auth.find_client_bearer(head)
        head.admitted = caller = Caller(head, principal, bearer, version=self.auth.version)
        return caller

    async def admit_browser(self, headers: Sequence[tuple[bytes, bytes]], method: str) -> Caller:
        """Who is asking with a cookie instead of a key; raises a GatewayError for whoever may not."""
        token = read_token(headers) if self.sign_ins is not None else None
        if self.sign_ins is None or token is None:
            return self.admit(headers)  # which says what is missing
        head = read_head(headers, self.passed_up)
        self.check_host(head)
        sign_in, principal = await self.sign_ins.find(token)
        check_page(headers, method, sign_in, lambda origin: self.hosts.is_own_origin(origin, head.hosts[0]))
        return Caller(head, principal, None, sign_in)

    async def is_from_admin(self, request: "Request") -> bool:
        """Whether a request, to an endpoint that needs no key, comes from somebody who may manage the gateway."""
        headers = request.scope["headers"]
        try:
            caller = self.admit(headers)
        except MissingApiKey:
            try:
                caller = await self.admit_browser(headers, request.method)
            except GatewayError:
                return False
        except GatewayError:
            return False
        return caller.principal.role.covers(Role.ADMIN)


def list_passed_up(settings: Settings) -> dict[bytes, str]:
    """The headers that go upstream."""
    return {**PASSED_UP, **{name.encode(): name for name in settings.forward_headers}}


class AccessMiddleware:
    """Admits requests before routing; endpoints find the caller with `get_caller`."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = self._access.admit(scope["headers"])
        except MissingApiKey:
            caller = await self._access.admit_browser(scope["headers"], scope["method"])
        get_outcome(scope).principal = caller.principal
        state = {**scope.get("state", {}), "caller": caller}
        await self._app({**scope, "state": state}, receive, send)


class HostMiddleware:
    """Checks the Host alone, for endpoints that need no key."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._access.check_host(read_head(scope["headers"]))
        await self._app(scope, receive, send)


def get_caller(request: "Request") -> Caller:
    """Who was admitted to this request's endpoint."""
    caller: Caller = request.state.caller
    return caller
