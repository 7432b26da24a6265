"""Kills cost no acknowledged commit, and a writer that promises too much is found out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.durability_check.rounds import parse_acknowledged

ROOT = Path(__file__).resolve().parent.parent


def durability(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.durability_check", *arguments]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ, check=False)


def test_a_few_kills_lose_nothing() -> None:
    done = durability("--quick")
    assert (done.returncode, done.stderr) == (0, "")
    said = re.search(
        r"^8 kills during ([\d,]+) acknowledged commits .*: 0 lost, 0 wrong, integrity ok$", done.stdout, re.M
    )
    assert said is not None, done.stdout
    assert int(said[1].replace(",", "")) > 20


def test_a_writer_that_acknowledges_before_it_commits_is_caught() -> None:
    done = durability("--rounds", "20", "--acknowledge-early")
    assert (done.returncode, done.stderr) == (1, "")
    assert re.search(r"[1-9]\d* lost", done.stdout), done.stdout


@pytest.mark.parametrize(
    ("said", "last"),
    [("ready\n0 1\n1 1\n0 2\n", {0: 2, 1: 1}), ("ready\n0 1\n0 2", {0: 1}), ("ready\n", {}), ("", {}), ("rea", {})],
)
def test_only_whole_lines_acknowledge(said: str, last: dict[int, int]) -> None:
    assert parse_acknowledged(said.split("\n")) == last
