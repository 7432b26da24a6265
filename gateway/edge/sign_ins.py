"""Sign-ins: a browser's stand-in for a key, as a cookie that no script can read.

A sign-in has no rights of its own. It names the key that it was made with, by the hash of the hash that the gateway
knows, and is worth what that key is worth at the moment: one that is revoked, expired or has another secret ends it.
"""

import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final
from urllib.parse import unquote

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.domain.lru import LruCache
from gateway.domain.principal import Principal
from gateway.edge.auth import Authenticator
from gateway.errors import InvalidApiKey, InvalidCsrfToken, RateLimited, ServiceUnavailable, StoreError
from gateway.stores.protocols import EphemeralStore

COOKIE: Final = "context-sign-in"
SECURE_COOKIE: Final = f"__Host-{COOKIE}"  # where the page came over TLS: no neighbouring host can set it
CSRF_HEADER: Final = b"x-csrf-token"
TOKEN_BYTES: Final = 32
TOKEN_LENGTH: Final = 43  # of the same in base64
SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
OWN_SITES: Final = frozenset({b"same-origin", b"none"})  # none: the user typed the address
FRESH_SECONDS: Final = 2.0  # how long another replica may not know that somebody signed out
REMEMBERED: Final = 1000
MAX_FAILURES: Final = 20
FAILURE_SECONDS: Final = 60.0
MOST_AN_HOUR: Final = 60  # sign-ins with one key: each is kept until it ends
HOUR: Final = 3600.0
ENDED: Final = b"null"
ENDED_SECONDS: Final = 60.0

HeaderPairs = Sequence[tuple[bytes, bytes]]


class StoredSignIn(msgspec.Struct, frozen=True):
    """What the store knows of a sign-in; it is found by the hash of its token."""

    key: str  # the fingerprint of the key
    expires: float  # seconds since 1970


class SignIn(msgspec.Struct, frozen=True):
    """A sign-in as its owner sees it."""

    token: str
    expires: float

    @property
    def csrf_token(self) -> str:
        """What every change has to repeat: only a page that may read our replies knows it."""
        return urlsafe_b64encode(sha256(b"csrf\0" + self.token.encode()).digest()).decode().rstrip("=")


_decode = msgspec.json.Decoder(StoredSignIn | None).decode
_encode = msgspec.json.Encoder().encode


class SignIns:
    """The sign-ins of all workspaces, shared by all replicas."""

    def __init__(
        self, store: EphemeralStore, auth: Authenticator, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._auth = auth
        self._seconds = seconds
        self._clock = clock
        self._seen: LruCache[str, tuple[float, StoredSignIn]] = LruCache(REMEMBERED)

    async def create(self, principal: Principal) -> SignIn:
        """A sign-in for whoever holds the principal's key.

        Raises InvalidApiKey without one, RateLimited after too many of them, StoreError.
        """
        fingerprint = self._auth.find_fingerprint(principal)
        if fingerprint is None:
            raise InvalidApiKey("Sign in with an API key. Send it as 'Authorization: Bearer <key>'.")
        if await self._store.add(f"sign-ins:{fingerprint}:{int(self._clock() // HOUR)}", 1, HOUR) > MOST_AN_HOUR:
            raise RateLimited(f"This key has signed in {MOST_AN_HOUR} times within an hour. Sign in again later.")
        expires = self._clock() + self._seconds
        if principal.expires is not None:
            expires = min(expires, principal.expires)
        sign_in = SignIn(secrets.token_urlsafe(TOKEN_BYTES), expires)
        body = _encode(StoredSignIn(fingerprint, expires))
        await self._store.put(_name(sign_in.token), body, max(1.0, expires - self._clock()))
        return sign_in

    def count_seconds(self, sign_in: SignIn) -> float:
        """How long it still lasts."""
        return sign_in.expires - self._clock()

    async def find(self, token: str) -> tuple[SignIn, Principal]:
        """A valid sign-in and the principal of its key; raises InvalidApiKey, or ServiceUnavailable."""
        stored = await self._read(token)
        if stored is None or stored.expires <= self._clock():
            raise InvalidApiKey("You are signed out. Sign in again.")
        principal = self._auth.find_by_fingerprint(stored.key)
        if principal is None:
            raise InvalidApiKey("The key that you signed in with is no longer valid. Sign in with another one.")
        return SignIn(token, stored.expires), principal

    async def end(self, token: str) -> None:
        """Sign out."""
        name = _name(token)
        self._seen.put(name, (self._clock(), StoredSignIn("", 0.0)))
        await self._store.put(name, ENDED, ENDED_SECONDS)

    async def _read(self, token: str) -> StoredSignIn | None:
        if len(token) != TOKEN_LENGTH:
            return None
        name, now = _name(token), self._clock()
        known = self._seen.get(name)
        if known is not None and 0 <= now - known[0] < FRESH_SECONDS:
            return known[1]
        try:
            found = (await self._store.get_many([name])).get(name)
        except StoreError as error:
            message = "Sign-ins cannot be verified because the store is unreachable. Try again later."
            raise ServiceUnavailable(message) from error
        stored = None if found is None else _decode(found)
        if stored is not None:
            self._seen.put(name, (now, stored))
        return stored


class SignInGuard:
    """An ASGI app that answers wrong keys with 429 after so many of them from one address.

    The right key passes all the same: behind a proxy all callers have one address, and none may lock out the others.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._failures: LruCache[str, list[float]] = LruCache(REMEMBERED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not is_sign_in_path(scope["path"]):
            return await self._app(scope, receive, send)
        address, now = str((scope.get("client") or ("",))[0]), self._clock()
        recent = [at for at in self._failures.get(address) or () if at > now - FAILURE_SECONDS]
        try:
            await self._app(scope, receive, send)
        except InvalidApiKey:
            if len(recent) >= MAX_FAILURES:
                error = RateLimited("Too many wrong keys were tried. Try again in a minute.")
                error.retry_after = recent[0] + FAILURE_SECONDS - now
                raise error from None
            self._failures.put(address, [*recent, now])
            raise


def is_sign_in_path(path: str) -> bool:
    """Whether the management API takes a path, however it is written, for that of signing in."""
    return unquote(path.removeprefix("/api/v1").strip("/")) == "sign-in"


def _name(token: str) -> str:
    return f"sign-in:{sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"


def read_token(headers: HeaderPairs) -> str | None:
    """The token in a request's cookies; that of the stricter cookie first."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                key, _, token = pair.strip().partition("=")
                found.setdefault(key, token)
    return found.get(SECURE_COOKIE) or found.get(COOKIE)


def check_page(headers: HeaderPairs, method: str, sign_in: SignIn, is_own: Callable[[bytes], bool]) -> None:
    """Raise InvalidCsrfToken unless a page of our own asks; a change has to carry its token too.

    Browsers send the cookie with whatever a page of the same site asks for, and a site may have other hosts.
    """
    given = b""
    for name, value in headers:
        if (name == b"origin" and not is_own(value)) or (name == b"sec-fetch-site" and value not in OWN_SITES):
            raise InvalidCsrfToken("A sign-in works for pages of this gateway only. Use an API key.")
        if name == CSRF_HEADER:
            given = value.strip()
    if method not in SAFE_METHODS and not hmac.compare_digest(given, sign_in.csrf_token.encode()):
        raise InvalidCsrfToken("The header x-csrf-token is missing or wrong. GET /api/v1/me returns its value.")


def format_cookie(sign_in: SignIn | None, *, secure: bool, seconds: float) -> str:
    """The header that keeps a sign-in, or removes one."""
    value, age = (sign_in.token, max(0, int(seconds))) if sign_in is not None else ("", 0)
    name, flag = (SECURE_COOKIE, "; Secure") if secure else (COOKIE, "")
    return f"{name}={value}; Max-Age={age}; Path=/; HttpOnly; SameSite=Strict{flag}"
