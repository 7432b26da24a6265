"""Keys as a service: made, listed, changed and revoked by somebody who may."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

import orjson
import pytest

from gateway.control.key_shape import KeyWish, shape_of
from gateway.control.keys import PREFIX, Keys
from gateway.domain.principal import ANONYMOUS, KeyLimits, Principal, Role
from gateway.domain.record import Author, Record, RecordKey, RecordWrite
from gateway.errors import Conflict, Forbidden, InvalidObject, NotFound, PreconditionFailed
from gateway.settings import KeySettings as ConfiguredKey
from gateway.stores.memory_records import MemoryRecords
from gateway.stores.protocols import AuditFilter

ADMIN = Principal("root", role=Role.ADMIN, key="key-root")
CONFIGURED = ConfiguredKey(name="site", sha256="ab" * 32, groups=["press"])


class Book:
    """Records in memory, as the policies of a gateway hold them."""

    def __init__(self) -> None:
        self.store = MemoryRecords(clock=lambda: 1_700_000_000.0)
        self.records: tuple[Record, ...] = ()

    def stored(self, kind: str) -> Iterable[Record]:
        return [record for record in self.records if record.key.kind == kind]

    async def commit(self, writes: Sequence[RecordWrite], author: Author) -> list[Record]:
        made = await self.store.commit(writes, author)
        self.records = (await self.store.load()).records
        return made


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def keys(book: Book) -> Keys:
    return Keys(book, [CONFIGURED], clock=lambda: 1_700_000_000.0)


async def test_a_new_key_is_shown_once_and_kept_as_its_hash(keys: Keys, book: Book) -> None:
    made = await keys.create(ADMIN, KeyWish(name="shop", role=Role.EDITOR, groups=[]))
    (record,) = book.records
    assert made.secret.startswith(PREFIX)
    assert len(made.secret) >= len(PREFIX) + 40
    assert shape_of(record).sha256 == sha256(made.secret.encode()).hexdigest()
    assert made.secret.encode() not in (record.body or b"")
    assert record.key == RecordKey("default", "keys", made.held.id)
    assert made.held.id.startswith("key-")
    assert len(made.held.id) == 16


async def test_two_keys_have_nothing_in_common(keys: Keys) -> None:
    one, other = await keys.create(ADMIN, KeyWish()), await keys.create(ADMIN, KeyWish())
    assert one.secret != other.secret
    assert one.held.id != other.held.id


async def test_what_is_told_of_a_key_holds_neither_the_key_nor_its_hash(keys: Keys, book: Book) -> None:
    made = await keys.create(ADMIN, KeyWish(name="shop", tier="pro"))
    await keys.update(ADMIN, made.held.id, KeyWish(name="shop", tier="gold"))
    await keys.revoke(ADMIN, made.held.id)
    digest = sha256(made.secret.encode()).hexdigest()
    audit, _ = await book.store.audit("default", AuditFilter(), 0, 100)
    told = orjson.dumps([made.held.data, *(orjson.loads(entry.changes) for entry in audit)]).decode()
    assert "gold" in told
    assert not any(secret in told for secret in (made.secret, digest, digest[:8], "sha256"))
    assert [(entry.by, entry.action) for entry in audit] == [("root", "delete"), ("root", "update"), ("root", "create")]


async def test_keys_are_listed_by_workspace_those_of_the_configuration_first(keys: Keys) -> None:
    other = replace(ADMIN, workspace="other")
    await keys.create(ADMIN, KeyWish(name="b"))
    await keys.create(ADMIN, KeyWish(name="a"))
    hidden = await keys.create(other, KeyWish(name="c"))
    assert [held.principal.name for held in keys.of("default")] == ["site", "a", "b"]
    assert [held.principal.name for held in keys.of("other")] == ["c"]
    with pytest.raises(NotFound) as foreign:
        keys.get("default", hidden.held.id)
    with pytest.raises(NotFound) as unknown:
        keys.get("default", "key-000000000000")
    assert foreign.value.message.replace(hidden.held.id, "key-000000000000") == unknown.value.message


async def test_another_workspaces_key_cannot_be_touched(keys: Keys, book: Book) -> None:
    hidden = await keys.create(replace(ADMIN, workspace="other"), KeyWish())
    for change in (keys.revoke(ADMIN, hidden.held.id), keys.update(ADMIN, hidden.held.id, KeyWish())):
        with pytest.raises(NotFound):
            await change
    assert len(book.records) == 1
    with pytest.raises(Forbidden, match=r"^workspace: "):
        await keys.create(ADMIN, KeyWish(), "other")


async def test_what_is_not_said_is_taken_from_a_restricted_caller(keys: Keys) -> None:
    limits = KeyLimits(10, None)
    caller = replace(ADMIN, agents=frozenset({"b", "a"}), agent="a", tier="pro", limits=limits, expires=1_800_000_000.0)
    data = (await keys.create(caller, KeyWish())).held.data
    assert (data["agents"], data["agent"], data["tier"]) == (["a", "b"], "a", "pro")
    assert data["limits"] == {"requests": 10, "tokens": None}
    assert data["expires_at"] == "2027-01-15T08:00:00Z"
    with pytest.raises(Forbidden, match=r"^tier: "):
        await keys.create(caller, KeyWish(tier=None))
    with pytest.raises(Forbidden, match=r"^limits\.requests: "):
        await keys.create(caller, KeyWish.model_validate({"limits": {"requests": None}}))


async def test_nobody_touches_a_key_that_has_more(keys: Keys, book: Book) -> None:
    strong = await keys.create(replace(ADMIN, rights=frozenset({"act_as_user"})), KeyWish(act_for_users=True))
    for change in (keys.revoke(ADMIN, strong.held.id), keys.update(ADMIN, strong.held.id, KeyWish())):
        with pytest.raises(Forbidden, match=r"^act_for_users: "):
            await change
    assert keys.get("default", strong.held.id).principal.rights == {"act_as_user"}


async def test_a_key_may_be_changed_up_to_what_its_changer_has(keys: Keys) -> None:
    made = await keys.create(ADMIN, KeyWish(name="shop"))
    changed = await keys.update(ADMIN, made.held.id, KeyWish(name="shop", role=Role.ADMIN))
    assert (changed.principal.role, changed.data["version"]) == (Role.ADMIN, 2)
    with pytest.raises(Forbidden, match=r"^groups: "):
        await keys.update(ADMIN, made.held.id, KeyWish(name="shop", groups=["staff"]))


async def test_a_change_keeps_the_secret(keys: Keys, book: Book) -> None:
    made = await keys.create(ADMIN, KeyWish())
    await keys.update(ADMIN, made.held.id, KeyWish(tier="pro"))
    assert shape_of(book.records[0]).sha256 == sha256(made.secret.encode()).hexdigest()


async def test_a_change_may_be_made_dependent_on_what_was_seen(keys: Keys) -> None:
    made = await keys.create(ADMIN, KeyWish())
    changed = await keys.update(ADMIN, made.held.id, KeyWish(tier="pro"), frozenset({made.held.tag}))
    assert changed.tag != made.held.tag
    for change in (
        keys.update(ADMIN, made.held.id, KeyWish(), frozenset({made.held.tag})),
        keys.revoke(ADMIN, made.held.id, frozenset({made.held.tag})),
    ):
        with pytest.raises(PreconditionFailed):
            await change
    await keys.revoke(ADMIN, made.held.id, frozenset({"*"}))


async def test_keys_of_the_configuration_can_only_be_read(keys: Keys) -> None:
    (held,) = keys.of("default")
    assert (held.data["source"], held.data["name"], held.data["groups"]) == ("config", "site", ["press"])
    assert CONFIGURED.sha256[:8] not in str(held.data)
    for change in (keys.revoke(ADMIN, held.id), keys.update(ADMIN, held.id, KeyWish())):
        with pytest.raises(Conflict, match=r"auth\.keys"):
            await change


@pytest.mark.parametrize("name", ["site", "shop", "anonymous"])
async def test_a_name_is_given_once(keys: Keys, name: str) -> None:
    made = await keys.create(ADMIN, KeyWish(name="shop"))
    with pytest.raises(Conflict, match=name):
        await keys.create(ADMIN, KeyWish(name=name))
    assert (await keys.update(ADMIN, made.held.id, KeyWish(name="shop"))).principal.name == "shop"


async def test_a_name_gives_nothing_to_read(keys: Keys) -> None:
    made = await keys.create(ADMIN, KeyWish(name="ann"))
    assert made.held.principal.readers() == {made.held.id}


async def test_a_key_that_has_ended_cannot_be_made(keys: Keys) -> None:
    with pytest.raises(InvalidObject) as refused:
        await keys.create(ADMIN, KeyWish.model_validate({"expires_at": "2020-01-01"}))
    assert refused.value.faults[0].pointer == "/expires_at"


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59Z", "2100-01-01"])
async def test_a_key_may_last_as_long_as_there_are_dates(keys: Keys, end: str) -> None:
    made = await keys.create(ADMIN, KeyWish.model_validate({"expires_at": end}))
    assert made.held.data["expires_at"] <= "9999-12-31T00:00:00Z"


async def test_without_keys_anybody_on_this_machine_makes_the_first_one(keys: Keys) -> None:
    assert (await keys.create(ANONYMOUS, KeyWish(role=Role.ADMIN))).held.principal.role is Role.ADMIN
    with pytest.raises(Forbidden, match=r"^act_for_users: "):
        await keys.create(ANONYMOUS, KeyWish(act_for_users=True))
