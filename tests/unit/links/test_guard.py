from ipaddress import ip_address

import pytest

from gateway.links.addresses import is_public
from gateway.links.guard import MAX_URL, LinkGuard, LinkRefused, parse_url, resolve_name

LEGITIMATE = [
    "http://example.com",
    "http://example.com/",
    "https://example.com/a/b?c=d&e=%20f#part",
    "HTTPS://EXAMPLE.COM/",
    "https://example.com.",
    "https://example.com:443/",
    "http://example.com:80/",
    "http://example.com:8080/x",
    "https://example.com:8443/",
    "http://example.com:8000/",
    "http://example.com:8999/",
    "https://www.example.co.uk/",
    "https://a.b.c.d.e.f.example.org/",
    "https://sub-domain.example.com/",
    "https://under_score.example.com/",
    "https://123.example.com/",
    "https://1and1.example/",
    "https://127.0.0.1.example.com/",
    "https://localhost.example.com/",
    "https://0x7f.example.com/",
    "https://3com.com/",
    "https://münchen.de/straße",
    "https://xn--mnchen-3ya.de/",
    "https://例え.jp/パス",
    "https://россия.рф/",
    "https://bücher.example:8080/",
    "https://ελλάδα.gr/",
    "https://example.com/@user",
    "https://example.com/?q=@me",
    "https://example.com/?next=http://127.0.0.1/",
    "https://example.com/http://10.0.0.1/",
    "https://example.com//double//slash",
    "https://example.com/%2e%2e/x",
    "https://example.com/a;b=c",
    "https://example.com/~user/",
    "https://example.com/?",
    "https://example.com#top",
    "http://1.1.1.1/",
    "http://8.8.8.8:80/",
    "http://9.255.255.255/",
    "http://11.0.0.1/",
    "http://100.63.255.255/",
    "http://100.128.0.1/",
    "http://172.15.255.255/",
    "http://172.32.0.1/",
    "http://192.167.255.255/",
    "http://192.169.0.1/",
    "http://198.17.255.255/",
    "http://223.255.255.255/",
    "http://[2606:4700:4700::1111]/",
    "http://[2001:4860:4860::8888]:8080/",
    "http://[::ffff:8.8.8.8]/",
    "http://[64:ff9b::8.8.8.8]/",
    "http://[2a00:1450:4001:82a::200e]/",
]


def names(*addresses: str):
    async def resolve(host: str, port: int) -> list[str]:
        return list(addresses)

    return resolve


@pytest.mark.parametrize("url", LEGITIMATE)
async def test_a_legitimate_url_is_admitted(url):
    rules = LinkGuard(resolve=names("93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"))
    admitted = await rules.admit(url)
    assert all(is_public(address) for address in admitted.addresses)


def test_enough_legitimate_urls_are_tried():
    assert len(set(LEGITIMATE)) >= 40


@pytest.mark.parametrize("port", [21, 22, 23, 25, 110, 445, 3306, 5432, 6379, 7999, 9000, 9200, 11211, 27017, 65535])
async def test_ports_that_web_servers_do_not_use_are_refused(port):
    with pytest.raises(LinkRefused, match=f"port {port}"):
        await LinkGuard(resolve=names("8.8.8.8")).admit(f"http://example.com:{port}/")


@pytest.mark.parametrize(
    ("allow", "url", "answer"),
    [
        ("wiki.internal", "http://wiki.internal/", "10.1.2.3"),
        ("wiki.internal", "http://WIKI.internal.:9000/", "10.1.2.3"),
        ("Bücher.example", "http://xn--bcher-kva.example/", "10.1.2.3"),
        ("10.1.0.0/16", "http://anything.example/", "10.1.2.3"),
        ("10.1.0.0/16", "http://10.1.2.3:9000/", ""),
        ("10.1.2.3", "http://10.1.2.3/", ""),
        ("10.1.2.3", "http://[::ffff:10.1.2.3]/", ""),
        ("fd00::/8", "http://[fd00::1]/", ""),
        ("[::1]", "http://[::1]:9000/", ""),
    ],
)
async def test_what_the_operator_allows_is_admitted(allow, url, answer):
    admitted = await LinkGuard([allow], resolve=names(answer)).admit(url)
    assert len(admitted.addresses) == 1


@pytest.mark.parametrize(
    ("allow", "url", "answer"),
    [
        ("wiki.internal", "http://evil.wiki.internal/", "10.1.2.3"),
        ("wiki.internal", "http://wiki.internal.evil.example/", "10.1.2.3"),
        ("wiki.internal", "http://10.1.2.3/", ""),
        ("10.1.0.0/16", "http://anything.example/", "10.2.0.1"),
        ("10.1.0.0/16", "http://[64:ff9b::10.1.2.3]/", ""),
        ("127.0.0.1", "http://127.0.0.2/", ""),
        ("127.0.0.1", "http://127.1/", ""),
    ],
)
async def test_nothing_else_is_admitted_for_that(allow, url, answer):
    with pytest.raises(LinkRefused):
        await LinkGuard([allow], resolve=names(answer)).admit(url)


async def test_one_allowed_address_does_not_vouch_for_another():
    with pytest.raises(LinkRefused, match=r"10\.2\.0\.1"):
        await LinkGuard(["10.1.0.0/16"], resolve=names("10.1.2.3", "10.2.0.1")).admit("http://a.example/")


@pytest.mark.parametrize(
    "entry", ["10.1.0.0/99", "wiki.internal:9000", "wiki.internal/path", "http://wiki", "127.1", ""]
)
def test_an_allow_list_with_nonsense_is_refused(entry):
    with pytest.raises(LinkRefused):
        LinkGuard([entry])


@pytest.mark.parametrize("answer", [(), ("not-an-address",), ("fe80::1%eth0",)])
async def test_an_answer_without_a_usable_address_is_refused(answer):
    with pytest.raises(LinkRefused):
        await LinkGuard(resolve=names(*answer)).admit("http://a.example/")


async def test_a_name_that_does_not_resolve_is_refused():
    async def resolve(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(LinkRefused, match="cannot be resolved"):
        await LinkGuard(resolve=resolve).admit("http://a.example/")


async def test_the_system_resolver_gives_addresses():
    assert {str(ip_address(found)) for found in await resolve_name("localhost", 80)} <= {"127.0.0.1", "::1"}


def test_an_endless_url_is_refused():
    with pytest.raises(LinkRefused, match="longer"):
        parse_url("http://example.com/" + "a" * MAX_URL)


def test_the_fragment_is_not_part_of_what_is_asked():
    assert str(parse_url("http://example.com/a#b")) == "http://example.com/a"
