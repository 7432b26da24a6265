"""What one key may give to another: the rules as a table, and that no sequence of grants gets around them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.control.keys import limit_as_number, list_excesses, require_grantable
from gateway.domain.principal import ANONYMOUS, KeyLimits, Principal, Role
from gateway.errors import Forbidden

Rule = Callable[[Principal, Principal], Iterator[tuple[str, str]]]

ACT = frozenset({"act_as_user"})
ADMIN = Principal("root", role=Role.ADMIN)
NARROW = Principal("root", role=Role.ADMIN, agents=frozenset({"a", "b"}), groups=frozenset({"g"}))
BOUND = replace(NARROW, agent="c")
SOME = replace(ADMIN, models=frozenset({"gpt-*", "o1"}))
LIMITED = replace(ADMIN, limits=KeyLimits(10, 1000), tier="pro", expires=100.0)


def key(**said: Any) -> Principal:
    return replace(Principal("new"), **said)


@pytest.mark.parametrize(
    ("holder", "wanted", "fields"),
    [
        (ADMIN, key(), []),
        (ADMIN, key(role=Role.ADMIN), []),
        (ADMIN, key(workspace="other"), ["workspace"]),
        (replace(ADMIN, role=Role.EDITOR), key(role=Role.EDITOR), []),
        (replace(ADMIN, role=Role.EDITOR), key(role=Role.ADMIN), ["role"]),
        (replace(ADMIN, role=Role.CHAT), key(role=Role.EDITOR), ["role"]),
        (ADMIN, key(agents=frozenset({"x"})), []),
        (NARROW, key(agents=frozenset({"a"})), []),
        (NARROW, key(agents=frozenset()), []),
        (NARROW, key(agents=frozenset({"a", "x"})), ["agents"]),
        (NARROW, key(agents=None), ["agents"]),
        (NARROW, key(agents=frozenset(), agent="b"), []),
        (NARROW, key(agents=frozenset(), agent="x"), ["agent"]),
        (BOUND, key(agents=frozenset({"c"}), agent="c"), []),
        (BOUND, key(agents=frozenset({"a"})), ["agent"]),
        (BOUND, key(agents=frozenset({"a"}), agent="a"), ["agent"]),
        (NARROW, key(agents=frozenset({"a"}), agent_optional=True), ["agent_optional"]),
        (replace(NARROW, agent_optional=True), key(agents=frozenset({"a"}), agent_optional=True), []),
        (ADMIN, key(agents=frozenset({"a"}), agent_optional=True), []),
        (ADMIN, key(models=frozenset({"m"})), []),
        (SOME, key(models=frozenset({"gpt-4*", "o1"})), []),
        (SOME, key(models=frozenset()), []),
        (SOME, key(), ["models"]),
        (SOME, key(models=frozenset({"*"})), ["models"]),
        (SOME, key(models=frozenset({"gpt*"})), ["models"]),
        (SOME, key(models=frozenset({"o1*"})), ["models"]),
        (NARROW, key(agents=frozenset(), groups=frozenset({"g"})), []),
        (NARROW, key(agents=frozenset(), groups=frozenset({"g", "h"})), ["groups"]),
        (NARROW, key(agents=frozenset(), groups=frozenset({"*"})), ["groups"]),
        (replace(ADMIN, groups=frozenset({"*"})), key(groups=frozenset({"h", "*"})), []),
        (ADMIN, key(tier="gold"), []),
        (LIMITED, key(tier="pro", limits=KeyLimits(10, 1000), expires=100.0), []),
        (LIMITED, key(tier="pro", limits=KeyLimits(1, 1), expires=1.0), []),
        (LIMITED, key(tier="gold", limits=KeyLimits(10, 1000), expires=100.0), ["tier"]),
        (LIMITED, key(limits=KeyLimits(10, 1000), expires=100.0), ["tier"]),
        (LIMITED, key(tier="pro", limits=KeyLimits(11, 1000), expires=100.0), ["limits.requests"]),
        (LIMITED, key(tier="pro", limits=KeyLimits(None, 1001), expires=100.0), ["limits.requests", "limits.tokens"]),
        (LIMITED, key(tier="pro", limits=KeyLimits(10, 1000), expires=101.0), ["expires_at"]),
        (LIMITED, key(tier="pro", limits=KeyLimits(10, 1000)), ["expires_at"]),
        (ADMIN, key(rights=ACT), ["act_for_users"]),
        (replace(ADMIN, rights=ACT), key(rights=ACT), []),
        (ANONYMOUS, key(role=Role.ADMIN), []),
        (ANONYMOUS, key(rights=ACT), ["act_for_users"]),
        (ANONYMOUS, key(groups=frozenset({"staff"})), ["groups"]),
    ],
)
def test_the_table_of_grants(holder: Principal, wanted: Principal, fields: list[str]) -> None:
    assert [field for field, _ in list_excesses(holder, wanted)] == fields


def test_a_refusal_names_the_field() -> None:
    with pytest.raises(Forbidden, match=r"^role: your key has the role chat") as refused:
        require_grantable(Principal("me"), key(role=Role.ADMIN))
    assert refused.value.param == "role"


NAMES = st.frozensets(st.sampled_from(["a", "b", "c"]))
PRINCIPALS = st.builds(
    Principal,
    name=st.sampled_from(["x", "y"]),
    workspace=st.sampled_from(["default", "other"]),
    agents=st.none() | NAMES,
    agent=st.none() | st.sampled_from(["a", "b", "c"]),
    agent_optional=st.booleans(),
    models=st.none() | st.frozensets(st.sampled_from(["*", "m-*", "m-1", "*-1", "m-1*", "n"])),
    rights=st.sampled_from([frozenset(), ACT]),
    role=st.sampled_from(list(Role)),
    groups=st.frozensets(st.sampled_from(["g", "h", "*"])),
    tier=st.none() | st.sampled_from(["free", "pro"]),
    limits=st.builds(KeyLimits, st.none() | st.integers(1, 3), st.none() | st.integers(1, 3)),
    expires=st.none() | st.sampled_from([1.0, 2.0, 3.0]),
)


def powers(principal: Principal) -> set[tuple[str, object]]:
    """What a key can really do, told apart from how the rules are written: one entry for each single thing."""
    able: set[tuple[str, object]] = {("workspace", principal.workspace)}
    able |= {("role", role) for role in Role if principal.role.covers(role)}
    for agent in ("a", "b", "c", "another") if principal.agent is None else (principal.agent,):
        if principal.may_use(agent):
            able.add(("uses", agent))
            if agent != principal.agent:
                able.add(("uses without what it makes mandatory", agent))
    if principal.agent is None and not principal.needs_agent:
        able.add(("asks without an agent", True))
    able |= {("calls", model) for model in ("m-1", "m-11", "m-2", "x-1", "n", "x") if principal.may_call(model)}
    able |= {("reads as", group) for group in ("g", "h", "another") if {group, "*"} & principal.groups}
    able |= {("tier", tier) for tier in ("free", "pro", None) if principal.tier in (tier, None)}
    able |= {("requests", n) for n in range(1, 5) if n <= limit_as_number(principal.limits.requests)}
    able |= {("tokens", n) for n in range(1, 5) if n <= limit_as_number(principal.limits.tokens)}
    able |= {("at", n) for n in range(5) if n < limit_as_number(principal.expires)}
    return able | ({("acts for users", True)} if principal.rights >= ACT else set())


def reached(root: Principal, wishes: list[Principal], rule: Rule = list_excesses) -> list[Principal]:
    """Every key that comes about when each wish is tried by every key that exists by then."""
    held = [root]
    for wish in wishes:
        if any(not list(rule(holder, wish)) for holder in held):
            held.append(wish)
    return held


@given(PRINCIPALS, st.lists(PRINCIPALS, max_size=6))
def test_no_sequence_of_grants_yields_more_than_the_root_has(root: Principal, wishes: list[Principal]) -> None:
    for one in reached(root, wishes):
        assert powers(one) <= powers(root)


@given(PRINCIPALS)
def test_every_key_may_give_what_it_has(root: Principal) -> None:
    assert not list(list_excesses(root, root))


WEAK = Principal(
    "weak",
    agents=frozenset({"a"}),
    agent="a",
    models=frozenset({"m-1"}),
    tier="free",
    limits=KeyLimits(1, 1),
    expires=1.0,
)
FREE: dict[str, Any] = {"agent": None}  # without a bound agent
STRONGER: dict[str, dict[str, Any]] = {
    "workspace": {"workspace": "other"},
    "role": {"role": Role.ADMIN},
    "agents": FREE | {"agents": frozenset({"c"})},
    "agent": {"agent": None},
    "agent_optional": FREE | {"agent_optional": True},
    "models": {"models": frozenset({"m-*"})},
    "groups": {"groups": frozenset({"*"})},
    "tier": {"tier": "pro"},
    "limits.requests": {"limits": KeyLimits(None, 1)},
    "limits.tokens": {"limits": KeyLimits(1, None)},
    "expires_at": {"expires": None},
    "act_for_users": {"rights": ACT},
}


@pytest.mark.parametrize("field", STRONGER)
def test_a_rule_that_is_left_out_is_noticed(field: str) -> None:
    def forgetful(holder: Principal, wanted: Principal) -> Iterator[tuple[str, str]]:
        return (one for one in list_excesses(holder, wanted) if one[0] != field)

    weak = replace(WEAK, **FREE) if field in ("agents", "agent_optional") else WEAK
    wish = replace(weak, **STRONGER[field])
    assert reached(weak, [wish]) == [weak]
    assert any(not powers(one) <= powers(weak) for one in reached(weak, [wish], forgetful))
