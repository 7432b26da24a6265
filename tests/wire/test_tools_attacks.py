"""Hostile servers, hostile tenants, and endpoints that are called as tools."""

import asyncio
import resource
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from copy import deepcopy
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest

from tests.support.gateway import Client, Start, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.tool_gateway import (
    connected,
    has_tool,
    http_server,
    run_plain_server,
    run_server,
    server,
    wait_for_tool,
    wait_until,
)
from tests.support.upstream import Upstream, call, say
from tests.wire.test_tools import ask, names

KEYS = [
    {"name": f"{workspace}-{role}", "sha256": sha256(f"{workspace}-{role}".encode()).hexdigest(),
     "workspace": workspace, "role": role}
    for workspace in ("red", "blue")
    for role in ("chat", "editor")
]  # fmt: skip


SHARED: dict[str, Any] = {
    "contexts": {"shared": {"resources": {"files": server("files")}}},
    "agents": {"all": {"contexts": ["shared"]}},
}


def make_policies(**data: Any) -> dict[str, Any]:
    return {
        "contexts": {"ops": {"resources": {"rogue": server("rogue", data=data)}}},
        "agents": {"helper": {"contexts": ["ops"], "budget": 100_000}},
    }


@contextmanager
def rogue(start: Start, kind: str, **data: Any) -> Iterator[Client]:
    client = start(policies=make_policies(**data), tool_servers={"rogue": run_server(kind, module="rogue_server")})
    with connected(client):
        yield client


async def test_names_are_made_harmless_or_refused(start: Start, upstream: Upstream) -> None:
    with rogue(start, "names") as client:
        wait_for_tool(client, "ops/rogue.ok")
        offered = await ask(client, upstream)
        alike = ["rogue__a_b", "rogue__a_b_2", "rogue__a_b_3"]
        assert offered == ["rogue__ok", *alike, "rogue___", "rogue__get_context_resource"]
        upstream.will(call("rogue__a_b_3"), say("Done."))
        await client.chat(agent="helper")
        assert upstream.requests[-1]["messages"][-1]["content"] == "'a/b' was called"
        listed = (await manage(client, "GET", "/tool-servers")).json["items"]
        assert (listed[0]["refused"], listed[0]["state"]) == (4, "up")


async def test_ten_thousand_tools_are_bounded(start: Start, upstream: Upstream) -> None:
    with rogue(start, "many") as client:
        wait_for_tool(client, "ops/rogue.t0")
        assert len(client.app.policies.get_snapshot("default").resources) == 501
        assert len(await ask(client, upstream)) == 128


async def test_schemas_that_are_huge_deep_or_none_are_refused(start: Start, upstream: Upstream) -> None:
    with rogue(start, "schemas") as client:
        wait_for_tool(client, "ops/rogue.fine")
        assert await ask(client, upstream) == ["rogue__loop", "rogue__fine"]


async def test_a_list_that_breaks_the_protocol_is_no_list(start: Start, upstream: Upstream) -> None:
    with rogue(start, "invalid") as client:

        def is_down() -> bool:
            (status,) = client.app.tool_servers.list_statuses("default")
            return status.error == "the server sent something that the protocol does not allow"

        wait_until(is_down)
        assert await ask(client, upstream) == []


async def test_descriptions_are_made_harmless(start: Start, upstream: Upstream) -> None:
    with rogue(start, "tokens") as client:
        wait_for_tool(client, "ops/rogue.spell")
        await ask(client, upstream)
        sent = orjson.dumps(upstream.requests[-1]["tools"]).decode()
        assert "<|im_start|>" not in sent
        assert "--- Context [" not in sent


async def test_a_list_that_changes_all_the_time_is_followed_ever_more_slowly(start: Start, upstream: Upstream) -> None:
    with rogue(start, "changing") as client:
        wait_until(lambda: bool(client.app.policies.get_snapshot("default").tools))
        before = client.app.policies.generation
        await asyncio.sleep(2.0)
        # At 0.1, 0.2, 0.4, 0.8, then every second at most.
        assert client.app.policies.generation - before <= 6
        assert len(await ask(client, upstream)) == 1


async def test_a_server_that_never_ends_its_line_takes_no_memory(start: Start) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    policies = make_policies()
    settings = run_server("flood", module="rogue_server", connect_seconds=2)
    client = start(policies=policies, tool_servers={"rogue": settings})
    with connected(client):
        await asyncio.sleep(1.5)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # kilobytes


@pytest.fixture(scope="module")
def both_tenants(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Two tenants; a server of the operator that only one of them may use."""
    settings = {"tool_servers": {"files": run_server(workspaces=["blue"])}, "auth": {"keys": KEYS}}
    directory = tmp_path_factory.mktemp("tenants")
    with running_gateway(thread, directory, scripted.base_url, SHARED, **settings) as client, connected(client):
        wait_for_tool(client, "shared/files.echo")
        yield client


@pytest.fixture
async def tenants(both_tenants: Client) -> AsyncIterator[Client]:
    """The same, as if nobody had stored anything."""
    yield both_tenants
    for path in ("/agents/mine", "/contexts/mine"):
        deleted = await manage(both_tenants, "DELETE", path, authorization="Bearer red-editor")
        assert deleted.status in (204, 404), deleted.raw
    wait_until(lambda: not both_tenants.app.tool_servers.list_statuses("red"))


async def write(client: Client, data: dict[str, Any], *, by: str = "red-editor", kind: str = "mcp-server") -> Any:
    resource = {"type": kind, "description": "A tool", "data": data}
    body = {"alias": "mine", "resources": {"tool": resource}}
    return await manage(client, "POST", "/contexts", body, authorization=f"Bearer {by}")


@pytest.mark.parametrize(
    "data",
    [
        {"command": ["/bin/sh", "-c", "id"]},
        {"server": "files", "command": ["sh"]},
        {"url": "stdio:///bin/sh"},
        {"url": "file:///etc/passwd"},
        {"url": "https://user:secret@example.com/mcp"},
        {"url": "https://example.com/mcp", "headers": {"Host": "other"}},
        {"url": "https://example.com/mcp", "headers": {"X-A": "b\r\nX-C: d"}},
        {"server": "files"},
        {"server": "fils"},
    ],
)
async def test_a_tenant_can_neither_start_processes_nor_use_anothers_server(
    tenants: Client, data: dict[str, Any]
) -> None:
    refused = await write(tenants, data)
    assert refused.status == 422, refused.raw


async def test_what_a_tenant_may_not_use_it_is_not_told_of(tenants: Client, upstream: Upstream) -> None:
    refused = await write(tenants, {"server": "files"})
    assert "there is no server 'files'" in refused.raw.decode()
    assert (await manage(tenants, "GET", "/tool-servers", authorization="Bearer red-editor")).json["items"] == []
    listed = await manage(tenants, "GET", "/tool-servers", authorization="Bearer blue-editor")
    assert [one["name"] for one in listed.json["items"]] == ["files"]
    upstream.will(say("Done."), say("Done."))
    answered = await tenants.chat(agent="all", key="red-chat")
    assert (names(upstream.requests[-1]), answered.headers["x-context-degraded"]) == ([], "mcp")
    await tenants.chat(agent="all", key="blue-chat")
    assert "files__echo" in names(upstream.requests[-1])


@pytest.mark.parametrize("kind", ["mcp-server", "http-tool"])
@pytest.mark.parametrize(
    "url",
    ["http://169.254.169.254/latest", "http://127.0.0.1:8000/mcp", "http://[::1]:8000/mcp", "http://10.0.0.1/mcp"],
)
async def test_a_tenant_cannot_reach_what_is_not_public(
    tenants: Client, upstream: Upstream, kind: str, url: str
) -> None:
    created = await write(tenants, {"url": url}, kind=kind)
    assert created.status == 201, created.raw
    await manage(tenants, "POST", "/agents", {"alias": "mine", "contexts": ["mine"]}, authorization="Bearer red-editor")
    if kind == "http-tool":
        upstream.will(call("tool"), say("Done."))
        await tenants.chat(agent="mine", key="red-chat")
        result = upstream.requests[-1]["messages"][-1]["content"]
        assert result.startswith("Error: the endpoint cannot be called")
        return

    def is_refused() -> bool:
        status = tenants.app.tool_servers.list_statuses("red")
        return bool(status) and "not on the public Internet" in (status[0].error or "")

    wait_until(is_refused)
    upstream.will(say("Done."))
    answered = await tenants.chat(agent="mine", key="red-chat")
    assert answered.headers["x-context-degraded"] == "mcp"


async def test_each_workspace_has_a_process_of_its_own(start: Start, upstream: Upstream) -> None:
    client = start(
        policies=SHARED,
        tool_servers={"files": run_plain_server(env={"SECRET": "s3"})},
        auth={"keys": KEYS},
    )
    with connected(client):
        wait_for_tool(client, "shared/files.whoami")
        said: dict[str, list[str]] = {}
        for workspace in ("red", "blue", "red"):
            upstream.will(call("files__whoami"), say("Done."))
            await client.chat(agent="all", key=f"{workspace}-chat")
            said.setdefault(workspace, []).append(upstream.requests[-1]["messages"][-1]["content"])
        assert said["red"][0] == said["red"][1] != said["blue"][0]
        assert said["red"][0].endswith("secret s3")


async def test_a_stored_server_of_one_tenant_is_not_the_others(start: Start, upstream: Upstream) -> None:
    with http_server() as (port, _):
        client = start(policies={}, auth={"keys": KEYS}, links={"allow": ["127.0.0.1"]})
        with connected(client):
            created = await write(client, {"url": f"http://127.0.0.1:{port}/mcp"})
            assert created.status == 201, created.raw
            wait_for_tool(client, "mine/tool.echo", "red")
            assert not has_tool(client, "mine/tool.echo", "blue")
            assert (await manage(client, "GET", "/tool-servers", authorization="Bearer blue-editor")).json["total"] == 0
            deleted = await manage(client, "DELETE", "/contexts/mine", authorization="Bearer red-editor")
            assert deleted.status == 204
            wait_until(lambda: not client.app.tool_servers._connections)


class Endpoint:
    """An HTTP endpoint that remembers how it was called."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes, dict[str, str]]] = []
        self.reply: tuple[int, dict[str, str], bytes] = (200, {"content-type": "application/json"}, b'{"ok":true}')
        self.port = 0


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.seen.append((self.command, self.path, self.rfile.read(length), headers))
            status, headers, body = made.reply
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        do_GET = do_POST = do_DELETE = do_PUT = answer

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        made.port = web.server_address[1]
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            web.shutdown()
            thread.join(10)


CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def http_policies(port: int) -> dict[str, Any]:
    base = f"http://127.0.0.1:{port}"
    get = {"url": f"{base}/cities/{{city}}", "method": "GET", "parameters": deepcopy(CITY), "headers": {"X-Token": "t"}}
    post = {"url": f"{base}/orders", "parameters": deepcopy(CITY), "characters": 100, "seconds": 2, "brings": ["city"]}
    return {
        "contexts": {
            "web": {
                "resources": {
                    "city": {"type": "http-tool", "description": "A city", "mode": "manual", "data": get},
                    "buy": {"type": "http-tool", "description": "Order something", "data": post},
                }
            }
        },
        "agents": {"helper": {"contexts": ["web"]}},
    }


@pytest.fixture
def web(start: Start, endpoint: Endpoint) -> Client:
    return start(policies=http_policies(endpoint.port), links={"allow": ["127.0.0.1"]})


async def call_web(client: Client, upstream: Upstream, name: str, **arguments: Any) -> str:
    upstream.will(call(name, **arguments), say("Done."))
    answered = await client.chat(agent="helper")
    assert (answered.text, answered.tool_calls) == ("Done.", [])
    return str(upstream.requests[-1]["messages"][-1]["content"])


async def test_an_endpoint_is_called_as_a_tool(
    web: Client, upstream: Upstream, endpoint: Endpoint, stream: bool
) -> None:
    upstream.will(call("buy", city="Bonn"), say("Done."))
    answered = await web.chat(agent="helper", stream=stream)
    assert answered.text == "Done."
    assert upstream.requests[-1]["messages"][-1]["content"] == '{"ok":true}'
    assert names(upstream.requests[-1]) == ["buy", "city"]
    assert upstream.requests[-1]["tools"][0]["function"]["parameters"] == CITY
    method, path, body, _ = endpoint.seen[-1]
    assert (method, path, orjson.loads(body)) == ("POST", "/orders", {"city": "Bonn"})


async def test_arguments_fill_the_path_and_the_query_and_nothing_else(
    web: Client, upstream: Upstream, endpoint: Endpoint
) -> None:
    assert await call_web(web, upstream, "city", city="a/../b?c#d", q="x&y") == '{"ok":true}'
    method, path, _, headers = endpoint.seen[-1]
    assert (method, path) == ("GET", "/cities/a%2F..%2Fb%3Fc%23d?q=x%26y")
    assert headers["x-token"] == "t"
    assert "authorization" not in headers
    assert (
        await call_web(web, upstream, "city", city="..") == "Error: the arguments are not usable: city cannot be '..'."
    )
    assert await call_web(web, upstream, "city") == "Error: the arguments are not usable: city is missing."
    assert len(endpoint.seen) == 1


async def test_redirects_are_not_followed(web: Client, upstream: Upstream, endpoint: Endpoint) -> None:
    endpoint.reply = (302, {"location": "http://169.254.169.254/latest/meta-data"}, b"")
    result = await call_web(web, upstream, "buy", city="Bonn")
    assert result == "Error: the endpoint redirects elsewhere (HTTP 302), which is not followed."
    assert len(endpoint.seen) == 1


async def test_replies_are_bounded_and_errors_are_told(web: Client, upstream: Upstream, endpoint: Endpoint) -> None:
    endpoint.reply = (200, {"content-type": "text/plain"}, b"x" * 10_000_000)
    result = await call_web(web, upstream, "buy", city="Bonn")
    assert result.startswith("x" * 100 + "\n\n[cut: the first 100 of at least")
    endpoint.reply = (404, {"content-type": "text/plain"}, b"no such city")
    assert await call_web(web, upstream, "buy", city="Bonn") == "Error: the endpoint answered HTTP 404: no such city"
    endpoint.reply = (200, {"content-type": "image/png"}, b"\x89PNG")
    assert "is not text" in await call_web(web, upstream, "buy", city="Bonn")
    endpoint.reply = (200, {"content-type": "text/plain", "content-encoding": "br"}, b"???")
    assert "compressed" in await call_web(web, upstream, "buy", city="Bonn")


async def test_calls_of_one_workspace_leave_places_for_others(tenants: Client) -> None:
    queue = tenants.app.pipeline.tools.queue

    async def hold() -> None:
        for _ in range(32):
            await queue.acquire("red")
        await asyncio.wait_for(queue.acquire("blue"), 1)
        for _ in range(32):
            queue.release("red")
        queue.release("blue")

    tenants.thread.run(hold())
