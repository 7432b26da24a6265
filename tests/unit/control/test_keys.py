"""Keys as a service: made, listed, changed and revoked by somebody who may."""

from collections.abc import Iterable, Sequence
from hashlib import sha256

import orjson
import pytest
from msgspec.structs import replace

from gateway.control import key_names
from gateway.control import keys as keys_module
from gateway.control.key_history import FIRST_KEY, has_had_keys
from gateway.control.key_names import NamedKey, name_key
from gateway.control.key_shape import KeyShape, KeySpec, parse_key_record
from gateway.control.keys import KEY_PREFIX, Keys
from gateway.domain.principal import ANONYMOUS, KeyLimits, Principal, Role
from gateway.domain.record import Author, Record, RecordKey, RecordWrite
from gateway.errors import Conflict, Forbidden, InvalidObject, NotFound, PreconditionFailed
from gateway.settings import KeySettings as ConfiguredKey
from gateway.stores.memory_records import MemoryRecordStore
from gateway.stores.protocols import AuditFilter

ADMIN = Principal("root", role=Role.ADMIN, key="key-root")
CONFIGURED = ConfiguredKey(name="site", sha256="ab" * 32, groups=["press"])


class Book:
    """Records in memory, as the policies of a gateway hold them."""

    def __init__(self) -> None:
        self.store = MemoryRecordStore(clock=lambda: 1_700_000_000.0)
        self.records: tuple[Record, ...] = ()

    def list_records(self, kind: str) -> Iterable[Record]:
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
    made = await keys.create(ADMIN, KeySpec(name="shop", role=Role.EDITOR, groups=[]))
    (record,) = book.list_records("keys")
    assert made.secret.startswith(KEY_PREFIX)
    assert len(made.secret) >= len(KEY_PREFIX) + 40
    assert parse_key_record(record).sha256 == sha256(made.secret.encode()).hexdigest()
    assert made.secret.encode() not in (record.body or b"")
    assert record.key == RecordKey("default", "keys", made.info.id)
    assert made.info.id.startswith("key-")
    assert len(made.info.id) == 16


async def test_the_store_remembers_the_first_key_when_it_is_gone(keys: Keys, book: Book) -> None:
    assert not has_had_keys(book)
    made = await keys.create(ADMIN, KeySpec())
    assert has_had_keys(book)
    await keys.revoke(ADMIN, made.info.id)
    assert (has_had_keys(book), list(book.list_records("keys"))) == (True, [])


async def test_revoking_a_key_of_an_earlier_release_is_remembered_too(keys: Keys, book: Book) -> None:
    made = await keys.create(ADMIN, KeySpec())
    await book.commit([RecordWrite(FIRST_KEY, None)], Author("x", "delete"))
    assert not has_had_keys(book)
    await keys.revoke(ADMIN, made.info.id)
    assert has_had_keys(book)


async def test_two_keys_have_nothing_in_common(keys: Keys) -> None:
    one, other = await keys.create(ADMIN, KeySpec()), await keys.create(ADMIN, KeySpec())
    assert one.secret != other.secret
    assert one.info.id != other.info.id


async def test_what_is_told_of_a_key_holds_neither_the_key_nor_its_hash(keys: Keys, book: Book) -> None:
    made = await keys.create(ADMIN, KeySpec(name="shop", tier="pro"))
    await keys.update(ADMIN, made.info.id, KeySpec(name="shop", tier="gold"))
    await keys.revoke(ADMIN, made.info.id)
    digest = sha256(made.secret.encode()).hexdigest()
    audit, _ = await book.store.list_audit("default", AuditFilter(), 0, 100)
    told = orjson.dumps([made.info.data, *(orjson.loads(entry.changes) for entry in audit)]).decode()
    assert "gold" in told
    assert not any(secret in told for secret in (made.secret, digest, digest[:8], "sha256"))
    assert [(entry.by, entry.action) for entry in audit] == [("root", "delete"), ("root", "update"), ("root", "create")]


async def test_keys_are_listed_by_workspace_those_of_the_configuration_first(keys: Keys) -> None:
    other = replace(ADMIN, workspace="other")
    await keys.create(ADMIN, KeySpec(name="b"))
    await keys.create(ADMIN, KeySpec(name="a"))
    hidden = await keys.create(other, KeySpec(name="c"))
    assert [held.principal.name for held in keys.list_all("default")] == ["site", "a", "b"]
    assert [held.principal.name for held in keys.list_all("other")] == ["c"]
    with pytest.raises(NotFound) as foreign:
        keys.get("default", hidden.info.id)
    with pytest.raises(NotFound) as unknown:
        keys.get("default", "key-000000000000")
    assert foreign.value.message.replace(hidden.info.id, "key-000000000000") == unknown.value.message


async def test_another_workspaces_key_cannot_be_touched(keys: Keys, book: Book) -> None:
    hidden = await keys.create(replace(ADMIN, workspace="other"), KeySpec())
    for change in (keys.revoke(ADMIN, hidden.info.id), keys.update(ADMIN, hidden.info.id, KeySpec())):
        with pytest.raises(NotFound):
            await change
    assert len(list(book.list_records("keys"))) == 1
    with pytest.raises(Forbidden, match=r"^workspace: "):
        await keys.create(ADMIN, KeySpec(), "other")


async def test_what_is_not_said_is_taken_from_a_restricted_caller(keys: Keys) -> None:
    limits = KeyLimits(10, None)
    caller = replace(ADMIN, agents=frozenset({"b", "a"}), agent="a", tier="pro", limits=limits, expires=1_800_000_000.0)
    data = (await keys.create(caller, KeySpec())).info.data
    assert (data["agents"], data["agent"], data["tier"]) == (["a", "b"], "a", "pro")
    assert data["limits"] == {"requests": 10, "tokens": None}
    assert data["expires_at"] == "2027-01-15T08:00:00Z"
    with pytest.raises(Forbidden, match=r"^tier: "):
        await keys.create(caller, KeySpec(tier=None))
    with pytest.raises(Forbidden, match=r"^limits\.requests: "):
        await keys.create(caller, KeySpec.model_validate({"limits": {"requests": None}}))


async def test_nobody_touches_a_key_that_has_more(keys: Keys, book: Book) -> None:
    strong = await keys.create(replace(ADMIN, rights=frozenset({"act_as_user"})), KeySpec(act_for_users=True))
    for change in (keys.revoke(ADMIN, strong.info.id), keys.update(ADMIN, strong.info.id, KeySpec())):
        with pytest.raises(Forbidden, match=r"^act_for_users: "):
            await change
    assert keys.get("default", strong.info.id).principal.rights == {"act_as_user"}


async def test_a_key_may_be_changed_up_to_what_its_changer_has(keys: Keys) -> None:
    made = await keys.create(ADMIN, KeySpec(name="shop"))
    changed = await keys.update(ADMIN, made.info.id, KeySpec(name="shop", role=Role.ADMIN))
    assert (changed.principal.role, changed.data["version"]) == (Role.ADMIN, 2)
    with pytest.raises(Forbidden, match=r"^groups: "):
        await keys.update(ADMIN, made.info.id, KeySpec(name="shop", groups=["staff"]))


async def test_a_change_keeps_the_secret(keys: Keys, book: Book) -> None:
    made = await keys.create(ADMIN, KeySpec())
    await keys.update(ADMIN, made.info.id, KeySpec(tier="pro"))
    assert parse_key_record(book.records[0]).sha256 == sha256(made.secret.encode()).hexdigest()


async def test_a_change_may_be_made_dependent_on_what_was_seen(keys: Keys) -> None:
    made = await keys.create(ADMIN, KeySpec())
    changed = await keys.update(ADMIN, made.info.id, KeySpec(tier="pro"), frozenset({made.info.tag}))
    assert changed.tag != made.info.tag
    for change in (
        keys.update(ADMIN, made.info.id, KeySpec(), frozenset({made.info.tag})),
        keys.revoke(ADMIN, made.info.id, frozenset({made.info.tag})),
    ):
        with pytest.raises(PreconditionFailed):
            await change
    await keys.revoke(ADMIN, made.info.id, frozenset({"*"}))


async def test_keys_of_the_configuration_can_only_be_read(keys: Keys) -> None:
    (held,) = keys.list_all("default")
    assert (held.data["source"], held.data["name"], held.data["groups"]) == ("config", "site", ["press"])
    assert CONFIGURED.sha256[:8] not in str(held.data)
    for change in (keys.revoke(ADMIN, held.id), keys.update(ADMIN, held.id, KeySpec())):
        with pytest.raises(Conflict, match=r"auth\.keys"):
            await change


@pytest.mark.parametrize("name", ["site", "shop", "anonymous"])
async def test_a_name_is_given_once(keys: Keys, name: str) -> None:
    made = await keys.create(ADMIN, KeySpec(name="shop"))
    with pytest.raises(Conflict, match=name):
        await keys.create(ADMIN, KeySpec(name=name))
    assert (await keys.update(ADMIN, made.info.id, KeySpec(name="shop"))).principal.name == "shop"


async def test_a_name_gives_nothing_to_read(keys: Keys) -> None:
    made = await keys.create(ADMIN, KeySpec(name="ann"))
    assert made.info.principal.readers() == {f"key:{made.info.id}"}


async def test_a_key_that_has_ended_cannot_be_made(keys: Keys) -> None:
    with pytest.raises(InvalidObject) as refused:
        await keys.create(ADMIN, KeySpec.model_validate({"expires_at": "2020-01-01"}))
    assert refused.value.faults[0].pointer == "/expires_at"


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59Z", "2100-01-01"])
async def test_a_key_may_last_as_long_as_there_are_dates(keys: Keys, end: str) -> None:
    made = await keys.create(ADMIN, KeySpec.model_validate({"expires_at": end}))
    assert made.info.data["expires_at"] <= "9999-12-31T00:00:00Z"


async def test_without_keys_anybody_on_this_machine_makes_the_first_one(keys: Keys) -> None:
    assert (await keys.create(ANONYMOUS, KeySpec(role=Role.ADMIN))).info.principal.role is Role.ADMIN
    with pytest.raises(Forbidden, match=r"^act_for_users: "):
        await keys.create(ANONYMOUS, KeySpec(act_for_users=True))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the keys that were parsed."""
    made: list[str] = []

    def parse(record: Record) -> KeyShape:
        made.append(record.key.alias)
        return parse_key_record(record)

    monkeypatch.setattr(keys_module, "parse_key_record", parse)
    return made


async def test_a_page_parses_the_keys_that_it_shows(keys: Keys, book: Book, parsed: list[str]) -> None:
    body = orjson.dumps({"sha256": "cd" * 32})
    ids = [f"key-{number:04}" for number in range(300)]
    await book.commit([RecordWrite(RecordKey("default", "keys", id), body) for id in ids], Author("x", "create"))
    found = keys.list_page("default", lambda id, name: True, 200, 10)
    assert ([key.id for key in found.keys], found.total) == (ids[199:209], 301)  # one is configured
    assert parsed == ids[199:209]
    parsed.clear()
    filtered = keys.list_page("default", lambda id, name: name.endswith("7"), 0, 5)
    assert (len(parsed), len(filtered.keys), filtered.total) == (5, 5, 30)
    parsed.clear()
    keys.get("default", "key-0042")
    assert parsed == ["key-0042"]


async def test_pages_join_configured_and_stored_keys_seamlessly(keys: Keys) -> None:
    for name in ("b", "a", "c"):
        await keys.create(ADMIN, KeySpec(name=name))
    pages = [keys.list_page("default", lambda id, name: True, skip, 2) for skip in (0, 1, 2, 3, 4)]
    assert [[key.principal.name for key in page.keys] for page in pages] == [
        ["site", "a"],
        ["a", "b"],
        ["b", "c"],
        ["c"],
        [],
    ]
    assert {page.total for page in pages} == {4}


async def test_names_are_read_again_only_for_keys_that_changed(
    keys: Keys, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await keys.create(ADMIN, KeySpec(name="b")), await keys.create(ADMIN, KeySpec(name="c"))
    keys.list_all("default")
    read: list[str] = []

    def name(record: Record) -> NamedKey:
        read.append(record.key.alias)
        return name_key(record)

    monkeypatch.setattr(key_names, "name_key", name)
    keys.list_all("default")
    assert read == []
    await keys.update(ADMIN, other.info.id, KeySpec(name="a"))
    assert [key.principal.name for key in keys.list_all("default")] == ["site", "a", "b"]
    assert read == [other.info.id]
    await keys.revoke(ADMIN, one.info.id)
    assert [key.principal.name for key in keys.list_all("default")] == ["site", "a"]
