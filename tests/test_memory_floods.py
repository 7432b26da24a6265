"""Floods that are meant to fill the memory leave nothing behind; a run that cannot miss its limit is worth nothing."""

import subprocess
import sys
from pathlib import Path

import orjson

from scripts.memory_floods.__main__ import MOST_LEFT_MB, FloodFigures
from scripts.memory_floods.floods import FLOODS

ROOT = Path(__file__).resolve().parent.parent
MOST_PEAK_MB = 150.0  # above what was there before, while a flood is on


def test_every_flood_leaves_the_memory_as_it_was(tmp_path: Path) -> None:
    report = tmp_path / "floods.json"
    command = [sys.executable, "-m", "scripts.memory_floods", "--quick", "--json", str(report)]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environ, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = [FloodFigures(**one) for one in orjson.loads(report.read_bytes())]
    assert [one.name for one in figures] == list(FLOODS)
    assert all(one.sent > 0.1 for one in figures)
    assert {one.name: one.peak - one.before for one in figures if one.peak - one.before > MOST_PEAK_MB} == {}
    assert figures[-1].after - figures[0].before < 1.5 * MOST_LEFT_MB


def test_what_is_left_is_noticed() -> None:
    assert "MISSED" in FloodFigures("leak", 1.0, 100.0, 200.0, 100.0 + MOST_LEFT_MB + 1).to_text()
    assert "ok" in FloodFigures("none", 1.0, 100.0, 200.0, 101.0).to_text()
