"""What a file holds after a kill, read without any code of the store."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from scripts.durability_check.objects import HALVES, WRITERS, make_body

VERSIONS = """SELECT v.version, v.body FROM versions AS v JOIN objects AS o ON o.object = v.object
    WHERE o.kind = ? AND o.alias = ? AND v.version > ? ORDER BY v.version"""


@dataclass
class Inspection:
    """Faults that were found, and how far the objects have come."""

    lost: int = 0  # versions that were acknowledged and are not there
    wrong: int = 0  # versions that are there and hold something else, or one half of a commit without the other
    integrity: str = "ok"
    reached: dict[int, int] | None = None  # the version of each pair that was looked at last

    @property
    def passed(self) -> bool:
        return not self.lost and not self.wrong and self.integrity == "ok"

    def compare(self, file: Path, acknowledged: Mapping[int, int]) -> None:
        """Compare what came since the last time with what was acknowledged."""
        self.reached = self.reached or dict.fromkeys(range(WRITERS), 0)
        with closing(sqlite3.connect(file)) as connection:
            for writer in range(WRITERS):
                halves = [self._read_versions(connection, kind, writer) for kind in HALVES]
                self.wrong += halves[0] != halves[1]
                begin = self.reached[writer]
                expected = [
                    (version, make_body(writer, version)) for version in range(begin + 1, begin + len(halves[0]) + 1)
                ]
                self.wrong += sum(one != other for one, other in zip(halves[0], expected, strict=True))
                self.reached[writer] += len(halves[0])
                self.lost += max(0, acknowledged.get(writer, 0) - self.reached[writer])

    def check_integrity(self, file: Path) -> None:
        with closing(sqlite3.connect(file)) as connection:
            self.integrity = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]

    def _read_versions(self, connection: sqlite3.Connection, kind: str, writer: int) -> list[tuple[int, bytes | None]]:
        assert self.reached is not None
        words = (kind.encode(), f"pair-{writer}".encode(), self.reached[writer])
        return connection.execute(VERSIONS, words).fetchall()
