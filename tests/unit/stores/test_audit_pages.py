"""A page of the audit costs what the page costs, however long the audit is."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.domain.record import AuditEntry, Author, RecordKey, RecordWrite
from gateway.stores import redis_record_codec, sqlite_audit
from gateway.stores.open import Stores, open_stores
from gateway.stores.protocols import AuditFilter
from gateway.stores.sqlite_audit import SELECT_COUNT, SELECT_PAGE, build_audit_statement
from gateway.stores.sqlite_migrations import MIGRATIONS, migrate
from tests.support.redis_server import RedisServer, running_redis

ENTRIES = 600
ADA = Author("ada", "import", "key-ada")
FILTERS = {
    "everything": AuditFilter(),
    "kind": AuditFilter(kind="contexts"),
    "alias": AuditFilter(alias="c0003"),
    "object": AuditFilter(kind="contexts", alias="c0003"),
    "author": AuditFilter(by="ada"),
    "key": AuditFilter(by="key-ada"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis() as running:
        yield running


@pytest.fixture(params=["sqlite", "redis"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    is_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/data.db" if is_file else request.getfixturevalue("server").url
    opened = await open_stores(url)
    yield opened
    await opened.close()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The entries that were decoded, whatever the engine."""
    made: list[object] = []

    def decode(*fields: Any) -> AuditEntry:
        made.append(fields)
        return AuditEntry(*fields)

    for module in (sqlite_audit, redis_record_codec):
        monkeypatch.setattr(module, "AuditEntry", decode)
    return made


async def test_a_page_decodes_its_own_entries_only(stores: Stores, decoded: list[object]) -> None:
    keys = [RecordKey("default", "contexts", f"c{number:04}") for number in range(ENTRIES)]
    await stores.records.commit([RecordWrite(key, b"{}") for key in keys], ADA)
    for criteria in FILTERS.values():
        for skip in (0, ENTRIES // 2):
            decoded.clear()
            page = await stores.records.list_audit("default", criteria, skip, 10)
            assert page.total == (1 if criteria.alias else ENTRIES)
            assert len(decoded) == len(page.entries) <= 10


def explain(connection: sqlite3.Connection, criteria: AuditFilter) -> str:
    """How SQLite finds the numbers of a page and counts them."""
    found = build_audit_statement("default", criteria)
    count, page = SELECT_COUNT.format(numbers=found.numbers), SELECT_PAGE.format(numbers=found.numbers)
    plans = (
        connection.execute(f"EXPLAIN QUERY PLAN {count}", found.values).fetchall(),
        connection.execute(f"EXPLAIN QUERY PLAN {page}", (*found.values, 10, 0)).fetchall(),
    )
    return "\n".join(row[3] for plan in plans for row in plan)


def is_cheap(plan: str) -> bool:
    """Whether it reads no row beyond those of the page, and sorts none."""
    return not any(part in plan for part in ("USING INDEX", "SCAN audit", "ORDER BY"))


@pytest.mark.parametrize("name", FILTERS)
def test_an_index_finds_a_page_without_reading_or_sorting_rows(name: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection)
        assert is_cheap(explain(connection, FILTERS[name]))


def test_it_is_the_indexes_that_make_pages_cheap() -> None:
    without = [step for step in MIGRATIONS if not any("INDEX audit_workspace" in part for part in step)]
    assert len(without) == len(MIGRATIONS) - 1
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, without)
        cheap = {name for name, criteria in FILTERS.items() if is_cheap(explain(connection, criteria))}
    assert cheap == {"object"}  # which always had one
