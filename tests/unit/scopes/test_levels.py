"""Which contexts apply, from broad to narrow."""

from collections.abc import Callable

import pytest

from gateway.domain.principal import ANONYMOUS
from gateway.domain.scope import ContextRequest
from gateway.domain.snapshot import Snapshot
from gateway.scopes.scope import build_scope, resolve_assignments

RESOURCES = "{resources: {r: {type: text, data: {content: A text}}}}"
CONTEXTS = ", ".join(f"{alias}: {RESOURCES}" for alias in "abcde")
POLICIES = (
    f"contexts: {{{CONTEXTS}, none: {{}}, house: {{default: true}}}}"
    + """
profiles: {writing: {contexts: [a]}}
agents:
  editor: {profile: writing, contexts: [b, a]}
  helper: {}
  willing: {inject: true}
  hollow: {contexts: [none]}
prompts: {summary: {contexts: [c]}, bare: {}}
content:
  site:
    contexts: [d]
    children:
      shop: {children: {lamp: {}}}
      blog: {contexts: [e], children: {post: {}}}
      news: {contexts: [e, c], inherit: merge, children: {item: {inherit: merge}, own: {contexts: [b], inherit: merge}}}
  bare: {}
"""
)
WITH_MANDATORY = POLICIES.replace("none: {}, house", "none: {}, legal: {mandatory: true}, house")


@pytest.fixture
def snapshot(policies: Callable[[str], Snapshot]) -> Snapshot:
    return policies(POLICIES)


def found(snapshot: Snapshot, **said: str) -> list[str]:
    scope = build_scope(ContextRequest(**said), None, ANONYMOUS, snapshot)  # type: ignore[arg-type]
    return [f"{one.level}:{one.entity}:{one.context}" for one in resolve_assignments(scope, snapshot)]


def test_levels_come_from_broad_to_narrow_and_contexts_in_their_order(snapshot: Snapshot) -> None:
    assert found(snapshot, agent="editor", prompt="summary", content="site") == [
        "profile:writing:a",
        "agent:editor:b",
        "agent:editor:a",
        "prompt:summary:c",
        "content:site:d",
    ]


def test_the_global_default_is_used_only_if_no_level_yields_a_context(snapshot: Snapshot) -> None:
    assert found(snapshot) == ["global::house"]
    assert found(snapshot, prompt="bare", content="bare") == ["global::house"]
    assert found(snapshot, agent="willing") == ["global::house"]
    assert found(snapshot, prompt="summary") == ["prompt:summary:c"]


def test_an_agent_that_takes_no_part_gets_nothing_from_any_level(snapshot: Snapshot) -> None:
    assert found(snapshot, agent="helper", prompt="summary", content="site") == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("site/shop/lamp", ["content:site:d"]),
        ("site/blog/post", ["content:site/blog:e"]),
        ("site/news", ["content:site:d", "content:site/news:e", "content:site/news:c"]),
        ("site/news/item", ["content:site:d", "content:site/news:e", "content:site/news:c"]),
        (
            "site/news/own",
            ["content:site:d", "content:site/news:e", "content:site/news:c", "content:site/news/own:b"],
        ),
    ],
)
def test_the_nearest_assignment_wins_and_merging_adds_those_above(
    snapshot: Snapshot, content: str, expected: list[str]
) -> None:
    assert found(snapshot, content=content) == expected


def test_a_mandatory_context_applies_to_every_request_besides_what_else_does(
    policies: Callable[[str], Snapshot],
) -> None:
    snapshot = policies(WITH_MANDATORY)
    assert found(snapshot) == ["global::legal", "global::house"]
    assert found(snapshot, prompt="summary") == ["global::legal", "prompt:summary:c"]
    assert found(snapshot, agent="helper") == ["global::legal"]


def test_a_default_that_is_mandatory_applies_once(policies: Callable[[str], Snapshot]) -> None:
    assert found(policies("contexts: {house: {default: true, mandatory: true}}")) == ["global::house"]


def test_the_global_default_applies_where_nothing_yields_a_resource(snapshot: Snapshot) -> None:
    scope = build_scope(ContextRequest(agent="hollow"), None, ANONYMOUS, snapshot)
    found = [(str(one.level), one.context) for one in resolve_assignments(scope, snapshot)]
    assert found == [("agent", "none"), ("global", "house")]
