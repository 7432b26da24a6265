"""Contexts that a request names for itself, and lists that change a session."""

from typing import Any

import pytest

from tests.support.contract_policies import BODY, POLICIES, about, ask, names_in
from tests.support.gateway import Start
from tests.support.upstream import Upstream, say

Said = dict[str, Any]


@pytest.mark.parametrize(
    ("headers", "context", "placed"),
    [
        ([("contexts", "plain")], {}, ["Kind"]),
        ([("contexts", "plain,prices"), ("contexts", " sale , plain")], {}, ["Kind", "Offer"]),
        ([], {"contexts": ["plain"]}, ["Kind"]),
        ([("contexts", "prices")], {"contexts": ["plain"]}, ["List"]),
        ([("contexts", "")], {}, ["Corporate"]),
        ([("agent", "seller"), ("contexts", "prices")], {}, ["List"]),  # narrower than the agent
        ([("agent", "helper"), ("contexts", "plain")], {}, []),  # takes no part
        ([("contexts", "plain"), ("inject", "off")], {}, []),
    ],
)
async def test_a_request_names_contexts_on_its_own_level(
    start: Start, upstream: Upstream, headers: list[tuple[str, str]], context: Said, placed: list[str]
) -> None:
    client = start(policies=POLICIES)
    upstream.will(say("Done."))
    named = [(f"x-context-{name}", value) for name, value in headers]
    answer = await ask(client, named, BODY | ({"context": context} if context else {}))
    assert answer.status == 200, answer.raw
    assert names_in(upstream.requests[0]) == placed
    assert "context" not in upstream.requests[0]


@pytest.mark.parametrize("name", ["nothing", "Plain", "plain/kind", "private"])
async def test_an_unknown_context_is_refused(start: Start, upstream: Upstream, name: str) -> None:
    private = {"resources": {"r": {"type": "text", "readers": ["user:ann"], "data": {"content": "x"}}}}
    client = start(policies=POLICIES | {"contexts": POLICIES["contexts"] | {"private": private}})
    answer = await ask(client, about(contexts=f"plain,{name}"))
    assert (answer.status, answer.error["code"], answer.error["param"]) == (
        400,
        "unknown_context",
        "x-context-contexts",
    )
    answer = await ask(client, body=BODY | {"context": {"contexts": [name]}})
    assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "unknown_context", "context.contexts")
    assert "private" not in answer.error["message"].replace(f"'{name}'.", "")
    assert not upstream.seen


@pytest.mark.parametrize("name", ["pin", "unpin"])
async def test_pins_need_a_session(start: Start, upstream: Upstream, name: str) -> None:
    client = start(policies=POLICIES)
    for headers, context, param in (
        (about(**{name: "house/rules"}), {}, f"x-context-{name}"),
        ([], {name: ["house/rules"]}, f"context.{name}"),
    ):
        answer = await ask(client, headers, BODY | {"context": context})
        assert (answer.status, answer.error["code"], answer.error["param"]) == (400, "session_required", param)
        upstream.will(say("Done."))
        answer = await ask(client, [*headers, *about(session="s")], BODY | {"context": context})
        assert answer.status == 200
