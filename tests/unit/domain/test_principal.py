"""Roles, and whom reader lists let read."""

import pytest

from gateway.domain.principal import ANONYMOUS, Principal, Role, may_read


@pytest.mark.parametrize("held", list(Role))
@pytest.mark.parametrize("needed", list(Role))
def test_a_role_covers_itself_and_what_stands_before_it(held: Role, needed: Role) -> None:
    order = ["chat", "editor", "admin"]
    assert held.covers(needed) is (order.index(held) >= order.index(needed))


@pytest.mark.parametrize(
    ("principal", "user", "expected"),
    [
        (Principal("site"), None, {"site"}),
        (Principal("site"), "ann", {"site", "ann"}),
        (Principal("site", groups=frozenset({"staff", "press"})), "ann", {"site", "ann", "staff", "press"}),
        (Principal("site", reader="key-1"), None, {"key-1"}),
        (Principal("site", groups=frozenset({"*"})), None, {"site", "*"}),
        (Principal("site"), "*", {"site"}),
        (Principal("*"), None, set()),
        (ANONYMOUS, None, {"anonymous"}),
    ],
)
def test_a_caller_reads_as_itself_its_groups_and_its_user(
    principal: Principal, user: str | None, expected: set[str]
) -> None:
    assert principal.readers(user) == expected


@pytest.mark.parametrize(
    ("readers", "allowed", "expected"),
    [
        ({"ann"}, (), True),
        (set(), (), True),
        ({"ann"}, ("ann", "bob"), True),
        ({"ann"}, ("bob",), False),
        (set(), ("bob",), False),
        ({"*"}, ("bob",), True),
        ({"ann"}, ("*",), False),
    ],
)
def test_a_reader_list_lets_in_those_it_names_and_whoever_is_in_every_group(
    readers: set[str], allowed: tuple[str, ...], expected: bool
) -> None:
    assert may_read(frozenset(readers), allowed) is expected
