"""Reader lists name users, groups and keys: three name spaces, and nobody slips from one into another."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.cli import main
from gateway.domain.record import Author, RecordKey, RecordWrite
from gateway.stores.open import open_stores
from tests.support.contract_policies import ask, names_in, text
from tests.support.gateway import Client, Start
from tests.support.management_client import manage
from tests.support.upstream import Upstream, say

KINDS = ("user", "group", "key")
# One resource for the user, one for the group and one for the key that all have the same name.
CONTEXT = {"resources": {kind: text(f"For the {kind}.", name=kind, readers=[f"{kind}:staff"]) for kind in KINDS}}
POLICIES: dict[str, Any] = {
    "contexts": {"house": {**CONTEXT, "default": True}},
    "content": {kind: {"readers": [f"{kind}:staff"]} for kind in KINDS},
}


def configured(secret: str, **said: Any) -> dict[str, Any]:
    return {"name": secret, "sha256": sha256(secret.encode()).hexdigest(), **said}


AUTH = {
    "keys": [
        configured("app", rights=["act_as_user"]),
        configured("member", groups=["staff"]),
        configured("all", groups=["*"], rights=["act_as_user"]),
        configured("staff"),
        configured("root", role="admin"),
    ]
}


@pytest.mark.parametrize(
    ("secret", "user", "sees"),
    [
        ("app", None, []),
        ("app", "staff", ["user"]),
        ("app", "group:staff", []),
        ("app", "key:staff", []),
        ("app", "*", []),
        ("member", None, ["group"]),
        ("all", None, ["group"]),
        ("all", "staff", ["user", "group"]),
        ("staff", None, ["key"]),
    ],
)
async def test_a_name_opens_what_lists_it_with_its_own_kind_only(
    start: Start, upstream: Upstream, secret: str, user: str | None, sees: list[str]
) -> None:
    client = start(policies=POLICIES, auth=AUTH)
    headers = [("authorization", f"Bearer {secret}"), *([("x-context-user", user)] if user else [])]
    upstream.will(say("Done."))
    assert (await ask(client, headers)).status == 200
    assert names_in(upstream.requests[-1]) == sees
    for kind in KINDS:
        upstream.will(*([say("Done.")] if kind in sees else []))
        reply = await ask(client, [*headers, ("x-context-content", kind)])
        assert reply.status == (200 if kind in sees else 400)


BARE: dict[str, Any] = {"contexts": {"c": {"resources": {"r": text("For hr.", readers=["group:ok", "hr"])}}}}
HINT = "write 'user:hr' or 'group:hr' or 'key:hr'"


@pytest.mark.parametrize(
    ("policies", "path"),
    [
        (BARE, "contexts.c.resources.r.readers.1"),
        ({"contexts": {"c": {"resources": {"r": text("For hr.", readers="hr")}}}}, "contexts.c.resources.r.readers"),
        ({"content": {"n": {"children": {"m": {"readers": ["hr"]}}}}}, "content.n.children.m.readers.0"),
    ],
)
def test_a_bare_name_in_a_file_is_a_fault_that_says_how_to_write_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policies: dict[str, Any], path: str
) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "all.yaml").write_bytes(orjson.dumps(policies))
    (tmp_path / "config.yaml").write_text(
        "store: 'memory:'\nupstreams: {demo: {kind: demo}}\nroutes: [{model: demo, upstream: demo}]\n"
    )
    assert main(["check", "--config", str(tmp_path / "config.yaml")]) == 1
    told = capsys.readouterr()
    assert f" {path}: 'hr' does not say" in told.out + told.err
    assert HINT in told.out + told.err


@pytest.mark.parametrize("name", ["user:", "group: ", "key:*", "group:*", " user:ann", "users:ann", "user: ann"])
async def test_a_name_that_nobody_has_is_a_fault(start: Start, name: str) -> None:
    client = start(policies=POLICIES)
    body = {"alias": "c", "resources": [{"id": "r", **text("x", readers=[name])}]}
    answer = await manage(client, "POST", "/contexts", body)
    assert (answer.status, answer.json["errors"][0]["pointer"]) == (422, "/resources/0/readers/0")


async def test_the_api_points_at_a_bare_name(start: Start) -> None:
    client = start(policies=POLICIES)
    resource = text("x", readers=["group:ok", "hr"])
    assert (await manage(client, "POST", "/contexts", {"alias": "c"})).status == 201
    asked = [
        ("POST", "/contexts", {"alias": "d", "resources": {"r": resource}}, "/resources/r/readers/1"),
        ("POST", "/contexts/c/resources", {"id": "r", **resource}, "/readers/1"),
        ("POST", "/content", {"key": "n", "readers": ["hr"]}, "/readers/0"),
        ("POST", "/import", BARE, "/contexts/c/resources/r/readers/1"),
    ]
    for method, path, body, pointer in asked:
        answer = await manage(client, method, path, body)
        assert answer.status == 422, (path, answer.raw)
        (error,) = answer.json["errors"]
        assert error["pointer"] == pointer
        assert HINT in error["message"]


async def store_bare_names(url: str) -> None:
    """What an earlier release stored, when a bare name stood for users, groups and keys alike."""
    stores = await open_stores(url)
    bodies = {
        RecordKey("default", "contexts", "old"): {
            "default": True,
            "resources": {"r": text("For hr.", name="Old", readers=["hr"]), "open": text("For all.", name="Open")},
        },
        RecordKey("default", "content", "n"): {"key": "n", "parent": None, "readers": ["hr"]},
    }
    try:
        writes = [RecordWrite(key, orjson.dumps(body), id=key.alias) for key, body in bodies.items()]
        await stores.records.commit(writes, Author("anna", "create"))
    finally:
        await stores.close()


async def read_error(client: Client) -> str:
    return str(client.app.policies.error)


async def test_stored_bare_names_from_before_name_nobody_and_are_reported(
    start: Start, upstream: Upstream, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/gateway.db"
    await store_bare_names(url)
    callers = [configured("hr", rights=["act_as_user"], role="admin"), configured("member", groups=["hr", "*"])]
    client = start(policies={}, store=url, auth={"keys": callers})
    for secret, more in (("hr", []), ("hr", [("x-context-user", "hr")]), ("member", [])):
        headers = [("authorization", f"Bearer {secret}"), *more]
        upstream.will(say("Done."))
        assert (await ask(client, headers)).status == 200  # the rest of the workspace is served
        assert names_in(upstream.requests[-1]) == ["Open"]
        assert (await ask(client, [*headers, ("x-context-content", "n")])).status == 400
    assert "resource old/r: 'hr' does not say" in caplog.text
    assert "node n: 'hr' does not say" in await read_error(client)

    # Whoever edits the object has to write the name anew; then the report is gone.
    admin = {"authorization": "Bearer hr"}
    stored = (await manage(client, "GET", "/contexts/old", **admin)).json
    refused = await manage(client, "PUT", "/contexts/old", stored, **admin)
    assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, "/resources/0/readers/0")
    resource = text("For hr.", name="Old", readers=["group:hr"])
    assert (await manage(client, "PUT", "/contexts/old/resources/r", resource, **admin)).status == 200
    node = {"key": "n", "parent": None, "readers": ["group:hr"]}
    assert (await manage(client, "PUT", "/content/n", node, **admin)).status == 200
    assert await read_error(client) == "None"
    upstream.will(say("Done."))
    await ask(client, [("authorization", "Bearer member"), ("x-context-content", "n")])
    assert names_in(upstream.requests[-1]) == ["Old", "Open"]
