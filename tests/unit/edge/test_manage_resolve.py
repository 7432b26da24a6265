"""`POST /resolve`: what would be sent, and why."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.principal import Principal, Role
from tests.support.managed_gateway import CHAT, EDITOR, ManagedGateway, running_management

FILES = {
    "contexts": {
        "house": {
            "resources": {
                "voice": {"type": "text", "data": {"content": "Write plainly."}},
                "pay": {"type": "text", "readers": ["group:hr"], "data": {"content": "Salaries."}},
                "style": {"type": "text", "mode": "on_demand", "data": {"content": "Commas."}},
            }
        }
    },
    "agents": {"editor": {"contexts": ["house"]}, "secret": {"contexts": ["house"]}},
}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[ManagedGateway]:
    async with running_management(tmp_path, FILES) as gateway:
        yield gateway


@pytest.mark.parametrize("path", ["/resolve", "/contexts/resolve"])
async def test_it_shows_the_request_that_would_be_sent(api: ManagedGateway, path: str) -> None:
    answer = await api.ask("POST", path, {"context": {"agent": "editor"}, "query": "Hello?"}, by=CHAT)
    shown = answer.json
    assert answer.status == 200
    assert shown["request"]["messages"][-1] == {"role": "user", "content": "Hello?"}
    assert "Write plainly." in shown["request"]["messages"][0]["content"]
    assert [item["id"] for item in shown["selection"]["injected"]] == ["house/voice"]
    assert [item["id"] for item in shown["selection"]["catalogue"]] == ["house/style"]
    assert shown["sources"] == [{"level": "agent", "entity": "editor", "context": "house"}]
    assert "Salaries" not in answer.raw.decode()
    assert set(shown) == {
        *("snapshot", "upstream", "model", "request", "block", "tools", "selection", "sources"),
        *(
            "focus",
            "sections",
            "recipe",
            "validation",
            "collectors",
            "tokens",
            "suggested_content",
            "warnings",
            "degraded",
        ),
    }


@pytest.mark.parametrize("more", [{}, {"request": {"model": "demo"}}])
async def test_without_a_question_it_shows_what_does_not_depend_on_one(
    api: ManagedGateway, more: dict[str, Any]
) -> None:
    answer = await api.ask("POST", "/resolve", {"context": {"agent": "editor"}, **more}, by=CHAT)
    assert answer.status == 200
    assert [item["id"] for item in answer.json["selection"]["injected"]] == ["house/voice"]
    assert "Write plainly." in answer.json["block"]
    assert answer.json["request"]["messages"][1:] == [{"role": "user", "content": ""}]


async def test_an_empty_list_of_messages_is_refused_as_in_a_chat(api: ManagedGateway) -> None:
    answer = await api.ask("POST", "/resolve", {"context": {"agent": "editor"}, "request": {"messages": []}}, by=CHAT)
    assert (answer.status, answer.json["code"]) == (400, "invalid_request")
    wanted = "There is no question: send one as `query`, or a chat request with `messages` as `request`."
    assert answer.json["detail"] == wanted


async def test_readers_see_with_their_own_eyes(api: ManagedGateway) -> None:
    hr = Principal("hr-app", groups=frozenset({"hr"}))
    shown = (await api.ask("POST", "/resolve", {"context": {"agent": "editor"}, "query": "?"}, by=hr)).json
    assert [item["id"] for item in shown["selection"]["injected"]] == ["house/voice", "house/pay"]


async def test_a_request_may_be_given_whole(api: ManagedGateway) -> None:
    request = {"model": "agent:editor", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0.3}
    shown = (await api.ask("POST", "/resolve", {"request": request})).json
    assert shown["request"]["temperature"] == 0.3
    assert (await api.ask("POST", "/resolve", {})).status == 200


@pytest.mark.parametrize(
    ("sent", "by", "status", "code"),
    [
        ({"context": {"agent": "edtor"}, "query": "?"}, CHAT, 400, "unknown_agent"),
        ({"context": {"agnt": "x"}}, CHAT, 400, "invalid_request"),
        ({"context": {"agent": "secret"}}, Principal("a", agents=frozenset({"editor"})), 400, "unknown_agent"),
        ({"context": {"user": "bob"}}, CHAT, 403, "user_not_allowed"),
        ({"context": {}, "request": {"context": {}}}, CHAT, 422, "invalid"),
        ({"request": {"messages": "none"}}, CHAT, 400, "invalid_request"),
        ({"drafts": True}, CHAT, 403, "forbidden"),
        ({"drafts": ["contexts/none"]}, EDITOR, 422, "invalid"),
        ({"drafts": "true"}, EDITOR, 422, "invalid"),
    ],
)
async def test_errors_keep_their_status_and_code(
    api: ManagedGateway, sent: dict[str, Any], by: Principal, status: int, code: str
) -> None:
    answer = await api.ask("POST", "/resolve", sent, by=by)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/problem+json"


async def test_drafts_are_tried_without_being_published(api: ManagedGateway) -> None:
    text = {"type": "text", "data": {"content": "First."}}
    await api.ask("POST", "/contexts", {"alias": "mine", "default": True, "resources": {"r": text}})
    draft = {"default": True, "resources": {"r": {**text, "data": {"content": "Second."}}}}
    assert (await api.ask("PUT", "/contexts/mine/draft", draft)).status in (200, 201)
    shown = [
        (await api.ask("POST", "/resolve", {"query": "?", "drafts": drafts})).json["block"]
        for drafts in (False, True, ["contexts/mine"])
    ]
    assert ["Second." in block for block in shown] == [False, True, True]


async def test_a_workspace_resolves_with_its_own_policies(api: ManagedGateway) -> None:
    text = {"type": "text", "data": {"content": "Ours."}}
    await api.ask("POST", "/contexts", {"alias": "mine", "default": True, "resources": {"r": text}})
    other = Principal("bert", workspace="other", role=Role.EDITOR)
    assert "Ours." in (await api.ask("POST", "/resolve", {"query": "?"})).json["block"]
    assert "Ours." not in (await api.ask("POST", "/resolve", {"query": "?"}, by=other)).json["block"]
