"""Decides which URL may be dialled, and at which addresses: the guard against server-side request forgery.

A host is resolved once, every address is checked, and the caller dials exactly the addresses that come back from here.
"""

import asyncio
import re
import socket
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from yarl import URL

from gateway.links.addresses import Address, Network, is_public, plain

MAX_URL = 4096
WEB_PORTS = frozenset({80, 443, *range(8000, 9000)})

SHAPE = re.compile(r"https?://([^/?#]+)(?:[/?#].*)?", re.IGNORECASE)
NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,62})\.)*[a-z0-9_][a-z0-9_-]{0,62}")
NUMBER = re.compile(r"\d+|0x[0-9a-f]*")
UNFIT = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zs", "Zl", "Zp"})  # controls, invisible characters, blanks

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class LinkError(ValueError):
    """A link that gives no text, with a sentence that says why."""


class LinkRefused(LinkError):
    """A URL that is not fetched."""


@dataclass(frozen=True, slots=True)
class AdmittedLink:
    """A URL that may be fetched, but only at these addresses."""

    url: URL
    addresses: tuple[Address, ...]


async def resolve_name(host: str, port: int) -> Sequence[str]:
    """Every address that the system knows for a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Guard:
    """The rules, with what an operator allows in spite of them."""

    def __init__(
        self,
        allow: Iterable[str] = (),
        *,
        resolve: Resolve = resolve_name,
        public: Callable[[Address], bool] = is_public,
        ports: Collection[int] = WEB_PORTS,
    ) -> None:
        self._names, self._networks = _sort_out(allow)
        self._resolve = resolve
        self._public = public
        self._ports = ports

    async def admit(self, url: str) -> AdmittedLink:
        """The URL with the only addresses it may be dialled at; Refused if any of them is out of bounds."""
        parsed = parse(url)
        host, port = _host(parsed), parsed.port or 0
        literal = _literal(host)
        addresses = [literal] if literal else await self._lookup(host, port)
        self._check(host, port, addresses)
        return AdmittedLink(parsed, tuple(addresses))

    async def _lookup(self, host: str, port: int) -> list[Address]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise LinkRefused(f"{host} cannot be resolved: {error}") from error
        if not found:
            raise LinkRefused(f"{host} has no address")
        try:
            return [plain(ip_address(entry)) for entry in found]
        except ValueError as error:
            raise LinkRefused(f"{host} resolves to something that is no address: {error}") from error

    def _check(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        if host in self._names:
            return
        trusted = [any(address in network for network in self._networks) for address in addresses]
        if all(trusted):
            return
        for address, known in zip(addresses, trusted, strict=True):
            if not known and not self._public(address):
                raise LinkRefused(f"{host} is at {address}, which is not on the public Internet (see links.allow)")
        if port not in self._ports:
            raise LinkRefused(f"port {port} is not one that web servers use (see links.allow)")


def parse(url: str) -> URL:
    """A plain http(s) URL; nothing that two parsers could read differently."""
    if len(url) > MAX_URL:
        raise LinkRefused(f"the URL is longer than {MAX_URL} characters")
    if "\\" in url or any(unicodedata.category(character) in UNFIT for character in url):
        raise LinkRefused("the URL holds a blank, a control character or a backslash")
    shape = SHAPE.fullmatch(url)
    if shape is None:
        raise LinkRefused("the URL does not begin with http:// or https:// and a host")
    if "@" in shape[1] or "%" in shape[1]:
        raise LinkRefused("the URL holds a user name or an escape in its host")
    try:
        parsed = URL(url).with_fragment(None)
        port = parsed.port
    except ValueError as error:  # UnicodeError, for names that IDNA does not know, is one too
        raise LinkRefused(f"the URL cannot be read: {error}") from error
    if not _host(parsed) or not port or ("[" in shape[1]) != (":" in _host(parsed)):
        raise LinkRefused("the URL has no proper host or port")
    _literal(_host(parsed))
    return parsed


def _host(url: URL) -> str:
    return (url.raw_host or "").lower().removesuffix(".")


def _literal(host: str) -> Address | None:
    """The address that is written in the URL, None for a name.

    getaddrinfo would read 127.1, 0x7f.1 or 2130706433 as an address; whatever ends in a number has to be a plain one.
    """
    if ":" in host or NUMBER.fullmatch(host.rpartition(".")[2]):
        try:
            return plain(ip_address(host))
        except ValueError as error:
            raise LinkRefused(f"{host} is not a plain IP address") from error
    if not NAME.fullmatch(host):
        raise LinkRefused(f"{host} is not a host name")
    return None


def _sort_out(allow: Iterable[str]) -> tuple[frozenset[str], tuple[Network, ...]]:
    names: set[str] = set()
    networks: list[Network] = []
    for entry in allow:
        try:
            networks.append(ip_network(entry.strip().strip("[]"), strict=False))
        except ValueError:
            if set(entry) & set(":/?#"):
                raise LinkRefused(f"links.allow: {entry!r} is neither a host name nor a network") from None
            names.add(_host(parse(f"http://{entry.strip()}/")))
    return frozenset(names), tuple(networks)
