"""Requests as real clients send them: other headers, paths, queries, keys and methods than the plain ones."""

from hashlib import sha256
from typing import Any

import aiohttp
import openai
import orjson
import pytest
from openai import AzureOpenAI
from pydantic import ValidationError

from tests.support.contract_policies import BODY, POLICIES, about, ask, system_text
from tests.support.gateway import Client, ClientReply, Start, read
from tests.support.upstream import Upstream, call, say, status

KEYS = {"keys": [{"name": "site", "sha256": sha256(b"gw-key").hexdigest()}]}
PAGE = "https://desk.example.com"
HELLO: Any = [{"role": "user", "content": "Tidy this"}]


async def send(gateway: Client, method: str, path: str, *headers: tuple[str, str]) -> ClientReply:
    """A request without a body."""
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, gateway.base_url.removesuffix("/v1") + path, headers=list(headers)) as response,
    ):
        return await read(response)


async def test_configured_headers_go_up_with_every_turn(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, forward_headers=["X-Team", "http-referer"])
    upstream.will(call("get_context_resource", resource_id="house/style"), say("Done."))
    await ask(gateway, [("x-team", "blue"), ("http-referer", "desk"), ("x-other", "z"), *about(agent="editor")])
    assert [(one["x-team"], one["http-referer"], "x-other" in one) for one in upstream.headers] == [
        ("blue", "desk", False),
        ("blue", "desk", False),
    ]


@pytest.mark.parametrize("name", ["authorization", "Cookie", "x-context-agent", "x-forwarded-for", "a b", "x-api-key"])
def test_headers_that_must_not_go_up_cannot_be_configured(start: Start, name: str) -> None:
    with pytest.raises(ValidationError):
        start(forward_headers=[name])


@pytest.mark.parametrize("passes", [False, True])
async def test_the_clients_account_goes_up_with_its_own_bearer_only(
    start: Start, upstream: Upstream, passes: bool
) -> None:
    gateway = start(policies=POLICIES, auth=KEYS, upstream_settings={"pass_bearer": passes})
    upstream.will(say("Done."))
    own = [("authorization", "Bearer sk-mine"), ("x-context-key", "gw-key")]
    await ask(gateway, [*own, ("openai-organization", "org-1"), ("openai-project", "proj-1")])
    (headers,) = upstream.headers
    named = (headers.get("openai-organization"), headers.get("openai-project"))
    assert named == (("org-1", "proj-1") if passes else (None, None))


@pytest.mark.parametrize("agent", ["kind", "editor"])
async def test_the_query_of_a_chat_request_goes_up(start: Start, upstream: Upstream, agent: str) -> None:
    gateway = start(policies=POLICIES)
    upstream.will(say("Done."))
    answer = await ask(gateway, about(agent=agent), path="/v1/chat/completions?trace=1&x=a%20b")
    assert (answer.status, upstream.seen[0].path) == (200, "/v1/chat/completions?trace=1&x=a%20b")


async def test_what_the_base_url_says_wins_over_the_query(start: Start, upstream: Upstream) -> None:
    gateway = start(upstream_settings={"base_url": upstream.base_url + "?api-version=ours"})
    upstream.will(say("Done."), say("Done."))
    await ask(gateway, path="/v1/chat/completions?api-version=theirs&x=1")
    await ask(gateway)
    assert [one.path for one in upstream.seen] == [
        "/v1/chat/completions?api-version=ours&x=1",
        "/v1/chat/completions?api-version=ours",
    ]


async def test_a_query_that_is_no_url_is_refused(start: Start, upstream: Upstream) -> None:
    answer = await ask(start(), path="/v1/chat/completions?x=%22")
    assert answer.status == 418  # an escape passes; the script is over
    assert upstream.seen[0].path.endswith("?x=%22")


@pytest.mark.parametrize("name", ["api-key", "x-api-key", "x-context-key"])
async def test_other_dialects_keys_are_keys(start: Start, upstream: Upstream, name: str) -> None:
    gateway = start(policies=POLICIES, auth=KEYS)
    upstream.will(say("Done."))
    assert (await ask(gateway, [(name, "gw-key")])).status == 200
    assert "gw-key" not in str(upstream.headers[0])
    assert (await ask(gateway, [(name, "wrong")])).status == 401
    assert (await ask(gateway, [(name, "")])).status == 401
    assert (await send(gateway, "GET", "/v1/models", (name, "gw-key"))).status == 200


async def test_a_bearer_comes_before_an_api_key(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, auth=KEYS)
    assert (await ask(gateway, [("authorization", "Bearer wrong"), ("api-key", "gw-key")])).status == 401


def test_the_azure_client_chats(start: Start, upstream: Upstream, stream: bool) -> None:
    gateway = start(policies=POLICIES, auth=KEYS)
    upstream.will(say("Done."))
    azure = AzureOpenAI(
        azure_endpoint=gateway.base_url.removesuffix("/v1"), api_key="gw-key", api_version="2024-10-21", max_retries=0
    )
    with azure as client:
        given: Any = client.chat.completions.create(
            model="m-small", messages=HELLO, stream=stream, extra_headers={"x-context-agent": "kind"}
        )
        parts = list(given) if stream else []
    text = (
        "".join(part.choices[0].delta.content or "" for part in parts) if stream else given.choices[0].message.content
    )
    assert (text, upstream.requests[0]["model"], upstream.seen[0].path) == ("Done.", "m-small", "/v1/chat/completions")
    assert "Context [" in system_text(upstream.requests[0])


async def test_the_deployment_is_the_model_whatever_the_body_says(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES)
    upstream.will(say("Done."), say("Done."))
    path = "/openai/deployments/m-small/chat/completions?api-version=2024-10-21&x=1"
    for body in (BODY, {name: value for name, value in BODY.items() if name != "model"}):
        answer = await ask(gateway, body=body, path=path)
        assert answer.headers["x-context-receipt"]
    assert [(one.json["model"], one.path) for one in upstream.seen] == [("m-small", "/v1/chat/completions?x=1")] * 2


async def test_a_deployment_may_be_an_agent_and_obeys_the_keys_models(start: Start, upstream: Upstream) -> None:
    keys = {"keys": [{**KEYS["keys"][0], "models": ["m-large"]}]}
    gateway = start(policies=POLICIES, auth=keys)
    upstream.will(say("Done."))
    key = ("api-key", "gw-key")
    answer = await ask(gateway, [key], path="/openai/deployments/agent%3Akind/chat/completions")
    assert (answer.status, upstream.requests[0]["model"]) == (200, "m-large")
    refused = await ask(gateway, [key], path="/openai/deployments/m-small/chat/completions")
    assert (refused.status, refused.error["code"]) == (403, "model_not_allowed")
    assert (await ask(gateway, [key], path="/openai/deployments/a/b/chat/completions")).status == 404


async def test_models_are_asked_for_with_the_callers_bearer_and_not_shared(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, auth=KEYS, upstream_settings={"pass_bearer": True})
    own = [("x-context-key", "gw-key")]
    asked: list[str | None] = []
    told = upstream.models
    upstream.notice_models = lambda seen: asked.append(seen.headers.get("authorization"))
    try:
        for bearer in ("one", "two", "one"):
            upstream.models = [f"m-{bearer}"]
            answer = await send(gateway, "GET", "/v1/models", *own, ("authorization", f"Bearer {bearer}"))
            assert [card["id"] for card in answer.json["data"] if card["id"][0] == "m"] == [f"m-{bearer}"]
    finally:
        upstream.models, upstream.notice_models = told, None
    assert asked == ["Bearer one", "Bearer two", "Bearer one"]


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m-large", "/livez", "/v1/embeddings"])
async def test_head_is_answered_like_get_without_a_body(start: Start, upstream: Upstream, path: str) -> None:
    gateway = start(policies=POLICIES)
    if path == "/v1/embeddings":
        upstream.will(status(404), status(404))
    got, head = await send(gateway, "GET", path), await send(gateway, "HEAD", path)
    assert (head.status, head.raw, head.headers["content-type"]) == (got.status, b"", got.headers["content-type"])


PATHS = [
    {"path": "/v1/files", "upstream": "scripted", "keys": ["site"]},
    {"path": "/v1/files/*", "upstream": "scripted", "keys": ["site"]},
    "/v1/batches",
]
TWO = {"keys": [*KEYS["keys"], {"name": "other", "sha256": sha256(b"other").hexdigest()}]}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/files?limit=2"), ("DELETE", "/v1/files/file-1"), ("GET", "/v1/files/file-1/content")],
)
async def test_configured_paths_pass_for_the_keys_that_may(
    start: Start, upstream: Upstream, method: str, path: str
) -> None:
    routes = [{"model": "m-*", "upstream": "scripted"}]
    gateway = start(policies=POLICIES, auth=TWO, passthrough=PATHS, routes=routes)
    upstream.will(say("Done."))
    assert (await send(gateway, method, path, ("authorization", "Bearer gw-key"))).status == 200
    assert (upstream.seen[0].method, upstream.seen[0].path) == (method, path)
    refused = await send(gateway, method, path, ("authorization", "Bearer other"))
    assert (refused.status, refused.error["code"], len(upstream.seen)) == (403, "forbidden", 1)


async def test_a_file_is_uploaded_as_it_is(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, auth=TWO, passthrough=PATHS, routes=[{"model": "m-*", "upstream": "scripted"}])
    upstream.will(say("Done."))
    with openai.OpenAI(base_url=gateway.base_url, api_key="gw-key", max_retries=0) as client:
        client.files.with_raw_response.create(file=("a.jsonl", b'{"a": 1}\n'), purpose="batch")
    assert (upstream.seen[0].method, upstream.seen[0].path) == ("POST", "/v1/files")
    assert b'{"a": 1}\n' in upstream.bodies[0]
    assert upstream.headers[0]["content-type"].startswith("multipart/form-data; boundary=")


async def test_paths_that_nobody_named_stay_closed(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, auth=TWO, passthrough=PATHS)
    key = ("authorization", "Bearer gw-key")
    assert (await send(gateway, "GET", "/v1/fine_tuning/jobs", key)).status == 404
    assert (await send(gateway, "DELETE", "/v1/embeddings", key)).status == 405
    assert (await send(gateway, "TRACE", "/v1/files", key)).status == 405


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/embeddings"])
async def test_a_preflight_of_a_configured_origin_needs_no_key(start: Start, upstream: Upstream, path: str) -> None:
    gateway = start(policies=POLICIES, auth=KEYS, cors={"origins": [PAGE]})
    asked = ("access-control-request-headers", "authorization,content-type,x-context-agent")
    method = ("access-control-request-method", "POST")
    answer = await send(gateway, "OPTIONS", path, ("origin", PAGE), method, asked)
    assert (answer.status, answer.raw, answer.headers["access-control-allow-origin"]) == (204, b"", PAGE)
    assert answer.headers["access-control-allow-headers"] == asked[1]
    assert "POST" in answer.headers["access-control-allow-methods"]
    foreign = await send(gateway, "OPTIONS", path, ("origin", "https://evil.example"), method, asked)
    assert foreign.status >= 400
    assert not [name for name in foreign.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("keyed", [False, True])
async def test_pages_of_configured_origins_read_answers_and_errors(
    start: Start, upstream: Upstream, stream: bool, keyed: bool
) -> None:
    gateway = start(policies=POLICIES, auth=KEYS if keyed else {}, cors={"origins": [PAGE]})
    key = [("authorization", "Bearer gw-key")] if keyed else []
    upstream.will(say("Done."))
    answers = [
        await ask(gateway, [("origin", PAGE), *key], BODY | {"stream": stream}),
        await ask(gateway, [("origin", PAGE), *key], b"{"),
        await ask(gateway, [("origin", PAGE), *key], path="/v1/nothing"),
        await send(gateway, "GET", "/v1/models", ("origin", PAGE), *key),
    ]
    assert [answer.status for answer in answers] == [200, 400, 404, 200]
    assert answers[0].text == "Done."
    assert {answer.headers["access-control-allow-origin"] for answer in answers} == {PAGE}
    upstream.will(*([say("Done.")] if keyed else []))
    plain = await ask(gateway, [("origin", "https://evil.example"), *key])
    assert (plain.status, "access-control-allow-origin" in plain.headers) == (200 if keyed else 403, False)


@pytest.mark.parametrize("origin", ["*", "https://*.example.com", "desk.example.com", "https://a.example.com/x"])
def test_origins_are_named_one_by_one(start: Start, origin: str) -> None:
    with pytest.raises(ValidationError):
        start(cors={"origins": [origin]})


TITLE = "### Task:\nGenerate a concise title"
RULES = [{"prefix": "### Task:\nGenerate"}, {"contains": "<chat_history>"}, {"header": "x-task", "value": "tags"}]


@pytest.mark.parametrize(
    ("text", "headers", "is_background"),
    [
        (f"{TITLE} for this", [], True),
        (f"\n {TITLE}", [], True),
        ("Look: <chat_history>…</chat_history>", [], True),
        ([{"type": "text", "text": TITLE}], [], True),
        ("Tidy this", [("x-task", "tags")], True),
        ("Tidy this", [("x-task", "chat")], False),
        ("Tidy this: ### Task:\nGenerate", [], False),
        (TITLE, about(inject="on"), False),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("agent", ["kind", "editor"])
async def test_background_prompts_go_without_context(
    start: Start, upstream: Upstream, text: Any, headers: list[tuple[str, str]], is_background: bool, agent: str
) -> None:
    gateway = start(policies=POLICIES, background=RULES)
    upstream.will(say("A title"))
    body = orjson.dumps({"model": "m-large", "messages": [{"role": "user", "content": text}]})
    answer = await ask(gateway, [*headers, *about(agent=agent)], body)
    assert (answer.status, answer.headers["x-context-tokens"] == "0") == (200, is_background)
    (request,) = upstream.requests
    assert ("tools" not in request and "Context [" not in system_text(request)) is is_background


async def test_a_body_that_asks_for_context_gets_it(start: Start, upstream: Upstream) -> None:
    gateway = start(policies=POLICIES, background=RULES)
    upstream.will(say("A title"))
    said = {"messages": [{"role": "user", "content": TITLE}], "context": {"inject": "on"}}
    answer = await ask(gateway, about(agent="kind"), BODY | said)
    assert answer.headers["x-context-injected"] == "1"


async def test_what_is_mandatory_stays_in_background_prompts(start: Start, upstream: Upstream) -> None:
    rule = {"type": "text", "data": {"content": "Never name a price."}}
    policies = {"contexts": {"law": {"mandatory": True, "resources": {"price": rule}}}}
    gateway = start(policies=policies, background=RULES)
    upstream.will(say("A title"))
    await ask(gateway, body=BODY | {"messages": [{"role": "user", "content": TITLE}]})
    assert "Never name a price." in system_text(upstream.requests[0])


@pytest.mark.parametrize("rule", [{}, {"prefix": "a", "contains": "b"}, {"prefix": "a", "value": "b"}])
def test_a_rule_that_says_too_little_or_too_much_is_refused(start: Start, rule: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        start(background=[rule])
