"""What a scope makes of its session, its agent and its key."""

import pytest

from gateway.domain.agent import Agent, ToolPermission
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.session import Session, SessionSettings

ALLOW, APPROVE, DENY = ToolPermission


def make_scope(agent: Agent | None, settings: SessionSettings | None, *, bound: bool = False) -> Scope:
    session = None if settings is None else Session(settings=settings)
    return Scope(ContextRequest(), agent, None, None, None, True, frozenset(), bound, session=session)


@pytest.mark.parametrize(
    ("session", "agent", "bound", "effective"),
    [
        (None, None, False, ALLOW),
        (None, DENY, False, DENY),
        (ALLOW, DENY, False, DENY),
        (DENY, ALLOW, False, DENY),
        (APPROVE, None, False, APPROVE),
        (None, APPROVE, True, APPROVE),
        (ALLOW, APPROVE, True, APPROVE),
        (ALLOW, DENY, True, DENY),
        (APPROVE, DENY, True, DENY),
        (DENY, APPROVE, True, DENY),
        (DENY, None, True, DENY),
        (ALLOW, None, True, ALLOW),
    ],
)
def test_a_session_can_only_be_stricter_than_its_agent(
    session: ToolPermission | None, agent: ToolPermission | None, bound: bool, effective: ToolPermission
) -> None:
    owner = Agent("editor", "Editor", tool_permission=agent)
    assert make_scope(owner, SessionSettings(tool_permission=session), bound=bound).tool_permission is effective


def test_without_agent_and_session_tools_may_be_run() -> None:
    assert make_scope(None, None).tool_permission is ALLOW


@pytest.mark.parametrize(
    ("session", "agent", "retains"),
    [(None, None, True), (None, False, False), (True, False, True), (False, True, False), (False, None, False)],
)
def test_the_session_says_before_the_agent_whether_fetched_resources_stay(
    session: bool | None, agent: bool | None, retains: bool
) -> None:
    owner = Agent("editor", "Editor", retain=agent)
    assert make_scope(owner, SessionSettings(retain=session)).retains is retains
