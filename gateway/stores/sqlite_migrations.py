"""The numbered steps that bring a SQLite file to the current schema; a released step never changes."""

import sqlite3
from collections.abc import Sequence

from gateway.errors import CorruptStore

APPLICATION_ID = 0x43544757  # "CTGW" in the file's header, to tell our files from those of other programs

# Keys and names are bytes, because SQLite cannot bind the lone surrogates that a JSON string may contain.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id = {APPLICATION_ID}",
        "CREATE TABLE ephemeral (key BLOB PRIMARY KEY, value BLOB NOT NULL, expires REAL)",
        "CREATE INDEX ephemeral_expires ON ephemeral (expires) WHERE expires IS NOT NULL",
    ),
    (
        "CREATE TABLE history (epoch TEXT NOT NULL, number INTEGER NOT NULL)",
        "INSERT INTO history VALUES (lower(hex(randomblob(16))), 0)",
        # `number` is that of the last change: read in this order, the table is the change feed.
        """CREATE TABLE objects (
            object INTEGER PRIMARY KEY, workspace BLOB NOT NULL, kind BLOB NOT NULL, alias BLOB NOT NULL,
            id BLOB NOT NULL, live INTEGER NOT NULL, version INTEGER NOT NULL, oldest INTEGER NOT NULL,
            number INTEGER NOT NULL, UNIQUE (workspace, kind, alias))""",
        "CREATE INDEX objects_number ON objects (number)",
        "CREATE INDEX objects_kept ON objects (version - oldest)",
        """CREATE TABLE versions (
            object INTEGER NOT NULL, version INTEGER NOT NULL, id BLOB NOT NULL, body BLOB, at REAL NOT NULL,
            author BLOB NOT NULL, action BLOB NOT NULL, UNIQUE (object, version))""",
        """CREATE TABLE audit (
            number INTEGER PRIMARY KEY, workspace BLOB NOT NULL, kind BLOB NOT NULL, alias BLOB NOT NULL,
            version INTEGER NOT NULL, at REAL NOT NULL, author BLOB NOT NULL, action BLOB NOT NULL,
            changes BLOB NOT NULL)""",
        "CREATE INDEX audit_object ON audit (workspace, kind, alias)",
        "CREATE INDEX audit_at ON audit (at)",
    ),
    ("ALTER TABLE audit ADD COLUMN author_key BLOB",),
    (
        """CREATE TABLE sessions (
            workspace BLOB NOT NULL, principal BLOB NOT NULL, user BLOB NOT NULL, id BLOB NOT NULL,
            version INTEGER NOT NULL, body BLOB NOT NULL, updated REAL NOT NULL, expires REAL NOT NULL,
            UNIQUE (workspace, principal, user, id))""",
        "CREATE INDEX sessions_updated ON sessions (workspace, updated)",
        "CREATE INDEX sessions_expires ON sessions (expires)",
    ),
    (
        # A process of an earlier release changes the version and not the outline, which then counts no more.
        "ALTER TABLE objects ADD COLUMN outline BLOB",
        "ALTER TABLE objects ADD COLUMN outlined INTEGER",  # the version that the outline belongs to
        "ALTER TABLE objects ADD COLUMN creator BLOB",
        """CREATE TABLE links (
            workspace BLOB NOT NULL, target BLOB NOT NULL, source BLOB NOT NULL, type BLOB NOT NULL,
            object INTEGER NOT NULL, PRIMARY KEY (workspace, target, source, type)) WITHOUT ROWID""",
        "CREATE INDEX links_object ON links (object)",
        """CREATE TABLE activity (
            workspace BLOB NOT NULL, user BLOB NOT NULL, kind TEXT NOT NULL, node BLOB NOT NULL, at REAL NOT NULL,
            PRIMARY KEY (workspace, user, kind, node)) WITHOUT ROWID""",
        "CREATE INDEX activity_at ON activity (workspace, user, kind, at)",
    ),
    (
        # Each ends with the number of the entry: a page is found without reading or sorting rows.
        "CREATE INDEX audit_workspace ON audit (workspace)",
        "CREATE INDEX audit_kind ON audit (workspace, kind)",
        "CREATE INDEX audit_alias ON audit (workspace, alias)",
        "CREATE INDEX audit_author ON audit (workspace, author)",
        "CREATE INDEX audit_author_key ON audit (workspace, author_key)",
    ),
    (
        # Appended values: see sqlite_batches.py. `newest`: the last row that a segment leads to.
        "CREATE TABLE batch_rows (number INTEGER PRIMARY KEY, expires REAL NOT NULL, body BLOB NOT NULL)",
        "CREATE TABLE batch_hashes (position INTEGER PRIMARY KEY, hashes BLOB NOT NULL)",
        """CREATE TABLE batch_segments (
            segment INTEGER PRIMARY KEY, size INTEGER NOT NULL, newest INTEGER NOT NULL)""",
        """CREATE TABLE batch_index (
            segment INTEGER NOT NULL, hash INTEGER NOT NULL, number INTEGER NOT NULL,
            PRIMARY KEY (segment, hash, number)) WITHOUT ROWID""",
    ),
    # Hashes of a segment in few rows, which took one each in batch_index; `id` has the number of the segment in it.
    ("CREATE TABLE batch_buckets (id INTEGER PRIMARY KEY, hashes BLOB NOT NULL)",),
)

VECTOR_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id = {APPLICATION_ID}",
        "CREATE TABLE vectors (key BLOB PRIMARY KEY, value BLOB NOT NULL, used REAL NOT NULL)",
        "CREATE INDEX vectors_used ON vectors (used)",
    ),
)

# Ids are 13 bytes that sort by time. `boot` is null once the process that started a receipt has finished it. Each index
# costs every request: there is one for each filter, and none for anything else.
RECEIPT_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        f"PRAGMA application_id = {APPLICATION_ID}",
        """CREATE TABLE receipts (
            number INTEGER PRIMARY KEY, workspace BLOB NOT NULL, id BLOB NOT NULL, status TEXT NOT NULL,
            session BLOB, agent BLOB, content BLOB, resources BLOB NOT NULL, boot TEXT, summary BLOB NOT NULL,
            details BLOB NOT NULL)""",
        "CREATE UNIQUE INDEX receipts_workspace ON receipts (workspace, id)",
        "CREATE INDEX receipts_status ON receipts (workspace, status, id)",
        "CREATE INDEX receipts_session ON receipts (workspace, session, id) WHERE session IS NOT NULL",
        "CREATE INDEX receipts_agent ON receipts (workspace, agent, id) WHERE agent IS NOT NULL",
        "CREATE INDEX receipts_content ON receipts (workspace, content, id) WHERE content IS NOT NULL",
        "CREATE INDEX receipts_unfinished ON receipts (boot) WHERE boot IS NOT NULL AND status = 'started'",
        """CREATE TABLE receipt_resources (
            workspace BLOB NOT NULL, resource BLOB NOT NULL, id BLOB NOT NULL,
            PRIMARY KEY (workspace, resource, id)) WITHOUT ROWID""",
        "CREATE TABLE boots (boot TEXT PRIMARY KEY, expires REAL NOT NULL)",
    ),
    (
        "CREATE TABLE uncounted (receipt INTEGER PRIMARY KEY)",  # numbers of receipts
        """CREATE TABLE statistics (
            workspace BLOB NOT NULL, series TEXT NOT NULL, span INTEGER NOT NULL, start INTEGER NOT NULL,
            key BLOB NOT NULL, counters BLOB NOT NULL, touched REAL NOT NULL,
            PRIMARY KEY (workspace, series, span, start, key)) WITHOUT ROWID""",
        # Apart, because they are large and most questions need only counters.
        """CREATE TABLE statistic_sketches (
            workspace BLOB NOT NULL, series TEXT NOT NULL, key BLOB NOT NULL, start INTEGER NOT NULL,
            sketches BLOB NOT NULL, PRIMARY KEY (workspace, series, key, start)) WITHOUT ROWID""",
        """CREATE TABLE statistic_buckets (
            workspace BLOB NOT NULL, series TEXT NOT NULL, span INTEGER NOT NULL, start INTEGER NOT NULL,
            rows INTEGER NOT NULL, PRIMARY KEY (workspace, series, span, start)) WITHOUT ROWID""",
        "CREATE TABLE statistic_version (number INTEGER NOT NULL)",  # tells whether somebody else has added to rows
        "INSERT INTO statistic_version VALUES (0)",
    ),
    (
        # Details that many receipts have in common; `used`: the newest second of their ids.
        "ALTER TABLE receipts ADD COLUMN shared BLOB",
        "CREATE TABLE receipt_details (key BLOB PRIMARY KEY, used INTEGER NOT NULL, body BLOB NOT NULL)",
        "CREATE INDEX receipt_details_used ON receipt_details (used)",
        # Nearly all receipts are ok: an entry for each would help nobody to find them.
        "DROP INDEX receipts_status",
        "CREATE INDEX receipts_status ON receipts (workspace, status, id) WHERE status <> 'ok'",
    ),
    (
        # What batches of receipts add to the figures. AUTOINCREMENT: no number comes again when one was counted.
        "CREATE TABLE uncounted_sheets (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL)",
        "ALTER TABLE receipts ADD COLUMN counted INTEGER",  # 1: a sheet was stored with it
        "ALTER TABLE receipt_details ADD COLUMN summary BLOB",  # the rest of the summary; null: there is none
    ),
    (
        # Lists of noted receipts: see sqlite_receipt_notes.py. `first` and `last` are ids.
        """CREATE TABLE receipt_notes (
            number INTEGER PRIMARY KEY, workspace BLOB NOT NULL, first BLOB NOT NULL, last BLOB NOT NULL, agent BLOB,
            content BLOB, resources BLOB NOT NULL, shared BLOB NOT NULL, receipts INTEGER NOT NULL,
            body BLOB NOT NULL)""",
        "CREATE UNIQUE INDEX receipt_notes_workspace ON receipt_notes (workspace, last)",
        "CREATE INDEX receipt_notes_agent ON receipt_notes (workspace, agent, last) WHERE agent IS NOT NULL",
        "CREATE INDEX receipt_notes_content ON receipt_notes (workspace, content, last) WHERE content IS NOT NULL",
        """CREATE TABLE receipt_note_resources (
            workspace BLOB NOT NULL, resource BLOB NOT NULL, last BLOB NOT NULL,
            PRIMARY KEY (workspace, resource, last)) WITHOUT ROWID""",
        # Lists of exchanges that go on: see sqlite_receipt_starts.py. AUTOINCREMENT: a number never means another list.
        """CREATE TABLE receipt_starts (
            number INTEGER PRIMARY KEY AUTOINCREMENT, workspace BLOB NOT NULL, first BLOB NOT NULL, last BLOB NOT NULL,
            boot TEXT NOT NULL, agent BLOB, content BLOB, resources BLOB NOT NULL, shared BLOB NOT NULL,
            body BLOB NOT NULL)""",
        "CREATE INDEX receipt_starts_workspace ON receipt_starts (workspace, last)",
    ),
)


def migrate(connection: sqlite3.Connection, steps: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Run the steps that are new to the file, all or none; raises CorruptStore for a file that is not ours."""
    if _read_version(connection, len(steps)) == len(steps):
        return  # A normal start needs no write lock.
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again under the lock: another worker may have migrated meanwhile.
        for number in range(_read_version(connection, len(steps)), len(steps)):
            for statement in steps[number]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute("COMMIT")
    except BaseException:
        connection.rollback()
        raise


def _read_version(connection: sqlite3.Connection, known: int) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner != APPLICATION_ID and (version or objects):
        raise CorruptStore("it is the SQLite database of another program; set another file as `store`")
    if version > known:
        raise CorruptStore(
            f"it has schema version {version} and this gateway supports versions up to {known}; run a newer gateway"
        )
    return int(version)
