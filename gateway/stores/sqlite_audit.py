"""Pages of the audit in a SQLite file: an index counts and skips, and only the rows of the page are read."""

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from gateway.domain.record import AuditEntry, RecordKey
from gateway.stores.codec import decode_text, encode_text
from gateway.stores.protocols import AuditEntryPage, AuditFilter

MAX_INTEGER = 2**63 - 1  # the largest integer that SQLite can bind

COLUMNS = "number, workspace, kind, alias, version, at, author, action, changes, author_key"
SELECT_NUMBERS = "SELECT number FROM audit WHERE workspace = ?"
SELECT_COUNT = "SELECT count(*) FROM ({numbers})"
SELECT_PAGE = f"""SELECT {COLUMNS} FROM audit
    WHERE number IN ({{numbers}} ORDER BY number DESC LIMIT ? OFFSET ?) ORDER BY number DESC"""


class AuditStatement(NamedTuple):
    """What selects the numbers of matching entries, and the values that it binds."""

    numbers: str
    values: tuple[bytes, ...]


def build_audit_statement(workspace: str, criteria: AuditFilter) -> AuditStatement:
    """The entries of a workspace that a filter matches, found in indexes alone unless it has an author and more."""
    columns = {"kind": criteria.kind, "alias": criteria.alias}
    wanted = {f" AND {column} = ?": encode_text(value) for column, value in columns.items() if value is not None}
    numbers, values = SELECT_NUMBERS + "".join(wanted), (encode_text(workspace), *wanted.values())
    if criteria.by is None:
        return AuditStatement(numbers, values)
    # Two sorted halves that SQLite merges; an OR would make it read every row of the workspace.
    halves = [f"{numbers} AND {column} = ?" for column in ("author", "author_key")]
    return AuditStatement(" UNION ".join(halves), (*values, encode_text(criteria.by)) * 2)


def read_audit_page(connection: sqlite3.Connection, found: AuditStatement, skip: int, take: int) -> AuditEntryPage:
    """The page and the total."""
    (total,) = connection.execute(SELECT_COUNT.format(numbers=found.numbers), found.values).fetchone()
    bounds = (min(take, MAX_INTEGER), min(skip, MAX_INTEGER))
    rows = connection.execute(SELECT_PAGE.format(numbers=found.numbers), (*found.values, *bounds))
    return AuditEntryPage([decode_audit_row(row) for row in rows], total)


def decode_audit_row(row: Sequence[Any]) -> AuditEntry:
    number, workspace, kind, alias, version, at, author, action, changes, author_key = row
    key = RecordKey(decode_text(workspace), decode_text(kind), decode_text(alias))
    by = None if author_key is None else decode_text(author_key)
    return AuditEntry(number, key, version, at, decode_text(author), decode_text(action), changes, by)
