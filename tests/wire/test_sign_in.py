"""Signing in with a key: what the cookie is worth, to whom, for how long, and what a page elsewhere can do with it."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.domain.principal import Role
from tests.support.gateway import Client, ClientReply, Start, follow_store, read
from tests.support.management_client import manage
from tests.support.upstream import Upstream, say

ROLES = [role.value for role in Role]
KEYS: list[dict[str, Any]] = [
    {"name": role, "sha256": sha256(role.encode()).hexdigest(), "role": role, "workspace": "acme"} for role in ROLES
]
CHAT = {"model": "m-large", "messages": [{"role": "user", "content": "Hello"}]}


@dataclass
class Browser:
    """Somebody who has signed in."""

    client: Client
    cookie: str
    csrf: str

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> ClientReply:
        """As the console's pages ask; header names are written with `_` for `-`."""
        named = {"cookie": self.cookie, "x-csrf-token": self.csrf} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, f"http://127.0.0.1:{self.client.port}{path}", json=body, headers=named) as response,
        ):
            return await read(response)


async def sign_in(client: Client, key: str = "admin", **headers: str) -> Browser:
    reply = await manage(client, "POST", "/sign-in", authorization=f"Bearer {key}", **headers)
    assert reply.status == 201, reply.raw
    return Browser(client, reply.headers["set-cookie"].partition(";")[0], reply.json["csrf_token"])


@pytest.fixture
def client(start: Start) -> Client:
    return start(auth={"keys": KEYS})


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(client: Client) -> None:
    reply = await manage(client, "POST", "/sign-in", authorization="Bearer admin")
    name, _, attributes = reply.headers["set-cookie"].partition("=")
    assert name == "context-sign-in"
    age, *flags = attributes.split("; ")[1:]
    assert flags == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert 43_190 <= int(age.removeprefix("Max-Age=")) <= 43_200
    assert attributes.split(";")[0] not in reply.raw.decode()  # no script can read it from the reply either


async def test_over_tls_no_neighbouring_host_can_set_the_cookie(client: Client) -> None:
    reply = await manage(
        client, "POST", "/sign-in", authorization="Bearer admin", origin=f"https://127.0.0.1:{client.port}"
    )
    assert reply.headers["set-cookie"].startswith("__Host-context-sign-in=")
    assert reply.headers["set-cookie"].endswith("; Secure")
    browser = Browser(client, reply.headers["set-cookie"].partition(";")[0], reply.json["csrf_token"])
    assert (await browser.ask("GET", "/api/v1/me")).json["name"] == "admin"
    ended = await browser.ask("DELETE", "/api/v1/sign-in")
    assert ended.headers["set-cookie"].startswith("__Host-context-sign-in=; Max-Age=0")


@pytest.mark.parametrize("role", ROLES)
async def test_a_browser_may_do_what_its_key_may_do(client: Client, role: str) -> None:
    browser = await sign_in(client, role)
    me = (await browser.ask("GET", "/api/v1/me")).json
    assert (me["name"], me["role"], me["workspace"]) == (role, role, "acme")
    assert me["rights"] == ["chat", "edit", "admin"][: ROLES.index(role) + 1]
    assert me["sign_in"]["csrf_token"] == browser.csrf
    made = await browser.ask("POST", "/api/v1/contexts", {"alias": "fresh"})
    listed = await browser.ask("GET", "/api/v1/keys")
    assert (made.status, listed.status) == {"chat": (403, 403), "editor": (201, 403), "admin": (201, 200)}[role]


async def test_the_playground_chats_with_the_cookie_and_upstreams_never_see_it(
    client: Client, upstream: Upstream, stream: bool
) -> None:
    browser = await sign_in(client, "chat")
    upstream.will(say("Hi."))
    reply = await browser.ask("POST", "/v1/chat/completions", {**CHAT, "stream": stream}, x_context_agent="editor")
    assert (reply.status, reply.text) == (200, "Hi.")
    (sent,) = upstream.headers
    assert not {"cookie", "x-csrf-token"} & {name.lower() for name in sent}
    assert (await browser.ask("GET", "/v1/models")).status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/embeddings"),
        ("POST", "/api/v1/contexts"),
        ("PUT", "/api/v1/agents/editor"),
        ("DELETE", "/api/v1/sign-in"),
    ],
)
@pytest.mark.parametrize("token", ["", "wrong", "é"])
async def test_no_change_without_the_token_of_the_page(client: Client, method: str, path: str, token: str) -> None:
    browser = await sign_in(client)
    reply = await browser.ask(method, path, CHAT, x_csrf_token=token)
    assert (reply.status, b"invalid_csrf_token" in reply.raw) == (403, True)


async def test_the_token_of_one_sign_in_is_no_good_for_another(client: Client) -> None:
    first, second = await sign_in(client), await sign_in(client)
    assert first.csrf != second.csrf
    reply = await first.ask("POST", "/api/v1/contexts", {"alias": "fresh"}, x_csrf_token=second.csrf)
    assert reply.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
async def test_pages_elsewhere_get_nothing_even_with_cookie_and_token(client: Client, headers: dict[str, str]) -> None:
    browser = await sign_in(client)
    for method, path in (("GET", "/api/v1/me"), ("POST", "/v1/chat/completions")):
        reply = await browser.ask(method, path, CHAT if method == "POST" else None, **headers)
        assert (reply.status, b"invalid_csrf_token" in reply.raw) == (403, True)


async def test_the_pages_of_the_gateway_itself_are_served(client: Client) -> None:
    browser = await sign_in(client)
    own = {"origin": f"http://127.0.0.1:{client.port}", "sec_fetch_site": "same-origin"}
    assert (await browser.ask("POST", "/api/v1/contexts", {"alias": "fresh"}, **own)).status == 201


async def test_behind_a_proxy_the_configured_names_are_our_own(start: Start) -> None:
    client = start(auth={"keys": KEYS}, hosts=["gateway.example"])
    browser = await sign_in(client)
    for origin, status in (("https://gateway.example", 200), ("https://other.example", 403)):
        assert (await browser.ask("GET", "/api/v1/me", origin=origin)).status == status


async def test_signing_out_ends_it_at_once(client: Client) -> None:
    browser = await sign_in(client)
    ended = await browser.ask("DELETE", "/api/v1/sign-in")
    assert (ended.status, ended.headers["set-cookie"].split(";")[:2]) == (204, ["context-sign-in=", " Max-Age=0"])
    assert (await browser.ask("GET", "/api/v1/me")).status == 401
    assert (await browser.ask("POST", "/v1/chat/completions", CHAT)).status == 401


async def test_it_ends_with_its_key(client: Client) -> None:
    made = (
        await manage(client, "POST", "/keys", {"name": "anna", "role": "editor"}, authorization="Bearer admin")
    ).json
    browser = await sign_in(client, made["key"])
    path = f"/keys/{made['id']}"
    await manage(client, "PUT", path, {"name": "anna", "role": "chat"}, authorization="Bearer admin")
    assert (await browser.ask("GET", "/api/v1/me")).json["role"] == "chat"  # as the key is now, not as it was
    await manage(client, "DELETE", path, authorization="Bearer admin")
    assert (await browser.ask("GET", "/api/v1/me")).status == 401


async def test_it_lasts_no_longer_than_its_key_and_cannot_renew_itself(client: Client) -> None:
    spec = {"name": "guest", "role": "editor", "expires_at": "2099-01-01T00:00:00Z"}
    made = (await manage(client, "POST", "/keys", spec, authorization="Bearer admin")).json
    browser = await sign_in(client, made["key"])
    again = await browser.ask("POST", "/api/v1/sign-in")
    assert again.status == 401


async def test_a_value_that_somebody_else_chose_is_never_adopted(client: Client) -> None:
    planted = f"context-sign-in={'A' * 43}"
    browser = await sign_in(client, cookie=planted)
    assert browser.cookie != planted
    for cookie in (planted, "context-sign-in=", "context-sign-in", "context-sign-in=%00", f"x={'y' * 20_000}"):
        assert (await Browser(client, cookie, "x").ask("GET", "/api/v1/me")).status == 401


async def test_signing_in_again_ends_the_former_one(client: Client) -> None:
    first = await sign_in(client)
    await sign_in(client, "editor", cookie=first.cookie)
    assert (await first.ask("GET", "/api/v1/me")).status == 401


async def test_a_key_wins_over_a_cookie(client: Client) -> None:
    browser = await sign_in(client, "chat")
    me = (await browser.ask("GET", "/api/v1/me", authorization="Bearer admin")).json
    assert (me["name"], me["sign_in"]) == ("admin", None)
    assert (await browser.ask("GET", "/api/v1/me", authorization="Bearer wrong")).status == 401


async def test_wrong_keys_are_tried_only_so_often(client: Client) -> None:
    paths = ["/sign-in", "/sign-in/", "/%73ign-in", "//sign-in"]
    statuses = [
        (await manage(client, "POST", paths[n % 4], authorization=f"Bearer wrong{n}")).status for n in range(22)
    ]
    assert statuses == [401] * 20 + [429] * 2
    refused = await manage(client, "POST", "/sign-in", authorization="Bearer wrong")
    assert (refused.status, 1 <= int(refused.headers["retry-after"]) <= 60) == (429, True)
    # Whoever shares the address, as all do behind a proxy, is not locked out.
    assert (await manage(client, "POST", "/sign-in", authorization="Bearer admin")).status == 201


async def test_a_key_cannot_fill_the_store_with_sign_ins(start: Start) -> None:
    client = start(auth={"keys": KEYS})
    statuses = [(await manage(client, "POST", "/sign-in", authorization="Bearer chat")).status for _ in range(62)]
    assert statuses == [201] * 60 + [429] * 2
    assert (await manage(client, "POST", "/sign-in", authorization="Bearer admin")).status == 201


async def test_without_keys_nobody_has_to_sign_in(start: Start) -> None:
    client = start()
    me = (await manage(client, "GET", "/me")).json
    assert (me["name"], me["role"], me["key"], me["sign_in"]) == ("anonymous", "admin", None, None)
    assert (await manage(client, "POST", "/sign-in")).status == 409


async def test_without_the_console_nobody_can_sign_in(start: Start) -> None:
    client = start(auth={"keys": KEYS}, console=False)
    assert (await manage(client, "POST", "/sign-in", authorization="Bearer admin")).status == 404


async def test_another_replica_knows_who_signed_in_and_who_signed_out(start: Start, tmp_path: Path) -> None:
    settings = {"auth": {"keys": KEYS}, "store": f"sqlite:///{tmp_path}/shared.db"}
    with follow_store(start(**settings)) as one, follow_store(start(**settings)) as other:
        browser = await sign_in(one)
        elsewhere = Browser(other, browser.cookie, browser.csrf)
        await browser.ask("DELETE", "/api/v1/sign-in")
        assert (await elsewhere.ask("GET", "/api/v1/me")).status == 401
        browser = await sign_in(one)
        elsewhere = Browser(other, browser.cookie, browser.csrf)
        assert (await elsewhere.ask("POST", "/api/v1/contexts", {"alias": "fresh"})).status == 201


def read_files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("shared.db*"))


async def test_the_store_holds_neither_the_cookie_nor_the_key(start: Start, tmp_path: Path) -> None:
    browser = await sign_in(start(auth={"keys": KEYS}, store=f"sqlite:///{tmp_path}/shared.db"))
    token = browser.cookie.partition("=")[2]
    held = read_files(tmp_path)
    assert b"sign-in:" + sha256(token.encode()).hexdigest().encode() in held
    for secret in (token, browser.csrf, sha256(b"admin").hexdigest()):
        assert secret.encode() not in held
