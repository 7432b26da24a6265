"""The console of a running gateway: who is served, by which host, and what a page elsewhere may read."""

from typing import Any

import aiohttp
import pytest

from tests.support.gateway import Client, Start


async def fetch(client: Client, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{client.port}{path}", headers=headers) as response,
    ):
        named = {name.lower(): value for name, value in response.headers.items()}
        return response.status, named, await response.text()


KEYS: dict[str, Any] = {"keys": [{"name": "app", "sha256": "0" * 64}]}


async def test_the_console_is_there_with_and_without_a_slash_and_needs_no_key(start: Start) -> None:
    client = start(auth=KEYS)
    for path in ("/console", "/console/", "//console/x/.."):
        status, headers, page = await fetch(client, path)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "Context Gateway" in page


@pytest.mark.parametrize(
    ("method", "accept", "status"),
    [("GET", "text/html,*/*;q=0.8", 307), ("HEAD", "text/html", 307), ("GET", "*/*", 404), ("POST", "text/html", 404)],
)
async def test_the_address_alone_leads_browsers_to_the_console(
    start: Start, method: str, accept: str, status: int
) -> None:
    url, asked = start().base_url.removesuffix("/v1") + "/", {"accept": accept}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url, headers=asked, allow_redirects=False) as response,
    ):
        assert (response.status, response.headers.get("location")) == (status, "/console" if status == 307 else None)


async def test_without_the_setting_there_is_no_console(start: Start) -> None:
    assert (await fetch(start(console=False), "/console"))[0] == 404


async def test_a_page_elsewhere_cannot_reach_the_console_of_this_machine(start: Start) -> None:
    assert (await fetch(start(), "/console", Host="rebound.example"))[0] == 403


async def test_configured_origins_may_not_read_the_console(start: Start) -> None:
    origin = "https://app.example.com"
    client = start(cors={"origins": [origin]})
    _, console, _ = await fetch(client, "/console", Origin=origin)
    _, models, _ = await fetch(client, "/v1/models", Origin=origin)
    assert ("access-control-allow-origin" in console, "access-control-allow-origin" in models) == (False, True)


async def test_the_console_is_counted_under_its_own_name(start: Start) -> None:
    client = start()
    await fetch(client, "/console")
    assert 'gateway_requests_total{route="console",status="200"} 1.0' in (await fetch(client, "/metrics"))[2]
