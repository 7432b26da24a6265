"""Asked becomes Scope: who asks, as whom, about what."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gateway.domain.principal import ANONYMOUS, Principal
from gateway.domain.scope import ContextRequest, Scope
from gateway.domain.snapshot import Snapshot
from gateway.errors import (
    AgentConflict,
    GatewayError,
    ModelNotAllowed,
    ModelRequired,
    ServiceUnavailable,
    UnknownAlias,
    UserNotAllowed,
)
from gateway.scopes.model_rights import require_model
from gateway.scopes.scope import build_scope, choose_model

POLICIES = """
contexts: {voice: {}}
profiles:
  writing: {contexts: [voice], model: m-profile}
  empty: {}
agents:
  editor: {contexts: [voice]}
  drafter: {profile: writing}
  helper: {profile: empty}
  secret-editor: {contexts: [voice]}
  willing: {inject: true}
  unwilling: {contexts: [voice], inject: false}
  modelled: {profile: writing, model: m-agent}
prompts: {summary: {template: "{input}"}}
content:
  site:
    children:
      blog: {id: "77", children: {post: {}}}
      hr: {readers: [key:hr, key:boss], children: {pay: {readers: [key:boss]}, plan: {}}}
"""


@pytest.fixture
def snapshot(policies: Callable[[str], Snapshot]) -> Snapshot:
    return policies(POLICIES)


def said(**names: str) -> ContextRequest:
    """What headers say."""
    return ContextRequest(**names, said_in={name: f"x-context-{name}" for name in names})  # type: ignore[arg-type]


def failure(
    snapshot: Snapshot, asked: ContextRequest, model: str | None = None, who: Principal = ANONYMOUS
) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        build_scope(asked, model, who, snapshot)
    return caught.value


def agent_of(scope: Scope) -> str | None:
    return scope.agent.alias if scope.agent else None


def test_the_agent_is_the_headers_else_the_models(snapshot: Snapshot) -> None:
    assert agent_of(build_scope(said(agent="editor"), "m", ANONYMOUS, snapshot)) == "editor"
    assert agent_of(build_scope(said(), "agent:editor", ANONYMOUS, snapshot)) == "editor"
    assert agent_of(build_scope(said(), "m", ANONYMOUS, snapshot)) is None


def test_a_bound_key_gets_its_own_agent_whatever_the_request_names(snapshot: Snapshot) -> None:
    bound = Principal("site", agent="helper")
    for asked, model in ((said(agent="editor"), "m"), (said(), "agent:editor"), (said(), "m"), (said(), None)):
        scope = build_scope(asked, model, bound, snapshot)
        assert (agent_of(scope), scope.bound) == ("helper", True)


def test_a_key_for_some_agents_needs_one_unless_it_says_otherwise(snapshot: Snapshot) -> None:
    narrow = Principal("site", agents=frozenset({"drafter"}))
    fault = failure(snapshot, said(), "m", who=narrow)
    assert (fault.status, fault.code, fault.param) == (400, "agent_required", "x-context-agent")
    assert agent_of(build_scope(said(agent="drafter"), "m", narrow, snapshot)) == "drafter"
    assert agent_of(build_scope(said(), "m", replace(narrow, agent_optional=True), snapshot)) is None
    assert agent_of(build_scope(said(), "m", replace(narrow, agent="editor"), snapshot)) == "editor"


def test_the_profile_of_a_bound_agent_stays_and_another_serves_where_it_has_none(snapshot: Snapshot) -> None:
    def profile(agent: str, **asked: str) -> str | None:
        found = build_scope(said(**asked), "m", Principal("site", agent=agent), snapshot).profile
        return None if found is None else found.alias

    own = snapshot.agents["drafter"].profile
    other = next(alias for alias in snapshot.profiles if alias != own)
    assert profile("drafter", profile=other) == own
    assert (snapshot.agents["editor"].profile, profile("editor", profile=other)) == (None, other)


def test_a_header_that_contradicts_the_model_is_a_conflict(snapshot: Snapshot) -> None:
    fault = failure(snapshot, said(agent="editor"), "agent:drafter")
    assert isinstance(fault, AgentConflict)
    assert (fault.status, fault.code, fault.param) == (400, "agent_conflict", "x-context-agent")
    assert agent_of(build_scope(said(agent="editor"), "agent:editor", ANONYMOUS, snapshot)) == "editor"


@pytest.mark.parametrize(
    ("name", "alias", "nearest"),
    [
        ("agent", "editr", "'editor'"),
        ("profile", "writng", "'writing'"),
        ("prompt", "sumary", "'summary'"),
        ("content", "sitte", "'site'"),
    ],
)
def test_an_unknown_alias_names_its_header_and_what_is_near(
    snapshot: Snapshot, name: str, alias: str, nearest: str
) -> None:
    fault = failure(snapshot, said(**{name: alias}))
    assert (fault.status, fault.code, fault.param) == (400, f"unknown_{name}", f"x-context-{name}")
    assert nearest in fault.message


def test_an_unknown_agent_of_the_model_is_a_fault_of_the_model(snapshot: Snapshot) -> None:
    assert failure(snapshot, said(), "agent:editr").param == "model"


def test_a_forbidden_agent_is_an_unknown_agent(snapshot: Snapshot) -> None:
    narrow = Principal("site", agents=frozenset({"drafter"}))
    forbidden = failure(snapshot, said(agent="secret-editor"), who=narrow)
    unknown = failure(snapshot, said(agent="secret-writer"), who=narrow)
    assert isinstance(forbidden, UnknownAlias)
    assert (forbidden.code, forbidden.param, forbidden.status) == (unknown.code, unknown.param, unknown.status)
    assert forbidden.message.replace("secret-editor", "x") == unknown.message.replace("secret-writer", "x")


def test_suggestions_name_only_agents_that_the_key_may_use(snapshot: Snapshot) -> None:
    narrow = Principal("site", agents=frozenset({"drafter"}))
    assert "editor" not in failure(snapshot, said(agent="editr"), who=narrow).message


def test_the_agent_of_a_key_may_be_named_too(snapshot: Snapshot) -> None:
    narrow = Principal("site", agents=frozenset({"drafter"}), agent="editor")
    for alias in ("editor", "drafter"):
        scope = build_scope(said(agent=alias), None, narrow, snapshot)
        assert (agent_of(scope), scope.bound) == ("editor", True)


def test_a_key_whose_agent_is_gone_is_refused_rather_than_let_off(snapshot: Snapshot) -> None:
    fault = failure(snapshot, said(), who=Principal("site", agent="retired"))
    assert isinstance(fault, ServiceUnavailable)


def test_acting_for_users_needs_the_right(snapshot: Snapshot) -> None:
    fault = failure(snapshot, said(user="ann"))
    assert isinstance(fault, UserNotAllowed)
    assert (fault.status, fault.code, fault.param) == (403, "user_not_allowed", "x-context-user")
    assert "act_for_users" in fault.message  # a caller without a key reads it too
    trusted = Principal("site", rights=frozenset({"act_as_user"}))
    listed = replace(snapshot, readers=frozenset({"key:site", "user:ann", "group:ann", "user:bob"}))
    assert build_scope(said(user="ann"), None, trusted, listed).readers == {"key:site", "user:ann"}


def test_only_identities_that_some_list_names_are_carried_along(snapshot: Snapshot) -> None:
    member = Principal("site", groups=frozenset({"hr", "sales"}))
    listed = replace(snapshot, readers=frozenset({"group:sales"}))
    assert build_scope(said(), None, member, listed).readers == {"group:sales"}
    everyone = Principal("site", groups=frozenset({"*"}))
    assert build_scope(said(), None, everyone, listed).readers == {"*"}


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        (None, True),
        ("editor", True),
        ("drafter", True),  # through its profile
        ("helper", False),
        ("willing", True),
        ("unwilling", False),
    ],
)
def test_who_takes_part(snapshot: Snapshot, agent: str | None, expected: bool) -> None:
    asked = said(agent=agent) if agent else said()
    assert build_scope(asked, None, ANONYMOUS, snapshot).takes_part is expected


def test_the_profile_of_the_request_wins_over_the_agents(snapshot: Snapshot) -> None:
    scope = build_scope(said(agent="drafter", profile="empty"), None, ANONYMOUS, snapshot)
    assert scope.profile is snapshot.profiles["empty"]
    assert build_scope(said(agent="helper", profile="writing"), None, ANONYMOUS, snapshot).takes_part is True


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ("77", "site/blog"),
        ("site/blog", "site/blog"),
        ("/site/blog/", "site/blog"),
        ("site/blog/post", "site/blog/post"),
        ("site/blog/no/such/page", "site/blog"),
        ("site/elsewhere", "site"),
        ("site/blogger", "site"),
    ],
)
def test_content_is_found_by_id_or_by_the_longest_known_prefix_of_a_path(
    snapshot: Snapshot, content: str, path: str
) -> None:
    node = build_scope(said(content=content), None, ANONYMOUS, snapshot).node
    assert node is not None
    assert node.path == path


@pytest.mark.parametrize("content", ["nowhere", "/", "si", "nowhere/site", "78"])
def test_content_of_which_nothing_is_known_is_a_fault(snapshot: Snapshot, content: str) -> None:
    assert failure(snapshot, said(content=content)).code == "unknown_content"


def test_a_node_is_read_by_its_readers_and_those_above_it_only(snapshot: Snapshot) -> None:
    def path(who: str, content: str = "site/hr/pay") -> str:
        node = build_scope(said(content=content), None, Principal(who), snapshot).node
        assert node is not None
        return node.path

    assert (path("boss"), path("hr"), path("guest")) == ("site/hr/pay", "site/hr", "site")
    assert (path("hr", "site/hr/plan"), path("guest", "site/hr/plan")) == ("site/hr/plan", "site")


def test_nodes_that_may_not_be_read_are_not_suggested(snapshot: Snapshot) -> None:
    assert "site/hr" not in failure(snapshot, said(content="sit/hr/pay")).message
    assert "site/hr" in failure(snapshot, said(content="sit/hr/pay"), who=Principal("boss")).message


def test_the_model_is_the_clients_else_the_agents_the_profiles_the_default(snapshot: Snapshot) -> None:
    def model(
        given: str | None, agent: str | None, default: str | None = "m-default", who: Principal = ANONYMOUS
    ) -> str:
        scope = build_scope(said(agent=agent) if agent else said(), None, who, snapshot)
        chosen = choose_model(given, scope, default)
        require_model(who, chosen)
        return chosen

    assert model("m-client", "modelled") == "m-client"
    for given in ("agent:modelled", None):
        assert model(given, "modelled") == "m-agent"
    assert model(None, "drafter") == "m-profile"
    assert model(None, None) == "m-default"
    with pytest.raises(ModelRequired) as caught:
        model(None, "helper", None)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "model_required", "model")
    some = Principal("site", models=frozenset({"m-client", "m-a*"}))
    assert (model("m-client", None, who=some), model(None, "modelled", who=some)) == ("m-client", "m-agent")
    for given, agent in (("m-other", None), (None, None), ("agent:drafter", "drafter"), ("m-client" * 1000, None)):
        with pytest.raises(ModelNotAllowed) as refused:
            model(given, agent, who=some)
        assert (refused.value.status, refused.value.code, refused.value.param) == (403, "model_not_allowed", "model")
