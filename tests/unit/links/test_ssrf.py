import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Network, ip_address

import pytest

from gateway.links.addresses import is_public
from gateway.links.fetch import fetch_page
from gateway.links.guard import LinkGuard, LinkRefused
from gateway.links.page import FetchError
from gateway.settings import LinkSettings
from tests.support import ssrf_vectors

PUBLIC = IPv4Address("127.0.0.2")  # plays the public Internet, so that nothing leaves the machine
LIMITS = LinkSettings(timeout=2)
ALL_PORTS = range(1, 65536)


@dataclass
class Site:
    """A loopback server that counts who connects, and redirects /<n> to the n-th Location."""

    port: int = 0
    connects: int = 0
    locations: list[str] = field(default_factory=list)
    servers: list[asyncio.Server] = field(default_factory=list)

    async def listen(self, host: str, port: int) -> None:
        server = await asyncio.start_server(self._serve, host, port)
        self.port = server.sockets[0].getsockname()[1]
        self.servers.append(server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connects += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            number = head.split()[1].decode().strip("/")
            location = self.locations[int(number)] if number.isdigit() else None
            found = f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
            fine = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi"
            writer.write((fine if location is None else found).encode("utf-8", "surrogateescape"))
            await writer.drain()
        writer.close()

    async def close(self) -> None:
        for server in self.servers:
            server.close()
            await server.wait_closed()


@pytest.fixture
async def canary() -> AsyncIterator[Site]:
    site = Site()
    await site.listen("127.0.0.1", 0)
    with contextlib.suppress(OSError):
        await site.listen("::1", site.port)
    yield site
    await site.close()


@pytest.fixture
async def public(canary: Site) -> AsyncIterator[Site]:
    site = Site()
    await site.listen(str(PUBLIC), canary.port)
    yield site
    await site.close()


def guard(public=is_public, **options) -> LinkGuard:
    return LinkGuard(public=lambda address: address == PUBLIC or public(address), ports=ALL_PORTS, **options)


class Resolver:
    """Gives one answer after the other and repeats the last."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.calls = 0

    async def __call__(self, host: str, port: int) -> list[str]:
        self.calls += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


async def let_through(rules: LinkGuard, urls: list[str]) -> list[str]:
    """The URLs that are not refused by the guard."""
    passed = []
    for url in urls:
        try:
            await rules.admit(url)
        except LinkRefused:
            continue
        passed.append(url)
    return passed


def test_there_are_enough_vectors():
    assert len(set(ssrf_vectors.urls(80))) >= 400
    assert len(set(ssrf_vectors.ADDRESSES)) >= 180


async def test_no_spelling_reaches_the_canary(canary):
    urls = ssrf_vectors.urls(canary.port)
    for url in urls:
        with pytest.raises(LinkRefused):
            await fetch_page(url, guard=guard(), limits=LIMITS)
    assert canary.connects == 0


async def test_no_redirect_reaches_the_canary(canary, public):
    # A line break cannot be in a header; without a host, a Location stays on the server that sent it.
    urls = [url for url in ssrf_vectors.urls(canary.port) if re.match(r"\w+://[^/\n]+/[^\n]*$", url)]
    public.locations = urls
    for number in range(len(urls)):
        with pytest.raises((LinkRefused, FetchError)):
            await fetch_page(f"http://{PUBLIC}:{public.port}/{number}", guard=guard(), limits=LIMITS)
    assert canary.connects == 0
    assert public.connects == len(urls) > 400


async def test_no_answer_of_a_name_server_reaches_the_canary(canary):
    for address in ssrf_vectors.ADDRESSES:
        for answer in ([address], [str(PUBLIC), address], [address, str(PUBLIC)]):
            with pytest.raises(LinkRefused):
                await fetch_page(
                    f"http://a.example:{canary.port}/", guard=guard(resolve=Resolver(answer)), limits=LIMITS
                )
    assert canary.connects == 0


async def test_a_name_is_resolved_once_and_dialled_where_it_was_checked(canary, public):
    resolve = Resolver([str(PUBLIC)], ["127.0.0.1"])
    fetched = await fetch_page(f"http://a.example:{public.port}/", guard=guard(resolve=resolve), limits=LIMITS)
    assert (fetched.text, resolve.calls) == ("hi", 1)
    assert (public.connects, canary.connects) == (1, 0)


async def test_a_name_that_rebinds_between_hops_is_refused(canary, public):
    public.locations = ["/again"]
    resolve = Resolver([str(PUBLIC)], ["127.0.0.1"])
    with pytest.raises(LinkRefused):
        await fetch_page(f"http://a.example:{public.port}/0", guard=guard(resolve=resolve), limits=LIMITS)
    assert (public.connects, canary.connects) == (1, 0)


async def test_the_canary_would_notice_a_guard_that_lets_everything_through(canary):
    for host in ("127.0.0.1", "localhost", "127。0。0。1", "[::ffff:127.0.0.1]", "0.0.0.0"):
        before = canary.connects
        await fetch_page(f"http://{host}:{canary.port}/", guard=guard(lambda address: True), limits=LIMITS)
        assert canary.connects == before + 1


MUTANTS = {
    "6to4": "2002::/16",
    "NAT64": "64:ff9b::/96",
    "local NAT64": "64:ff9b:1::/48",
    "Teredo": "2001::/32",
    "IPv4-compatible": "::/96",
    "IPv4-translated": "::ffff:0:0:0/96",
    "site-local": "fec0::/10",
}


@pytest.mark.parametrize("network", MUTANTS.values(), ids=MUTANTS.keys())
async def test_the_vectors_catch_a_guard_that_forgets(network):
    forgotten = IPv6Network(network)
    mutant = guard(lambda address: is_public(address) or (address.version == 6 and address in forgotten))
    urls = ssrf_vectors.urls(80)
    assert await let_through(guard(), urls) == []
    caught = await let_through(mutant, urls)
    assert caught
    assert all(ip_address(url[len("http://[") : url.index("]")]) in forgotten for url in caught)
