"""Principals by key."""

from hashlib import sha256

import pytest

from gateway.domain.principal import ANONYMOUS
from gateway.edge.auth import Authenticator
from gateway.errors import InvalidApiKey
from gateway.settings import Auth, Key


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


OPEN = Authenticator(Auth())
KEYED = Authenticator(
    Auth(
        keys=[
            Key(sha256=digest("alpha").upper()),
            Key(name="team", sha256=digest("beta"), workspace="w2", agents=["a"], agent="b", rights=["act_as_user"]),
        ]
    )
)


def bearer(key: str) -> tuple[bytes, bytes]:
    return (b"authorization", b"Bearer " + key.encode())


def own(key: str) -> tuple[bytes, bytes]:
    return (b"x-context-key", key.encode())


@pytest.mark.parametrize("headers", [[], [bearer("anything")], [(b"authorization", b"Basic eDp5")]])
def test_without_keys_everyone_is_anonymous(headers):
    assert OPEN.authenticate(headers) is ANONYMOUS
    assert not OPEN.keyed


def test_a_key_names_its_principal_and_all_it_may():
    principal = KEYED.authenticate([bearer("beta")])
    assert (principal.name, principal.workspace, principal.agent) == ("team", "w2", "b")
    assert principal.agents == {"a"}
    assert principal.rights == {"act_as_user"}


def test_a_key_without_a_name_is_called_by_its_hash():
    assert KEYED.authenticate([bearer("alpha")]).name == f"key-{digest('alpha')[:8]}"


def test_the_scheme_is_read_in_any_case():
    assert KEYED.authenticate([(b"authorization", b"bearer  beta ")]).name == "team"


def test_the_gateways_own_header_wins_over_the_bearer():
    assert KEYED.authenticate([bearer("alpha"), own("beta")]).name == "team"
    with pytest.raises(InvalidApiKey):
        KEYED.authenticate([bearer("alpha"), own("wrong")])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [bearer("wrong")],
        [bearer("")],
        [own("")],
        [(b"authorization", b"Basic beta")],
        [(b"authorization", b"beta")],
    ],
)
def test_with_keys_nobody_else_is_let_in(headers):
    with pytest.raises(InvalidApiKey):
        KEYED.authenticate(headers)


def test_a_refusal_does_not_repeat_the_key():
    with pytest.raises(InvalidApiKey) as refusal:
        KEYED.authenticate([bearer("hunter2")])
    assert "hunter2" not in refusal.value.message


@pytest.mark.parametrize(
    ("authenticator", "headers", "expected"),
    [
        (OPEN, [bearer("mine")], "mine"),
        (OPEN, [], None),
        (KEYED, [bearer("beta")], None),
        (KEYED, [own("beta"), bearer("mine")], "mine"),
        (KEYED, [own("beta"), bearer("alpha")], None),
    ],
    ids=["no keys", "no bearer", "a key of ours", "both", "both ours"],
)
def test_only_a_bearer_that_is_the_clients_own_may_go_upstream(authenticator, headers, expected):
    assert authenticator.client_bearer(headers) == expected
