"""Where an upstream is, and how a connection to it is opened: names, addresses, TLS."""

import asyncio
import socket
import ssl
from asyncio import Protocol
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

ADDRESS_SECONDS: Final = 10  # how long the addresses of a name are used before it is looked up again
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
PATH_CHARACTERS: Final = "/%:@!$&'()*+,;=~"  # besides letters, digits and -._ (RFC 3986 §3.3)

AnyProtocol = TypeVar("AnyProtocol", bound=Protocol)


class Endpoint(msgspec.Struct, frozen=True):
    """A base URL, taken apart."""

    host: str
    port: int
    is_tls: bool
    authority: str  # the value of the Host header
    path: str  # without a slash at its end
    query: str


def parse_endpoint(url: str) -> Endpoint:
    """The endpoint of a base URL that the settings have checked."""
    parts = urlsplit(url)
    host = encode_host(parts.hostname or "")
    default = DEFAULT_PORTS[parts.scheme]
    port = parts.port or default
    name = f"[{host}]" if ":" in host else host
    return Endpoint(
        host,
        port,
        parts.scheme == "https",
        name if port == default else f"{name}:{port}",
        quote(parts.path.rstrip("/"), safe=PATH_CHARACTERS),
        quote(parts.query, safe=PATH_CHARACTERS + "?"),
    )


def encode_host(host: str) -> str:
    """The name as DNS knows it."""
    return host if host.isascii() else host.encode("idna").decode()


class ResumingContext(ssl.SSLContext):
    """A TLS context that offers the last session of the same endpoint again: a handshake without certificates."""

    session: ssl.SSLSession | None = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session or self.session)


def build_tls_context() -> ResumingContext:
    """Certificates and host names are checked against the system's authorities."""
    context = ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Dialer:
    """Opens connections to one endpoint. Addresses are tried in turn, the one that worked last comes first."""

    def __init__(self, endpoint: Endpoint, seconds: float) -> None:
        self.seconds = seconds
        self._endpoint = endpoint
        self._tls: ResumingContext | None = None  # made for the first connection: it reads all authorities
        self._addresses: list[str] = []
        self._resolved_at = float("-inf")
        self._preferred = ""
        self._lookup = asyncio.Lock()

    async def open(self, build_protocol: Callable[[], AnyProtocol]) -> AnyProtocol:
        """Connect; raises OSError, or TimeoutError after `seconds` for all of it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.seconds
        async with asyncio.timeout_at(deadline):
            addresses = await self._resolve()
            for address in addresses[:-1]:
                try:
                    # Half of what is left: an address that does not answer must not take it all.
                    async with asyncio.timeout((deadline - loop.time()) / 2):
                        return await self._connect(address, build_protocol)
                except ssl.SSLError:
                    raise
                except OSError:  # TimeoutError is one
                    continue
            return await self._connect(addresses[-1], build_protocol)

    def save_session(self, tls: ssl.SSLObject) -> None:
        """Remember the TLS session of a connection; its tickets come after the handshake, with the first reply."""
        if self._tls is not None and tls.session is not None:
            self._tls.session = tls.session

    async def _connect(self, address: str, build_protocol: Callable[[], AnyProtocol]) -> AnyProtocol:
        loop, endpoint = asyncio.get_running_loop(), self._endpoint
        if not endpoint.is_tls:
            _, protocol = await loop.create_connection(build_protocol, address, endpoint.port)
        else:
            if self._tls is None:
                self._tls = build_tls_context()
            _, protocol = await loop.create_connection(
                build_protocol, address, endpoint.port, ssl=self._tls, server_hostname=endpoint.host
            )
        self._preferred = address
        return protocol

    async def _resolve(self) -> list[str]:
        """The addresses of the host, at least one; a burst of connections looks them up once."""
        loop = asyncio.get_running_loop()
        async with self._lookup:
            if loop.time() - self._resolved_at > ADDRESS_SECONDS:
                found = await loop.getaddrinfo(self._endpoint.host, self._endpoint.port, type=socket.SOCK_STREAM)
                self._addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
                self._resolved_at = loop.time()
        return sorted(self._addresses, key=lambda address: address != self._preferred)
