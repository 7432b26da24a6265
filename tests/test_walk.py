"""The path of a chat request through the source is measured and stays within its limits."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.settings import Settings
from scripts.request_walk.client import Reply
from scripts.request_walk.scenario import UnexpectedExchange, check_exchange
from scripts.request_walk.trace import CountedHeaders, Walk

ROOT = Path(__file__).resolve().parent.parent

Figures = dict[str, dict[str, int]]

RUNS = 3  # at most
STATES = ("cold", "warm")
# What a request may touch at most; lower these when the path gets shorter.
LIMITS: Figures = {
    "files": {"cold": 132, "warm": 83},
    "switches": {"cold": 1200, "warm": 710},
    "header_walks": {"cold": 1, "warm": 1},
}


def walk(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.request_walk", *arguments]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ, check=False)


@dataclass(frozen=True)
class WalkRun:
    """What one run counted, and the files that it went through."""

    figures: Figures
    files: frozenset[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[WalkRun]:
    """As many as it takes to stay within the limits, up to some: a further one could only lower the figures."""
    done: list[WalkRun] = []
    while len(done) < RUNS and not (done and is_within_limits(find_smallest(done))):
        done.append(walk_once(tmp_path_factory.mktemp("walk") / "walk.json"))
    return done


@pytest.fixture(scope="module")
def figures(runs: list[WalkRun]) -> Figures:
    return find_smallest(runs)


def find_smallest(runs: list[WalkRun]) -> Figures:
    """The smallest of some runs: a timer or a cut of the stream that falls into one adds steps to its path."""
    return {name: {state: min(run.figures[name][state] for run in runs) for state in STATES} for name in LIMITS}


def is_within_limits(figures: Figures) -> bool:
    return all(figures[name][state] <= LIMITS[name][state] for name in LIMITS for state in STATES)


def walk_once(file: Path) -> WalkRun:
    done = walk("--files", "--json", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    found: Figures = json.loads(file.read_text())
    for name, row in found.items():
        assert [name.replace("_", " "), str(row["cold"]), str(row["warm"])] in [
            line.rsplit(maxsplit=2) for line in done.stdout.splitlines()
        ]
    lines = done.stdout.splitlines()
    return WalkRun(found, frozenset(line.split()[0] for line in lines if ".py " in line))


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("state", STATES)
def test_a_chat_request_stays_within_its_limits(figures: Figures, name: str, state: str) -> None:
    assert 1 <= figures[name][state] <= LIMITS[name][state]


def test_a_warm_request_touches_less_than_a_cold_one(figures: Figures) -> None:
    assert figures["files"]["warm"] < figures["files"]["cold"]
    assert figures["switches"]["warm"] < figures["switches"]["cold"]


def test_nothing_of_the_console_is_on_the_path_although_it_is_on(runs: list[WalkRun]) -> None:
    assert Settings.model_fields["console"].default is True
    files = frozenset.union(*(run.files for run in runs))
    assert {"edge/chat.py", "edge/access.py"} <= files
    assert [file for file in files if re.search(r"console|sign_in|plugin_files|manage/", file)] == []


def test_a_tree_without_a_gateway_is_refused(tmp_path: Path) -> None:
    done = walk("--tree", str(tmp_path))
    assert (done.returncode, done.stderr) == (1, f"There is no gateway in {tmp_path}.\n")


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def test_every_walk_over_the_headers_counts() -> None:
    headers = CountedHeaders([(b"host", b"localhost"), (b"accept", b"*/*")])
    assert dict(headers)[b"host"] == b"localhost"
    assert list(headers) == [*headers]
    assert any(name == b"host" for name, _ in headers)
    assert headers.walks == 4


def test_the_next_job_of_a_pool_thread_is_not_a_switch() -> None:
    walk = Walk()
    for file, continues in (("a.py", True), ("a.py", True), ("b.py", True), ("a.py", False), ("b.py", True)):
        walk.enter(file, continues=continues)
    assert (walk.switches, walk.calls) == (2, {"a.py": 3, "b.py": 2})


def test_an_incomplete_exchange_is_not_measured() -> None:
    with pytest.raises(UnexpectedExchange, match=r"semantic resource was picked.*client saw its own call"):
        check_exchange(Reply(200, {}, b"data: [DONE]\n\n"), {"messages": []})
