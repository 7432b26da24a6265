"""Principals by key."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from math import inf

import pytest
from msgspec.structs import replace

from gateway.control.key_shape import KeyShape
from gateway.domain.principal import ANONYMOUS, UNLIMITED, KeyLimits, Role
from gateway.domain.record import Record, RecordKey
from gateway.edge.access import AccessControl, HostCheck
from gateway.edge.auth import Authenticator, Freshness
from gateway.edge.request import read_head
from gateway.errors import Faults, GatewayError, InvalidApiKey, MissingApiKey, ServiceUnavailable
from gateway.settings import AuthSettings, KeySettings


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


OPEN = Authenticator(AuthSettings())
KEYED = Authenticator(
    AuthSettings(
        keys=[
            KeySettings(sha256=digest("alpha").upper()),
            KeySettings(
                name="team", sha256=digest("beta"), workspace="w2", agents=["a"], agent="b", rights=["act_as_user"]
            ),
        ]
    )
)


def bearer(key: str) -> tuple[bytes, bytes]:
    return (b"authorization", b"Bearer " + key.encode())


def own(key: str) -> tuple[bytes, bytes]:
    return (b"x-context-key", key.encode())


@pytest.mark.parametrize("headers", [[], [bearer("anything")], [(b"authorization", b"Basic eDp5")]])
def test_without_keys_everyone_is_anonymous(headers):
    assert OPEN.authenticate(read_head(headers)) is ANONYMOUS
    assert not OPEN.keyed


def test_a_key_names_its_principal_and_all_it_may():
    principal = KEYED.authenticate(read_head([bearer("beta")]))
    assert (principal.name, principal.workspace, principal.agent) == ("team", "w2", "b")
    assert principal.agents == {"a"}
    assert principal.rights == {"act_as_user"}


def test_a_key_without_a_name_is_called_by_its_hash():
    assert KEYED.authenticate(read_head([bearer("alpha")])).name == f"key-{digest('alpha')[:8]}"


def test_the_scheme_is_read_in_any_case():
    assert KEYED.authenticate(read_head([(b"authorization", b"bearer  beta ")])).name == "team"


def test_the_gateways_own_header_wins_over_the_bearer():
    assert KEYED.authenticate(read_head([bearer("alpha"), own("beta")])).name == "team"
    with pytest.raises(InvalidApiKey):
        KEYED.authenticate(read_head([bearer("alpha"), own("wrong")]))


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
        KEYED.authenticate(read_head(headers))


def test_a_refusal_does_not_repeat_the_key():
    with pytest.raises(InvalidApiKey) as refusal:
        KEYED.authenticate(read_head([bearer("hunter2")]))
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
    assert authenticator.find_client_bearer(read_head(headers)) == expected


@pytest.mark.parametrize(
    ("said", "role"),
    [({}, Role.CHAT), ({"rights": ["admin"]}, Role.ADMIN), ({"role": "editor"}, Role.EDITOR)],
)
def test_a_configured_key_has_the_role_of_its_rights_unless_it_names_one(said, role):
    auth = Authenticator(AuthSettings(keys=[KeySettings.model_validate({"sha256": digest("k"), **said})]))
    assert auth.authenticate(read_head([bearer("k")])).role is role


def test_a_configured_key_has_groups_tier_and_limits():
    key = KeySettings.model_validate(
        {"name": "n", "sha256": digest("k"), "groups": ["g"], "tier": "pro", "limits": {"requests": 2}}
    )
    principal = Authenticator(AuthSettings(keys=[key])).authenticate(read_head([bearer("k")]))
    assert (principal.groups, principal.tier, principal.limits) == ({"g"}, "pro", KeyLimits(2, None))
    assert principal.readers() == {"key:n", "group:g"}
    assert KEYED.authenticate(read_head([bearer("beta")])).limits is UNLIMITED


def configured(*keys: KeySettings) -> Authenticator:
    return Authenticator(AuthSettings(keys=list(keys)))


def test_the_id_of_a_configured_key_outlives_its_secret_and_tells_nothing_of_it():
    ids = {
        Authenticator(AuthSettings(keys=[KeySettings(name="n", sha256=digest(k))]))
        .authenticate(read_head([bearer(k)]))
        .key
        for k in ("one", "two")
    }
    (only,) = ids
    nameless = (
        Authenticator(AuthSettings(keys=[KeySettings(sha256=digest("one"))]))
        .authenticate(read_head([bearer("one")]))
        .key
    )
    assert only != nameless
    assert nameless is not None
    assert digest("one")[:6] not in nameless


def stored(secret: str, id: str = "key-1", workspace: str = "default", version: int = 1, **said: object) -> Record:
    body = KeyShape.model_validate({"sha256": digest(secret), **said}).model_dump_json().encode()
    return Record(RecordKey(workspace, "keys", id), id, version, body, 0.0, "operator", "create")


@dataclass
class World:
    """Clocks and a store that can be lost."""

    monotonic: float = 1000.0
    contact: float = 1000.0
    clock: float = 1_700_000_000.0
    fresh: Freshness = field(init=False)

    def __post_init__(self) -> None:
        self.fresh = Freshness(300.0, lambda: self.contact, lambda: self.monotonic, lambda: self.clock)

    def authenticator(self, *keys: KeySettings, loopback: bool = True) -> Authenticator:
        return Authenticator(AuthSettings(keys=list(keys)), loopback=loopback, fresh=self.fresh)


@pytest.fixture
def world() -> World:
    return World()


CONFIGURED = KeySettings(name="fixed", sha256=digest("fixed"))


def refusal(auth: Authenticator, *headers: tuple[bytes, bytes]) -> GatewayError:
    with pytest.raises(GatewayError) as refused:
        auth.authenticate(read_head(headers))
    return refused.value


def test_a_stored_key_is_known_from_the_update_on_and_no_longer_than_it_is_there(world):
    auth = world.authenticator()
    assert auth.authenticate(read_head([])) is ANONYMOUS
    auth.update([stored("s", workspace="w", name="shop", act_for_users=True, groups=["g"])])
    principal = auth.authenticate(read_head([bearer("s")]))
    assert (principal.name, principal.workspace, principal.key) == ("shop", "w", "key-1")
    assert (principal.rights, principal.readers()) == ({"act_as_user"}, {"key:key-1", "group:g"})
    assert auth.keyed
    assert isinstance(refusal(auth), InvalidApiKey)
    auth.update([])
    for headers in ([], [bearer("s")]):
        assert isinstance(refusal(auth, *headers), InvalidApiKey)
    assert auth.keyed


def test_a_changed_record_changes_its_principal_and_leaves_the_others_as_they_are(world):
    auth = world.authenticator()
    first, second = stored("a"), stored("b", "key-2")
    auth.update([first, second])
    before = auth.authenticate(read_head([bearer("b")]))
    auth.update([stored("a", version=2, role="admin"), second])
    assert auth.authenticate(read_head([bearer("a")])).role is Role.ADMIN
    assert auth.authenticate(read_head([bearer("b")])) is before


def test_a_deleted_record_is_no_key(world):
    auth = world.authenticator(CONFIGURED)
    auth.update([replace(stored("s"), body=None)])
    assert isinstance(refusal(auth, bearer("s")), InvalidApiKey)


@pytest.mark.parametrize("body", [b"{}", b"nonsense", b'{"sha256": "short"}', b"null"])
def test_a_record_that_is_no_key_lets_nobody_in_and_harms_no_other(world, body):
    auth = world.authenticator()
    auth.update([replace(stored("x", "key-0"), body=body), stored("s")])
    assert auth.authenticate(read_head([bearer("s")])).key == "key-1"
    auth.update([replace(stored("x", "key-0"), body=body)])
    assert isinstance(refusal(auth), InvalidApiKey), "a damaged key is not the same as no key"


def test_a_configured_key_wins_over_a_stored_one(world):
    auth = world.authenticator(CONFIGURED)
    auth.update([stored("fixed", role="admin")])
    assert (
        auth.authenticate(read_head([bearer("fixed")])).name,
        auth.authenticate(read_head([bearer("fixed")])).role,
    ) == ("fixed", "chat")


def test_a_key_ends_when_it_expires_and_lets_nobody_else_in(world):
    auth = world.authenticator()
    auth.update(
        [stored("s", expires_at="2023-11-14T22:13:30Z"), stored("t", "key-2", expires_at="2023-11-14T22:14:00Z")]
    )
    assert auth.authenticate(read_head([bearer("s")]))
    world.clock += 10
    assert isinstance(refusal(auth, bearer("s")), InvalidApiKey)
    assert auth.authenticate(read_head([bearer("t")]))
    world.clock += 30
    assert isinstance(refusal(auth, bearer("t")), InvalidApiKey)
    assert isinstance(refusal(auth), InvalidApiKey), "nobody is anonymous because all keys have expired"
    assert auth.keyed


def test_stored_keys_are_believed_for_a_while_after_the_store_is_lost(world):
    auth = world.authenticator(CONFIGURED)
    auth.update([stored("s")])
    world.monotonic += 300
    assert auth.authenticate(read_head([bearer("s")]))
    world.monotonic += 0.1
    for headers in ([bearer("s")], [bearer("unknown")]):
        lost = refusal(auth, *headers)
        assert isinstance(lost, ServiceUnavailable)
        assert lost.retry_after
    assert auth.authenticate(read_head([bearer("fixed")])).name == "fixed"
    world.contact = world.monotonic
    assert auth.authenticate(read_head([bearer("s")]))
    assert isinstance(refusal(auth, bearer("unknown")), InvalidApiKey)


def test_a_key_that_was_revoked_before_the_store_was_lost_is_not_called_wrong_either(world):
    auth = world.authenticator(CONFIGURED)
    auth.update([stored("s")])
    auth.update([])
    world.monotonic += 301
    assert isinstance(refusal(auth, bearer("s")), ServiceUnavailable)


def test_without_stored_keys_a_lost_store_does_not_matter(world):
    auth, alone = world.authenticator(CONFIGURED), world.authenticator()
    world.monotonic += 10_000
    assert isinstance(refusal(auth, bearer("unknown")), InvalidApiKey)
    assert auth.authenticate(read_head([bearer("fixed")]))
    assert alone.authenticate(read_head([])) is ANONYMOUS


def test_a_store_that_was_never_reached_lets_only_configured_keys_in(world):
    world.contact = -inf
    auth, alone = world.authenticator(CONFIGURED), world.authenticator()
    assert auth.authenticate(read_head([bearer("fixed")]))
    assert isinstance(refusal(auth, bearer("unknown")), ServiceUnavailable)
    assert isinstance(refusal(alone), ServiceUnavailable)
    assert isinstance(refusal(alone, bearer("unknown")), ServiceUnavailable)
    world.contact = world.monotonic
    assert alone.authenticate(read_head([])) is ANONYMOUS


def test_beyond_loopback_nobody_is_anonymous(world):
    auth = world.authenticator(loopback=False)
    assert auth.keyed
    assert isinstance(refusal(auth), InvalidApiKey)
    with pytest.raises(Faults, match="gateway keys create"):
        auth.require_keys()
    auth.update([stored("s")])
    auth.require_keys()
    auth.update([])
    assert isinstance(refusal(auth, bearer("s")), InvalidApiKey)


def test_a_start_is_not_refused_where_the_keys_cannot_be_known(world):
    world.contact = -inf
    world.authenticator(loopback=False).require_keys()
    World().authenticator().require_keys()
    World().authenticator(CONFIGURED, loopback=False).require_keys()


def test_a_key_of_ours_never_goes_upstream_even_if_it_is_not_known(world):
    auth = world.authenticator()
    assert auth.find_client_bearer(read_head([bearer("cgw_revoked")])) is None
    auth.update([stored("s")])
    assert auth.find_client_bearer(read_head([own("s"), bearer("cgw_other")])) is None
    assert auth.find_client_bearer(read_head([own("s"), bearer("mine")])) == "mine"


def test_a_caller_is_confirmed_only_until_keys_change_expire_or_cannot_be_verified(world):
    auth = world.authenticator()
    access, headers = AccessControl(HostCheck([]), auth), [(b"host", b"localhost"), bearer("s")]
    head = read_head(headers)
    assert access.admit(headers, head).principal is ANONYMOUS
    auth.update([stored("s", expires_at=datetime.fromtimestamp(world.clock + 900, UTC).isoformat())])
    caller = access.admit(headers, head)
    assert caller.principal.key == "key-1"
    assert access.admit(headers, head) is caller
    world.monotonic += 301
    with pytest.raises(ServiceUnavailable):
        access.admit(headers, head)
    world.contact = world.monotonic
    assert access.admit(headers, head) is caller
    world.clock += 900
    with pytest.raises(InvalidApiKey):
        access.admit(headers, head)


def test_a_gateway_that_is_closed_confirms_nobody(world):
    auth = world.authenticator()
    access, headers = AccessControl(HostCheck([]), auth), [(b"host", b"localhost")]
    head = read_head(headers)
    assert access.admit(headers, head).principal is ANONYMOUS
    auth.update([], closed=True)
    with pytest.raises(MissingApiKey):
        access.admit(headers, head)
