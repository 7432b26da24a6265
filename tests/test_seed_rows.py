"""What the requirements ask for is in the requests of a running gateway: every check of scripts/seed_rows passes."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.seed_rows.__main__ import CHECKS, choose_checks
from scripts.seed_rows.checks import RowMismatchError, expect, expect_in, expect_none_in, expect_order, find_one
from scripts.seed_rows.required_rows import REQUIRED_ROWS

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 540  # seconds: a loaded machine is slow, and nothing here is about time


def test_every_required_row_has_a_check() -> None:
    covered = {row for check in CHECKS for row in check.rows}
    assert len(REQUIRED_ROWS) == 94
    assert covered >= REQUIRED_ROWS


def test_no_row_fails_on_a_running_gateway() -> None:
    command = [sys.executable, "-m", "scripts.seed_rows"]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environ, check=False)
    lines = done.stdout.splitlines()
    assert [line for line in lines if "| FAIL |" in line] == []
    assert done.returncode == 0, done.stderr
    seen = {line.split(" | ")[0] for line in lines if " | ok | " in line}
    assert seen >= REQUIRED_ROWS


def test_rows_are_chosen_by_their_beginning() -> None:
    assert {check.name for check in choose_checks(["003.2.4"])} == {"see_a_description"}
    assert len(choose_checks(["003"])) > len(choose_checks(["003.2"])) > 1
    assert choose_checks(["9"]) == []


@pytest.mark.parametrize(
    "look",
    [
        lambda: expect(1, 2),
        lambda: expect_in("text", "other"),
        lambda: expect_none_in("text", "ex"),
        lambda: expect_order("b a", "a", "b"),
        lambda: find_one([{"id": "a"}, {"id": "a"}], id="a"),
    ],
)
def test_what_does_not_hold_is_a_mismatch(look: object) -> None:
    with pytest.raises(RowMismatchError):
        look()  # type: ignore[operator]
