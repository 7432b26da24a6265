"""Decides which URLs may be fetched, and at which addresses: the guard against server-side request forgery.

A host is resolved once, every address is checked, and the caller connects to exactly the addresses returned here.
"""

import asyncio
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

import msgspec

from gateway.links.addresses import Address, Network, is_public, unmap_ipv4

if TYPE_CHECKING:
    from yarl import URL

MAX_URL = 4096
WEB_PORTS = frozenset({80, 443, *range(8000, 9000)})

HTTP_URL = re.compile(r"https?://([^/?#]+)(?:[/?#].*)?", re.IGNORECASE)
HOST_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)*[a-z0-9_][a-z0-9_-]{0,62}")
NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zs", "Zl", "Zp"})  # controls, invisible, spaces

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class LinkError(ValueError):
    """A link without text, with a sentence that says why."""


class LinkRefused(LinkError):
    """A URL that must not be fetched."""


class AdmittedLink(msgspec.Struct, frozen=True):
    """A URL that may be fetched, but only at these addresses."""

    url: "URL"
    addresses: tuple[Address, ...]


class AllowList(msgspec.Struct, frozen=True):
    """What an operator allows in spite of the rules."""

    names: frozenset[str]
    networks: tuple[Network, ...]

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "AllowList":
        """The host names and networks in `links.allow`; raises LinkRefused for an invalid entry."""
        names: set[str] = set()
        networks: list[Network] = []
        for entry in entries:
            try:
                networks.append(ip_network(entry.strip().strip("[]"), strict=False))
            except ValueError:
                if set(entry) & set(":/?#"):
                    raise LinkRefused(f"links.allow: {entry!r} is neither a host name nor a network") from None
                names.add(_get_host(parse_url(f"http://{entry.strip()}/")))
        return cls(frozenset(names), tuple(networks))

    def has_address(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """Every address that the system knows for a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class LinkGuard:
    """Admits public addresses at web ports, and what the operator allows."""

    def __init__(
        self,
        allow: Iterable[str] = (),
        *,
        resolve: Resolve = resolve_name,
        public: Callable[[Address], bool] = is_public,
        ports: Collection[int] = WEB_PORTS,
    ) -> None:
        self._allowed = AllowList.parse(allow)
        self._resolve = resolve
        self._is_public = public
        self._ports = ports

    async def admit(self, url: str) -> AdmittedLink:
        """The URL with the only addresses to connect to; raises LinkRefused if any of them is forbidden."""
        parsed = parse_url(url)
        host, port = _get_host(parsed), parsed.port or 0
        literal = _parse_ip(host)
        addresses = [literal] if literal else await self._resolve_host(host, port)
        self._check(host, port, addresses)
        return AdmittedLink(parsed, tuple(addresses))

    async def _resolve_host(self, host: str, port: int) -> list[Address]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise LinkRefused(f"{host} cannot be resolved: {error}") from error
        if not found:
            raise LinkRefused(f"{host} has no address")
        try:
            return [unmap_ipv4(ip_address(entry)) for entry in found]
        except ValueError as error:
            raise LinkRefused(f"{host} resolves to an invalid address: {error}") from error

    def _check(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        if host in self._allowed.names:
            return
        others = [address for address in addresses if not self._allowed.has_address(address)]
        if not others:
            return
        for address in others:
            if not self._is_public(address):
                raise LinkRefused(f"{host} is at {address}, which is not on the public Internet (see links.allow)")
        if port not in self._ports:
            raise LinkRefused(f"port {port} is not a usual port of web servers (see links.allow)")


def parse_url(url: str) -> "URL":
    """A plain http(s) URL; raises LinkRefused for anything that two parsers could read differently."""
    if len(url) > MAX_URL:
        raise LinkRefused(f"the URL is longer than {MAX_URL} characters")
    if "\\" in url or any(unicodedata.category(character) in FORBIDDEN_CATEGORIES for character in url):
        raise LinkRefused("the URL contains a space, a control character or a backslash")
    match = HTTP_URL.fullmatch(url)
    if match is None:
        raise LinkRefused("the URL does not begin with http:// or https:// and a host")
    if "@" in match[1] or "%" in match[1]:
        raise LinkRefused("the URL contains a user name or an escape in its host")
    from yarl import URL  # only where something is linked: with what it imports it takes a megabyte

    try:
        parsed = URL(url).with_fragment(None)
        port = parsed.port
    except ValueError as error:  # includes UnicodeError, for names that IDNA does not know
        raise LinkRefused(f"the URL cannot be parsed: {error}") from error
    host = _get_host(parsed)
    if not host or not port or ("[" in match[1]) != (":" in host):
        raise LinkRefused("the URL has no valid host or port")
    _parse_ip(host)
    return parsed


def _get_host(url: "URL") -> str:
    return (url.raw_host or "").lower().removesuffix(".")


def _parse_ip(host: str) -> Address | None:
    """The address that is written in the URL, None for a name; raises LinkRefused for anything else.

    getaddrinfo would read 127.1, 0x7f.1 or 2130706433 as an address; a host that ends in a number must be a plain one.
    """
    if ":" in host or NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return unmap_ipv4(ip_address(host))
        except ValueError as error:
            raise LinkRefused(f"{host} is not a plain IP address") from error
    if not HOST_NAME.fullmatch(host):
        raise LinkRefused(f"{host} is not a host name")
    return None
