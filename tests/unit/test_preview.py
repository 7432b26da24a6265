"""The dry run shows the exact outgoing request and why each thing is in it (CONTRACT §8)."""

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.app import Gateway
from gateway.domain.exchange import Exchange
from gateway.domain.principal import ANONYMOUS
from gateway.preview import format_preview, preview_request
from gateway.settings import Settings
from tests.support.yaml_texts import to_yaml

POLICIES = {
    "contexts": {
        "legal": {
            "mandatory": True,
            "resources": {"imprint": {"type": "text", "data": {"content": "Name the owner."}}},
        },
        "house": {
            "resources": {
                "voice": {"type": "brand-voice", "data": {"tone": "Plain"}},
                "secret": {"type": "text", "readers": ["group:hr"], "data": {"content": "Pay."}},
                "german": {"type": "text", "languages": ["de"], "data": {"content": "Auf Deutsch."}},
                "style": {"type": "text", "mode": "on_demand", "data": {"content": "Use commas."}},
                "extra": {"type": "text", "mode": "manual", "data": {"content": "By hand."}},
                "page": {"type": "external-link", "data": {"url": "https://example.com"}},
            }
        },
        "blog": {"resources": {"tone": {"type": "brand-voice", "data": {"tone": "Casual"}}}},
    },
    "agents": {"editor": {"contexts": ["house"]}},
    "content": {"site": {"contexts": ["blog"]}},
}
ITEM = (
    *("id", "name", "type", "kind", "mode", "via", "level", "entity", "context", "version", "score", "tokens"),
    *("position", "truncated", "reason", "why"),
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("policies")
    (directory / "all.yaml").write_text(to_yaml(POLICIES))
    return asyncio.run(previewed(directory))


async def previewed(directory: Path) -> dict[str, Any]:
    gateway = await Gateway.open(
        Settings.model_validate(
            {
                "policies": str(directory),
                "store": "memory:",
                "upstreams": {"demo": {"kind": "demo", "model": "*"}},
                "routes": [{"model": "*", "upstream": "demo"}],
            }
        )
    )
    headers = [
        (b"x-context-agent", b"editor"),
        (b"x-context-content", b"site"),
        (b"x-context-language", b"en"),
        (b"x-context-include", b"house/extra"),
        (b"x-context-budget", b"1000"),
    ]
    exchange = Exchange("id", ANONYMOUS, gateway.policies.current, headers)
    body = orjson.dumps({"model": "m", "seed": 1, "messages": [{"role": "user", "content": "Hi"}]})
    shown = await preview_request(gateway.pipeline, exchange, body)
    await gateway.close()
    return shown


def ids(items: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for one in items]


def test_it_has_exactly_the_documented_keys(shown: dict[str, Any]) -> None:
    assert sorted(shown) == sorted(
        [
            *("snapshot", "upstream", "model", "request", "block", "tools", "selection"),
            *("sources", "focus", "sections", "recipe", "validation", "collectors", "tokens"),
            *("suggested_content", "warnings", "degraded"),
        ]
    )
    assert sorted(shown["tokens"]) == ["budget", "by_category", "remaining", "total"]
    for items in shown["selection"].values():
        assert all(sorted(one) == sorted(ITEM) for one in items)


def test_the_request_is_the_one_that_would_be_sent(shown: dict[str, Any]) -> None:
    assert shown["request"]["seed"] == 1
    assert shown["request"]["messages"][0]["content"] == shown["block"]
    assert shown["request"]["tools"] == shown["tools"]
    assert (shown["upstream"], shown["model"], len(shown["snapshot"])) == ("demo", "m", 12)


def test_each_thing_has_its_source_and_a_sentence_of_why(shown: dict[str, Any]) -> None:
    placed = {one["id"]: one for one in shown["selection"]["injected"]}
    assert list(placed) == ["legal/imprint", "blog/tone", "house/extra"]
    assert placed["legal/imprint"]["why"] == "mandatory for every request"
    voice = placed["blog/tone"]
    assert (voice["level"], voice["entity"], voice["context"]) == ("content", "site", "blog")
    assert (voice["why"], voice["position"], voice["truncated"]) == ("assigned to content site", 1, False)
    assert (placed["house/extra"]["via"], placed["house/extra"]["why"]) == ("include", "named by the request")


def test_what_was_left_out_has_its_reason(shown: dict[str, Any]) -> None:
    assert ids(shown["selection"]["catalogue"]) == ["house/style"]
    reasons = {one["id"]: one["reason"] for one in shown["selection"]["dropped"]}
    assert reasons == {"house/german": "language", "house/voice": "overridden"}


def test_what_is_forbidden_appears_nowhere(shown: dict[str, Any]) -> None:
    assert b"secret" not in orjson.dumps(shown)


def test_sources_name_the_contexts_that_apply(shown: dict[str, Any]) -> None:
    assert shown["sources"] == [
        {"level": "global", "entity": "", "context": "legal"},
        {"level": "agent", "entity": "editor", "context": "house"},
        {"level": "content", "entity": "site", "context": "blog"},
    ]


def test_tokens_add_up(shown: dict[str, Any]) -> None:
    tokens = shown["tokens"]
    injected = shown["selection"]["injected"]
    spent = tokens["by_category"]
    assert (tokens["budget"], tokens["remaining"]) == (1000, 1000 - tokens["total"])
    assert sum(spent.values()) == tokens["total"]
    assert spent["always"] == sum(one["tokens"] for one in injected if one["mode"] == "always")
    assert spent["named"] == sum(one["tokens"] for one in injected if one["via"] == "include")
    assert spent.keys() == {"always", "named", "tools", "catalogue", "frame"}


def test_what_is_degraded_is_told(shown: dict[str, Any]) -> None:
    assert shown["degraded"] == ["links"]


def test_a_person_can_read_it(shown: dict[str, Any]) -> None:
    text = format_preview(shown)
    assert "model m → upstream demo" in text
    assert "house/extra [manual, " in text
    assert "house/german [always] (language): assigned to agent editor" in text
    assert "Degraded: links" in text
    assert '"content": "Hi"' in text
