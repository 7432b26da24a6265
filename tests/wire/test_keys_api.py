"""Keys over the wire: made, used, limited, changed and revoked through the API of a real gateway."""

import asyncio
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import openai
import orjson
import pytest

from tests.support.contract_policies import ask
from tests.support.gateway import POLICIES, Client, ClientReply, Start, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.upstream import Upstream, say


def configured(name: str, **said: Any) -> dict[str, Any]:
    return {"name": name, "sha256": sha256(name.encode()).hexdigest(), **said}


KEYS = [
    configured("root", role="admin", groups=["*"], rights=["act_as_user"]),
    configured("lead", role="admin", groups=["press"], limits={"requests": 1000}),
    configured("writer", role="editor"),
    configured("site"),
    configured("stranger", role="admin", workspace="elsewhere"),
]
READERS = {"type": "text", "name": "Embargo", "readers": ["group:press"], "data": {"content": "Not before noon."}}
SECRETIVE = POLICIES | {"contexts": POLICIES["contexts"] | {"news": {"default": True, "resources": {"e": READERS}}}}


@pytest.fixture(scope="module")
def keyed(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("keys")
    with running_gateway(thread, directory, scripted.base_url, SECRETIVE, auth={"keys": KEYS}) as client:
        yield client


async def call(
    client: Client, key: str | None, method: str, path: str = "/keys", body: Any = None, **more: str
) -> ClientReply:
    return await manage(client, method, path, body, **({"authorization": f"Bearer {key}"} if key else {}), **more)


async def made(client: Client, by: str = "root", **wish: Any) -> dict[str, Any]:
    answer = await call(client, by, "POST", body=wish)
    assert answer.status == 201, answer.raw
    assert answer.headers["location"] == f"/api/v1/keys/{answer.json['id']}"
    return answer.json


async def test_a_key_is_usable_as_soon_as_it_is_made_and_useless_as_soon_as_it_is_revoked(
    keyed: Client, upstream: Upstream
) -> None:
    key = await made(keyed)
    upstream.will(say("Done."))
    assert (await keyed.chat(key=key["key"])).status == 200
    assert key["key"] not in str(upstream.headers[-1])
    assert (await call(keyed, "root", "DELETE", f"/keys/{key['id']}")).status == 204
    gone = await keyed.chat(key=key["key"])
    assert (gone.status, gone.error["code"]) == (401, "invalid_api_key")
    assert (await call(keyed, "root", "GET", f"/keys/{key['id']}")).status == 404


@pytest.mark.parametrize(
    ("key", "status"),
    [("root", 200), ("lead", 200), ("stranger", 200), ("writer", 403), ("site", 403), ("nobody", 401), (None, 401)],
)
async def test_keys_are_for_admins(keyed: Client, key: str | None, status: int) -> None:
    answer = await call(keyed, key, "GET")
    assert answer.status == status
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        for method, path in (("POST", "/keys"), ("DELETE", "/keys/key-0"), ("PUT", "/keys/key-0"), ("GET", "/keys/x")):
            assert (await call(keyed, key, method, path, {} if method in ("POST", "PUT") else None)).status == status


async def test_a_chat_key_may_not_touch_the_management_api(keyed: Client) -> None:
    key = await made(keyed, role="chat")
    for path in ("/keys", "/resource-types"):
        answer = await call(keyed, key["key"], "GET", path)
        assert (answer.status, answer.json["code"]) == (403, "forbidden")
    assert (await call(keyed, key["key"], "GET", "/openapi.json")).status == 200


async def test_a_key_is_shown_once_and_its_hash_never(keyed: Client) -> None:
    key = await made(keyed, name="shown")
    listed = await call(keyed, "root", "GET")
    one = await call(keyed, "root", "GET", f"/keys/{key['id']}")
    changed = await call(keyed, "root", "PUT", f"/keys/{key['id']}", {"name": "shown", "tier": "pro"})
    assert (changed.status, changed.json["tier"], changed.json["version"]) == (200, "pro", 2)
    digest = sha256(key["key"].encode()).hexdigest()
    for answer in (listed, one, changed):
        assert not any(secret.encode() in answer.raw for secret in (key["key"], digest, digest[:12], "sha256"))
        assert not any(sha256(one["name"].encode()).hexdigest()[:12].encode() in answer.raw for one in KEYS)


async def test_a_workspace_sees_its_own_keys_only(keyed: Client) -> None:
    key = await made(keyed)
    foreign = [await call(keyed, "stranger", method, f"/keys/{key['id']}") for method in ("GET", "DELETE")]
    unknown = [await call(keyed, "stranger", method, "/keys/key-000000000000") for method in ("GET", "DELETE")]
    for one, other in zip(foreign, unknown, strict=True):
        assert one.status == other.status == 404
        assert one.raw.replace(key["id"].encode(), b"key-000000000000") == other.raw
    names = [one["name"] for one in (await call(keyed, "stranger", "GET")).json["items"]]
    assert names == ["stranger"]


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"workspace": "elsewhere"}, "workspace"),
        ({"groups": ["staff"]}, "groups"),
        ({"groups": ["*"]}, "groups"),
        ({"act_for_users": True}, "act_for_users"),
        ({"limits": {"requests": 1001}}, "limits.requests"),
        ({"limits": {"requests": None}}, "limits.requests"),
    ],
)
async def test_a_key_grants_nothing_that_it_lacks(keyed: Client, wish: dict[str, Any], field: str) -> None:
    answer = await call(keyed, "lead", "POST", body=wish)
    assert (answer.status, answer.json["code"]) == (403, "forbidden")
    assert answer.json["detail"].startswith(f"{field}: ")


async def test_a_key_that_has_more_is_out_of_reach(keyed: Client) -> None:
    strong = await made(keyed, act_for_users=True)
    for method, body in (("DELETE", None), ("PUT", {})):
        answer = await call(keyed, "lead", method, f"/keys/{strong['id']}", body)
        assert (answer.status, answer.json["detail"].partition(":")[0]) == (403, "limits.requests")


async def test_keys_of_the_configuration_are_listed_and_cannot_be_changed(keyed: Client) -> None:
    items = (await call(keyed, "root", "GET", "/keys?filter=site")).json["items"]
    (site,) = [one for one in items if one["source"] == "config"]
    for method, body in (("DELETE", None), ("PUT", {})):
        assert (await call(keyed, "root", method, f"/keys/{site['id']}", body)).status == 409


async def test_a_change_can_be_made_dependent_on_what_was_seen(keyed: Client) -> None:
    key = await made(keyed)
    path = f"/keys/{key['id']}"
    tag = (await call(keyed, "root", "GET", path)).headers["etag"]
    assert (await call(keyed, "root", "GET", path, if_none_match=tag)).status == 304
    assert (await call(keyed, "root", "PUT", path, {"tier": "pro"}, if_match=tag)).status == 200
    assert (await call(keyed, "root", "PUT", path, {"tier": "gold"}, if_match=tag)).status == 412
    assert (await call(keyed, "root", "PUT", path, {"tier": "gold"}, if_none_match="*")).status == 412
    assert (await call(keyed, "root", "DELETE", path, if_match=tag)).status == 412


@pytest.mark.parametrize(
    ("wish", "pointer"),
    [
        ({"role": "owner"}, "/role"),
        ({"limits": {"requests": 0}}, "/limits/requests"),
        ({"limits": {"requests": 10**13}}, "/limits/requests"),
        ({"name": "two\nlines"}, "/name"),
        ({"sha256": "ab" * 32}, "/sha256"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "/expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "/expires_at"),
        ({"expires_at": 4102444800}, "/expires_at"),
        ({"act_for_users": "no"}, "/act_for_users"),
        ({"limits": {"tokens": "5"}}, "/limits/tokens"),
    ],
)
async def test_a_wish_that_makes_no_sense_is_pointed_at(keyed: Client, wish: dict[str, Any], pointer: str) -> None:
    answer = await call(keyed, "root", "POST", body=wish)
    assert (answer.status, [one["pointer"] for one in answer.json["errors"]]) == (422, [pointer])


async def test_groups_open_what_is_kept_for_readers_and_names_do_not(keyed: Client, upstream: Upstream) -> None:
    keys = [await made(keyed, **wish) for wish in ({"groups": ["press"]}, {"groups": ["*"]}, {}, {"name": "press"})]
    for key, sees in zip(keys, (True, True, False, False), strict=True):
        upstream.will(say("Done."))
        await keyed.chat(key=key["key"])
        assert ("Not before noon." in orjson.dumps(upstream.requests[-1]).decode()) is sees


async def test_a_user_with_the_name_of_a_group_reads_nothing_more(keyed: Client, upstream: Upstream) -> None:
    key = await made(keyed, act_for_users=True)
    for user, sees in (("press", False), ("group:press", False), ("*", False)):
        upstream.will(say("Done."))
        await ask(keyed, [("authorization", f"Bearer {key['key']}"), ("x-context-user", user)])
        assert ("Not before noon." in orjson.dumps(upstream.requests[-1]).decode()) is sees


async def test_requests_beyond_the_limit_are_refused_with_everything_a_client_needs(
    keyed: Client, upstream: Upstream
) -> None:
    key = await made(keyed, limits={"requests": 2})
    upstream.will(say("Done."), say("Done."))
    answers = [await keyed.chat(key=key["key"]) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 429]
    refused = answers[-1]
    assert (refused.error["code"], refused.error["type"]) == ("rate_limited", "rate_limit_error")
    assert 1 <= int(refused.headers["retry-after"]) <= 65
    for name in ("x-context-receipt", "x-context-injected", "x-context-tokens", "x-context-snapshot"):
        assert name in refused.headers
    assert refused.headers["x-context-snapshot"] == answers[0].headers["x-context-snapshot"]
    assert 'gateway_limited_total{limit="requests"}' in (await ask(keyed, path="/metrics", method="GET")).raw.decode()


async def test_listing_models_counts_as_a_request(keyed: Client, upstream: Upstream) -> None:
    """Upstreams with `pass_bearer` are asked each time."""
    key = await made(keyed, limits={"requests": 1})
    statuses = [(await keyed.get("/models", authorization=f"Bearer {key['key']}")).status for _ in range(2)]
    assert statuses == [200, 429]


async def test_the_openai_client_sees_a_rate_limit(keyed: Client, upstream: Upstream) -> None:
    key = await made(keyed, limits={"requests": 1})
    upstream.will(say("Done."))
    async with openai.AsyncOpenAI(base_url=keyed.base_url, api_key=key["key"], max_retries=0) as client:
        messages: Any = [{"role": "user", "content": "Hi"}]
        await client.chat.completions.create(model="m-large", messages=messages)
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(model="m-large", messages=messages)
    assert refused.value.code == "rate_limited"


async def test_what_is_passed_through_counts_as_a_request(keyed: Client, upstream: Upstream) -> None:
    key = await made(keyed, limits={"requests": 1})
    upstream.will(say("Done."))
    assert (await keyed.chat(key=key["key"])).status == 200
    refused = await keyed.post(b'{"model": "m", "input": "x"}', "/embeddings", authorization=f"Bearer {key['key']}")
    assert (refused.status, refused.error["code"]) == (429, "rate_limited")


@pytest.mark.parametrize("agent", ["editor", "bare"], ids=["with tools", "relayed"])
async def test_tokens_are_counted_as_the_upstream_reports_them(
    keyed: Client, upstream: Upstream, agent: str, stream: bool
) -> None:
    key = await made(keyed, limits={"tokens": 100})
    said: dict[str, Any] = {"agent": agent, "key": key["key"], "stream": stream}
    if stream:
        said["stream_options"] = {"include_usage": True}
    upstream.will(say("Done.").but(usage={"total_tokens": 99}), say("Done.").but(usage={"total_tokens": 1}))
    assert [(await keyed.chat(**said)).status for _ in range(3)] == [200, 200, 429]


async def test_a_stream_that_hides_its_usage_is_not_free(keyed: Client, upstream: Upstream) -> None:
    key = await made(keyed, limits={"tokens": 30})
    upstream.will(say("Done.").but(usage=None))
    said: dict[str, Any] = {"agent": "bare", "key": key["key"], "stream": True}
    assert [(await keyed.chat("word " * 30, **said)).status for _ in range(2)] == [200, 429]


async def test_without_any_key_the_first_one_closes_the_door_behind_it(start: Start, upstream: Upstream) -> None:
    gateway = start()
    upstream.will(say("Done."), say("Done."))
    assert (await gateway.chat()).status == 200
    refused = await call(gateway, None, "POST", body={"role": "admin", "act_for_users": True})
    assert (refused.status, refused.json["detail"].partition(":")[0]) == (403, "act_for_users")
    first = (await call(gateway, None, "POST", body={"role": "admin"})).json
    assert (await gateway.chat()).status == 401
    assert (await call(gateway, None, "GET")).status == 401
    assert (await gateway.chat(key=first["key"])).status == 200


async def test_while_the_store_is_lost_for_long_stored_keys_wait_and_configured_ones_do_not(
    start: Start, upstream: Upstream
) -> None:
    gateway = start(auth={"keys": KEYS, "stale_seconds": 0.5})
    key = await made(gateway)
    upstream.will(say("Done."), say("Done."), say("Done."))
    assert (await gateway.chat(key=key["key"])).status == 200
    await asyncio.sleep(0.6)  # nobody asks the store here: this gateway does not follow it
    for given in (key["key"], "unknown"):
        lost = await gateway.chat(key=given)
        assert (lost.status, lost.error["code"]) == (503, "unavailable")
        assert int(lost.headers["retry-after"]) > 0
    assert (await gateway.chat(key="site")).status == 200
    gateway.thread.run(gateway.app.policies.refresh())
    assert (await gateway.chat(key=key["key"])).status == 200
    assert (await gateway.chat(key="unknown")).status == 401
