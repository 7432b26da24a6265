import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.stores.sqlite_migrations import MIGRATIONS, migrate


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)
    yield connection
    connection.close()


def test_migrations_run_once_in_order_and_keep_the_data(connection: sqlite3.Connection) -> None:
    migrate(connection)
    connection.execute("INSERT INTO ephemeral VALUES (x'61', x'62', NULL)")
    later = (*MIGRATIONS, ("ALTER TABLE ephemeral ADD COLUMN note TEXT DEFAULT 'new'",))
    migrate(connection, later)
    migrate(connection, later)
    assert connection.execute("SELECT * FROM ephemeral").fetchall() == [(b"a", b"b", None, "new")]
    assert connection.execute("PRAGMA user_version").fetchone() == (len(later),)


def test_a_failing_migration_leaves_the_file_as_it_was(connection: sqlite3.Connection) -> None:
    migrate(connection)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, (*MIGRATIONS, ("CREATE TABLE half (id)", "no such statement")))
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []
