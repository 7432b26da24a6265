"""Once a gateway has had a key, nobody is let in without one: not after the last is revoked, nor after a restart."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway import cli
from tests.support.contract_policies import ask
from tests.support.gateway import Client, Thread, follow_store, running_gateway
from tests.support.management_client import manage
from tests.support.redis_server import RedisServer, running_redis
from tests.support.upstream import Upstream, say, wait_for

CONFIGURED = {"name": "fixed", "sha256": sha256(b"fixed").hexdigest()}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture(params=["redis", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> str:
    server.client().flushall()
    return server.url if request.param == "redis" else f"sqlite:///{tmp_path / 'shared.db'}"


class Nodes:
    """Gateways on one store, as many as a test starts."""

    def __init__(self, thread: Thread, upstream: Upstream, directory: Path, store: str, stack: ExitStack) -> None:
        self._thread, self._upstream, self._directory, self._store, self._stack = (
            thread,
            upstream,
            directory,
            store,
            stack,
        )

    def start(self, stack: ExitStack | None = None, **changes: Any) -> Client:
        stack = stack or self._stack
        node = running_gateway(self._thread, self._directory, self._upstream.base_url, store=self._store, **changes)
        return stack.enter_context(follow_store(stack.enter_context(node)))


@pytest.fixture
def nodes(thread: Thread, scripted: Upstream, tmp_path: Path, store: str) -> Iterator[Nodes]:
    with ExitStack() as stack:
        yield Nodes(thread, scripted, tmp_path, store, stack)


async def status_of(client: Client, upstream: Upstream, secret: str | None = None) -> int:
    upstream.reset()
    upstream.will(say("Done."))
    headers = [("authorization", f"Bearer {secret}")] if secret else []
    answer = await ask(client, headers)
    upstream.reset()
    return answer.status


def run_cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, store: str, *words: str) -> Any:
    config = tmp_path / "config.yaml"
    config.write_text(
        f"store: {store}\nupstreams: {{demo: {{kind: demo}}}}\nroutes: [{{model: demo, upstream: demo}}]\n"
    )
    capsys.readouterr()
    assert cli.main(["keys", words[0], "--config", str(config), "--json", *words[1:]]) == 0
    return orjson.loads(capsys.readouterr().out)


async def test_revoking_the_last_key_leaves_every_node_closed_until_the_command_line_makes_a_new_one(
    nodes: Nodes, upstream: Upstream, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = nodes.start(), nodes.start()
    assert (await status_of(first, upstream), await status_of(second, upstream)) == (200, 200)
    made = await manage(first, "POST", "/keys", {"role": "admin"})
    assert made.status == 201
    admin = {"authorization": f"Bearer {made.json['key']}"}
    assert (await manage(first, "DELETE", f"/keys/{made.json['id']}", **admin)).status == 204
    wait_for(lambda: second.app.auth.keyed)
    third = nodes.start()  # a node that never saw the key
    for node in (first, second, third):
        assert await status_of(node, upstream) == 401
        assert await status_of(node, upstream, made.json["key"]) == 401
        assert (await manage(node, "POST", "/keys", {"role": "admin"})).status == 401
    refused = await ask(third)
    assert "gateway keys create" in refused.error["message"]

    fresh = await asyncio.to_thread(run_cli, capsys, tmp_path, store, "create", "--role", "admin")
    wait_for(lambda: bool(third.app.policies.list_records("keys")))
    assert await status_of(third, upstream, fresh["key"]) == 200
    assert await status_of(third, upstream) == 401
    await asyncio.to_thread(run_cli, capsys, tmp_path, store, "revoke", fresh["id"])
    wait_for(lambda: not third.app.policies.list_records("keys"))
    assert await status_of(third, upstream) == 401


async def test_a_key_that_came_and_went_between_two_looks_is_noticed(nodes: Nodes, upstream: Upstream) -> None:
    first = nodes.start()
    with ExitStack() as stack:  # this node does not follow the store meanwhile
        made = await manage(first, "POST", "/keys", {"role": "admin"})
        admin = {"authorization": f"Bearer {made.json['key']}"}
        late = nodes.start(stack)
        assert (await manage(first, "DELETE", f"/keys/{made.json['id']}", **admin)).status == 204
        wait_for(lambda: not late.app.policies.list_records("keys"))
        assert await status_of(late, upstream) == 401


async def test_keys_of_the_configuration_are_remembered_too(nodes: Nodes, upstream: Upstream) -> None:
    with ExitStack() as stack:
        keyed = nodes.start(stack, auth={"keys": [CONFIGURED]})
        assert (await status_of(keyed, upstream, "fixed"), await status_of(keyed, upstream)) == (200, 401)
    assert await status_of(nodes.start(), upstream) == 401


async def test_the_memory_of_a_key_is_nobodys_object(nodes: Nodes, store: str) -> None:
    client = nodes.start(auth={"keys": [CONFIGURED | {"role": "admin"}]})
    admin = {"authorization": "Bearer fixed"}
    listed = await manage(client, "GET", "/audit", **admin)
    assert (listed.status, listed.json["items"]) == (200, [])
    exported = await manage(client, "GET", "/export", **admin)
    assert b"first-key" not in exported.raw


async def test_the_audit_names_the_key_that_was_used(nodes: Nodes) -> None:
    client = nodes.start(auth={"keys": [CONFIGURED | {"role": "admin"}]})
    admin = {"authorization": "Bearer fixed"}
    lead = (await manage(client, "POST", "/keys", {"name": "lead", "role": "admin"}, **admin)).json
    own = {"authorization": f"Bearer {lead['key']}"}
    assert (await manage(client, "POST", "/contexts", {"alias": "c"}, **own)).status == 201
    assert (await manage(client, "PUT", f"/keys/{lead['id']}", {"name": "boss", "role": "admin"}, **own)).status == 200
    assert (await manage(client, "DELETE", "/contexts/c", **own)).status == 204
    items = (await manage(client, "GET", "/audit", **admin)).json["items"]
    shown = [(one["kind"], one["action"], one["by"], one["key"]) for one in items]
    (listed,) = (one for one in (await manage(client, "GET", "/keys", **admin)).json["items"] if one["name"] == "fixed")
    assert shown == [
        ("contexts", "delete", "boss", lead["id"]),
        ("keys", "update", "lead", lead["id"]),
        ("contexts", "create", "lead", lead["id"]),
        ("keys", "create", "fixed", listed["id"]),
    ]
    by_id = (await manage(client, "GET", f"/audit?by={lead['id']}", **admin)).json
    by_name = (await manage(client, "GET", "/audit?by=boss", **admin)).json
    assert (by_id["total"], by_name["total"]) == (3, 1)
