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
        (Principal("site"), None, {"key:site"}),
        (Principal("site"), "ann", {"key:site", "user:ann"}),
        (Principal("site"), "", {"key:site"}),
        (
            Principal("site", groups=frozenset({"staff", "press"})),
            "ann",
            {"key:site", "user:ann", "group:staff", "group:press"},
        ),
        (Principal("site", reader="key-1"), None, {"key:key-1"}),
        (Principal("site", groups=frozenset({"*"})), None, {"key:site", "*"}),
        (Principal("site"), "*", {"key:site", "user:*"}),
        (Principal("site"), "group:staff", {"key:site", "user:group:staff"}),
        (Principal("*"), None, {"key:*"}),
        (ANONYMOUS, None, {"key:anonymous"}),
    ],
)
def test_a_caller_reads_as_itself_its_groups_and_its_user(
    principal: Principal, user: str | None, expected: set[str]
) -> None:
    assert principal.readers(user) == expected


@pytest.mark.parametrize(
    ("readers", "allowed", "expected"),
    [
        ({"user:ann"}, (), True),
        (set(), (), True),
        ({"user:ann"}, ("user:ann", "user:bob"), True),
        ({"user:ann"}, ("user:bob",), False),
        ({"user:ann"}, ("group:ann", "key:ann"), False),
        (set(), ("user:bob",), False),
        ({"*"}, ("group:staff",), True),
        ({"*"}, ("user:bob", "group:staff"), True),
        ({"*"}, ("user:bob", "key:site"), False),
        ({"*"}, ("staff",), False),
        ({"user:ann", "key:site"}, ("ann", "site"), False),
    ],
)
def test_a_reader_list_lets_in_those_it_names_and_whoever_is_in_every_group(
    readers: set[str], allowed: tuple[str, ...], expected: bool
) -> None:
    assert may_read(frozenset(readers), allowed) is expected
