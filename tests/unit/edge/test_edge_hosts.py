"""Which Host and Origin are accepted."""

import pytest

from gateway.edge.access import REMEMBERED, HostCheck
from gateway.edge.request import read_head
from gateway.errors import ForbiddenHost, InvalidRequest


def request(host: str, origin: str | None = None) -> list[tuple[bytes, bytes]]:
    headers = [(b"accept", b"*/*"), (b"host", host.encode())]
    return headers if origin is None else [*headers, (b"origin", origin.encode())]


LOOPBACK = [
    "localhost",
    "LOCALHOST:8080",
    "localhost.",
    "127.0.0.1",
    "127.0.0.1:8080",
    "127.8.9.10:1",
    "[::1]",
    "[::1]:80",
]
FOREIGN = [
    "example.com",
    "127.0.0.1.example.com",
    "localhost.example.com",
    "127.1",
    "2130706433",
    "0.0.0.0",
    "10.0.0.1:8080",
    "[::2]:80",
    "[::1",
    "[::1]x",
    "localhost:80:80",
    "localhost:x",
    "localhost@example.com",
    ":8080",
]


@pytest.mark.parametrize("host", LOOPBACK)
def test_without_keys_loopback_names_are_accepted(host):
    HostCheck([]).check(read_head(request(host)), keyed=False)


@pytest.mark.parametrize("host", FOREIGN)
def test_without_keys_other_names_are_refused(host):
    check = HostCheck([])
    for _ in range(2):
        with pytest.raises(ForbiddenHost):
            check.check(read_head(request(host)), keyed=False)


def test_configured_names_are_accepted_with_any_port():
    check = HostCheck(["Gateway.Local", "other.local:9000"])
    for host in ("gateway.local", "GATEWAY.local:1234", "other.local:9000", "localhost"):
        check.check(read_head(request(host)), keyed=False)
    with pytest.raises(ForbiddenHost):
        check.check(read_head(request("other.local:9001")), keyed=False)


def test_with_keys_any_host_is_accepted_unless_names_are_configured():
    HostCheck([]).check(read_head(request("anything.example:1")), keyed=True)
    check = HostCheck(["gateway.example"])
    for host in ("gateway.example:443", "localhost"):
        check.check(read_head(request(host)), keyed=True)
    with pytest.raises(ForbiddenHost):
        check.check(read_head(request("other.example")), keyed=True)


@pytest.mark.parametrize("needed", [True, False])
@pytest.mark.parametrize("headers", [[], [(b"host", b"")], [(b"host", b"localhost"), (b"host", b"localhost")]])
def test_exactly_one_host_is_required(needed, headers):
    with pytest.raises(InvalidRequest):
        HostCheck([]).check(read_head(headers), keyed=needed)


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8080", "https://gateway.local"])
def test_without_keys_pages_of_accepted_hosts_are_accepted(origin):
    HostCheck(["gateway.local"]).check(read_head(request("localhost", origin)), keyed=False)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://", "http://localhost.evil.example"])
def test_without_keys_pages_of_other_origins_are_refused(origin):
    with pytest.raises(ForbiddenHost):
        HostCheck([]).check(read_head(request("localhost", origin)), keyed=False)


def test_with_keys_the_origin_does_not_matter():
    HostCheck([]).check(read_head(request("gateway.example", "https://app.example")), keyed=True)


def test_made_up_names_do_not_fill_the_memory():
    check = HostCheck([])
    for number in range(REMEMBERED + 10):
        with pytest.raises(ForbiddenHost):
            check.check(read_head(request(f"h{number}.example")), keyed=False)
    assert len(check._verdicts) == REMEMBERED
    check.check(read_head(request("localhost")), keyed=False)


def test_the_rule_follows_keys_as_they_come_and_go():
    keys: list[str] = []
    check = HostCheck([])
    with pytest.raises(ForbiddenHost):
        check.check(read_head(request("gateway.example")), keyed=bool(keys))
    keys.append("first")
    check.check(read_head(request("gateway.example", "https://app.example")), keyed=bool(keys))
    keys.clear()
    with pytest.raises(ForbiddenHost):
        check.check(read_head(request("gateway.example")), keyed=bool(keys))
