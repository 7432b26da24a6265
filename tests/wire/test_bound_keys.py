"""What must hold cannot be walked around: bound agents, mandatory contexts, the agents and models of a key."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from tests.support.contract_policies import BODY, about, ask, names_in, system_text, text
from tests.support.gateway import Client, ClientReply, Start, Thread, running_gateway
from tests.support.management_client import manage
from tests.support.upstream import Upstream, reply, say

POLICIES: dict[str, Any] = {
    "contexts": {
        "legal": {
            "mandatory": True,
            "resources": {
                "law": text("Obey.", name="Law", key="law"),
                "de": text("Sag Sie.", name="German", key="address", languages=["de"]),
                "en": text("Say you.", name="English", key="address", languages=["en"]),
            },
        },
        "desk": {"resources": {"rule": text("Be exact.", name="Rule", key="rule")}},
        "base": {"resources": {"basis": text("Be brief.", name="Basis")}},
        "rival": {
            "resources": {
                "law": text("Obey nobody.", name="No law", key="law", mandatory=True),
                "rule": text("Be vague.", name="No rule", key="rule"),
            }
        },
    },
    "profiles": {"own": {"contexts": ["base"]}, "other": {"contexts": ["rival"], "model": "m-other"}},
    "agents": {
        "clerk": {"instructions": "You are the clerk.", "profile": "own", "contexts": ["desk"], "model": "m-clerk"},
        "free": {"instructions": "You are free.", "contexts": ["rival"], "model": "m-free"},
        "lax": {"instructions": "You are lax.", "contexts": ["rival"]},
    },
    "prompts": {"sly": {"contexts": ["rival"], "template": "Forget it. {input}"}},
    "content": {"site": {"contexts": ["rival"]}},
}
OPEN = {name: part for name, part in POLICIES.items() if name != "contexts"}
OPEN["contexts"] = {alias: one for alias, one in POLICIES["contexts"].items() if alias != "legal"}
GUARDED = ["English", "Basis", "Rule", "Law"]


def configured(secret: str, **said: Any) -> dict[str, Any]:
    return {"name": secret, "sha256": sha256(secret.encode()).hexdigest(), **said}


AUTH = {
    "keys": [
        configured("bound", agent="clerk"),
        configured("some", agents=["clerk"]),
        configured("lenient", agents=["clerk"], agent_optional=True),
        configured("modest", models=["m-small", "m-cl*"]),
        configured("root", role="admin"),
    ]
}


@pytest.fixture(scope="module")
def guarded(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("guarded")
    with running_gateway(thread, directory, scripted.base_url, POLICIES, auth=AUTH) as client:
        yield client


@pytest.fixture(scope="module")
def unguarded(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The same without a mandatory context."""
    directory = tmp_path_factory.mktemp("unguarded")
    with running_gateway(thread, directory, scripted.base_url, OPEN, auth=AUTH) as client:
        yield client


def key(secret: str) -> tuple[str, str]:
    return "authorization", f"Bearer {secret}"


@pytest.mark.parametrize(
    ("said", "model"),
    [
        ({}, "m-large"),
        ({"agent": "free"}, "m-large"),
        ({}, "agent:free"),
        ({"profile": "other"}, "m-large"),
        ({"prompt": "sly"}, "m-large"),
        ({"content": "site"}, "m-large"),
        ({"contexts": "rival"}, "m-large"),
        ({"include": "rival/law,rival/rule"}, "m-large"),
        ({"language": "fr"}, "m-large"),
        ({"inject": "off"}, "m-large"),
        ({"exclude": "legal/law,desk/rule,base/basis", "budget": "0"}, "m-large"),
        (
            {"agent": "lax", "profile": "other", "prompt": "sly", "content": "site", "contexts": "rival",
             "include": "rival/law,rival/rule", "language": "xx", "inject": "off", "budget": "0"},
            "agent:lax",
        ),
    ],
)  # fmt: skip
async def test_a_bound_key_gets_its_agent_whatever_the_request_says(
    guarded: Client, upstream: Upstream, said: dict[str, str], model: str
) -> None:
    upstream.will(say("Done."))
    answer = await ask(guarded, [key("bound"), *about(**said)], BODY | {"model": model})
    assert answer.status == 200, answer.raw
    (request,) = upstream.requests
    placed = names_in(request)
    assert set(GUARDED) <= set(placed)
    assert not {"No law", "No rule"} & set(placed)
    assert "You are the clerk." in system_text(request)
    assert "You are free." not in system_text(request)
    assert request["model"] == ("m-clerk" if model.startswith("agent:") else model)


async def test_a_bound_key_is_told_of_names_that_do_not_exist(guarded: Client, upstream: Upstream) -> None:
    answer = await ask(guarded, [key("bound"), *about(agent="nobody")])
    assert (answer.status, answer.error["code"]) == (400, "unknown_agent")
    listed = await ask(guarded, [key("bound")], path="/v1/models", method="GET")
    assert [card["id"] for card in listed.json["data"] if card["id"].startswith("agent:")] == ["agent:clerk"]


@pytest.mark.parametrize(
    ("language", "form"), [("de", "German"), ("de-AT", "German"), ("en", "English"), ("fr", "English")]
)
async def test_language_chooses_the_form_of_what_is_mandatory(
    guarded: Client, upstream: Upstream, language: str, form: str
) -> None:
    upstream.will(say("Done."))
    await ask(guarded, [key("root"), *about(language=language)])
    assert sorted(names_in(upstream.requests[0])) == sorted([form, "Law"])


async def test_a_context_named_by_the_request_replaces_nothing_mandatory(guarded: Client, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    await ask(guarded, [key("root"), *about(contexts="rival", language="en")])
    assert names_in(upstream.requests[0]) == ["Law", "English", "No rule"]


GENERATING = ("/v1/completions", "/v1/images/generations", "/v1/images/edits", "/v1/audio/speech")
HARMLESS = ("/v1/embeddings", "/v1/moderations")
PROMPT = {"model": "m-large", "prompt": "Once upon a time"}


@pytest.mark.parametrize("path", GENERATING)
async def test_what_generates_without_context_is_refused_where_context_is_mandatory(
    guarded: Client, unguarded: Client, upstream: Upstream, path: str
) -> None:
    async def passes(client: Client, secret: str) -> bool:
        upstream.reset()
        upstream.will(reply(b'{"ok": true}'))
        answer = await ask(client, [key(secret)], PROMPT, path=path)
        if answer.status != 200:
            assert (answer.status, answer.error["code"]) == (403, "context_required")
            assert not upstream.seen
        upstream.reset()
        return answer.status == 200

    assert not await passes(guarded, "root")  # a mandatory context applies
    assert await passes(unguarded, "root")
    assert not await passes(unguarded, "bound")
    assert not await passes(unguarded, "some")
    assert await passes(unguarded, "lenient")


@pytest.mark.parametrize("path", HARMLESS)
async def test_what_generates_nothing_passes(guarded: Client, upstream: Upstream, path: str) -> None:
    for secret in ("root", "bound", "some"):
        upstream.will(reply(b'{"ok": true}'))
        assert (await ask(guarded, [key(secret)], PROMPT, path=path)).status == 200


async def test_a_path_that_is_configured_is_open_to_every_key(start: Start, upstream: Upstream) -> None:
    client = start(policies=POLICIES, auth=AUTH, passthrough=["/v1/completions", "images/*"])
    for path, status in (("/v1/completions", 200), ("/v1/images/edits", 200), ("/v1/audio/speech", 403)):
        upstream.will(*([reply(b'{"ok": true}')] if status == 200 else []))
        assert (await ask(client, [key("bound")], PROMPT, path=path)).status == status


async def test_a_mandatory_resource_of_the_global_default_counts_too(start: Start, upstream: Upstream) -> None:
    default = {"default": True, "resources": {"law": text("Obey.", mandatory=True)}}
    client = start(policies={"contexts": {"house": default}})
    assert (await ask(client, body=PROMPT, path="/v1/completions")).status == 403


async def test_a_key_for_some_agents_may_use_them_and_nothing_else(guarded: Client, upstream: Upstream) -> None:
    for said in ({}, {"inject": "off"}, {"contexts": "rival"}):
        answer = await ask(guarded, [key("some"), *about(**said)])
        assert (answer.status, answer.error["code"], answer.error["param"]) == (
            400,
            "agent_required",
            "x-context-agent",
        )
    assert not upstream.seen
    dry = await manage(guarded, "POST", "/resolve", {"query": "Hi"}, authorization="Bearer some")
    assert (dry.status, dry.json["code"]) == (400, "agent_required")
    upstream.will(say("Done."), say("Done."), say("Done."))
    assert (await ask(guarded, [key("some"), *about(agent="clerk")])).status == 200
    assert (await ask(guarded, [key("some")], BODY | {"model": "agent:clerk"})).status == 200
    assert (await ask(guarded, [key("lenient")])).status == 200


PROMPTED = ("/v1/embeddings", b'"input":"Hi"')


async def try_model(client: Client, upstream: Upstream, secret: str, model: str, **said: str) -> ClientReply:
    upstream.reset()
    upstream.will(say("Done."))
    answer = await ask(client, [key(secret), *about(**said)], BODY | {"model": model})
    upstream.reset()
    return answer


async def test_a_key_may_use_the_models_that_it_names(guarded: Client, upstream: Upstream) -> None:
    for model in ("m-small", "m-clerk", "m-cl", "agent:clerk"):
        assert (await try_model(guarded, upstream, "modest", model)).status == 200
    for model in ("m-large", "M-small", "m-smaller", "agent:free", "agent:lax", "m-cl" * 1000):
        answer = await try_model(guarded, upstream, "modest", model)
        assert (answer.status, answer.error["code"]) == (403, "model_not_allowed")
    listed = await ask(guarded, [key("modest")], path="/v1/models", method="GET")
    assert [card["id"] for card in listed.json["data"]] == ["m-small", "agent:clerk"]
    assert (await ask(guarded, [key("modest")], path="/v1/models/m-large", method="GET")).status == 404


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b'{"model": "m-large", "input": "x"}', "application/json"),
        (b'{"input": "x"}', "application/json"),
        (b'{"model": "m-large", "input": "x", "model": "m-small"}', "application/json"),
        (b'{"mod\\u0065l": "m-large", "input": "x", "model": "m-small"}', "application/json"),
        (b"model=m-small", "application/x-www-form-urlencoded"),
        (
            b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm-small\r\n'
            b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nm-large\r\n--b--\r\n',
            "multipart/form-data; boundary=b",
        ),
    ],
)
async def test_a_body_that_is_passed_through_names_one_allowed_model(
    guarded: Client, upstream: Upstream, body: bytes, media: str
) -> None:
    answer = await ask(guarded, [key("modest"), ("content-type", media)], body, path="/v1/embeddings")
    assert answer.status in (400, 403), answer.raw
    assert not upstream.seen


@pytest.mark.parametrize(
    "named",
    [
        b'"models":["m-small","m-large"]',
        b'"fallbacks":[{"model":"m-large"}]',
        b'"fallbacks":["m-large"]',
        b'"fallbacks":"default"',
        b'"fallback\\u0073":["m-large"]',
        b'"fallbacks":["m-large"],"fallbacks":[]',
        b'"tools":[{"type":"advisor_20260301","name":"advisor","model":"m-large"}]',
    ],
)
async def test_a_model_to_fall_back_to_is_one_that_the_key_may_use(
    guarded: Client, upstream: Upstream, named: bytes
) -> None:
    for path, said in (("/v1/chat/completions", b'"messages":[{"role":"user","content":"Hi"}]'), PROMPTED):
        answer = await ask(guarded, [key("modest")], b'{"model":"m-small",%b,%b}' % (said, named), path=path)
        assert (answer.status, answer.error["code"]) == (403, "model_not_allowed"), answer.raw
    assert not upstream.seen


async def test_a_chat_names_its_model_once(guarded: Client, upstream: Upstream) -> None:
    doubled = b'{"model": "m-large", "messages": [{"role": "user", "content": "Hi"}], "model": "m-small"}'
    answer = await ask(guarded, [key("modest")], doubled)
    assert (answer.status, answer.error["param"]) == (400, "model")
    upstream.will(say("Done."))  # the same word inside a message is no second model
    quoted = b'{"model": "m-small", "messages": [{"role": "user", "content": "x", "model": "m"}], "n": {"model": 1}}'
    assert (await ask(guarded, [key("modest")], quoted.replace(b', "n": {"model": 1}', b""))).status == 200


async def test_stored_keys_have_the_same_fields_and_grant_no_more_than_they_have(
    guarded: Client, upstream: Upstream
) -> None:
    async def create(by: str, **wish: Any) -> ClientReply:
        return await manage(guarded, "POST", "/keys", wish, authorization=f"Bearer {by}")

    lead = (await create("root", role="admin", models=["m-s*"], agents=["clerk"])).json
    assert (lead["models"], lead["agents"], lead["agent_optional"]) == (["m-s*"], ["clerk"], False)
    assert (await try_model(guarded, upstream, lead["key"], "m-small", agent="clerk")).status == 200
    assert (await try_model(guarded, upstream, lead["key"], "m-large", agent="clerk")).status == 403
    assert (await try_model(guarded, upstream, lead["key"], "m-small")).status == 400
    for wish, field in (
        ({"models": None}, "models"),
        ({"models": ["m-*"]}, "models"),
        ({"models": ["m-large"]}, "models"),
        ({"agent_optional": True}, "agent_optional"),
    ):
        answer = await create(lead["key"], **wish)
        assert (answer.status, answer.json["detail"].partition(":")[0]) == (403, field)
    narrower = (await create(lead["key"], models=["m-sm*"])).json
    assert narrower["models"] == ["m-sm*"]
    assert (await create(lead["key"])).json["models"] == ["m-s*"]
