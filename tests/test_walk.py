"""The path of a chat request through the source is measured and stays within its limits."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.request_walk.client import Reply
from scripts.request_walk.scenario import UnexpectedExchange, check_exchange
from scripts.request_walk.trace import CountedHeaders, Walk

ROOT = Path(__file__).resolve().parent.parent

Figures = dict[str, dict[str, int]]

RUNS = 3
# What a request may touch at most; lower these when the path gets shorter.
LIMITS: Figures = {
    "files": {"cold": 128, "warm": 80},
    "switches": {"cold": 1200, "warm": 705},
    "header_walks": {"cold": 1, "warm": 1},
}


def walk(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.request_walk", *arguments]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ, check=False)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """The smallest of some runs: a timer or a cut of the stream that falls into one adds steps to its path."""
    runs = [walk_once(tmp_path_factory.mktemp("walk") / "walk.json") for _ in range(RUNS)]
    return {name: {state: min(run[name][state] for run in runs) for state in ("cold", "warm")} for name in LIMITS}


def walk_once(file: Path) -> Figures:
    done = walk("--json", str(file))
    assert (done.returncode, done.stderr) == (0, "")
    found: Figures = json.loads(file.read_text())
    for name, row in found.items():
        assert [name.replace("_", " "), str(row["cold"]), str(row["warm"])] in [
            line.rsplit(maxsplit=2) for line in done.stdout.splitlines()
        ]
    return found


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("state", ["cold", "warm"])
def test_a_chat_request_stays_within_its_limits(figures: Figures, name: str, state: str) -> None:
    assert 1 <= figures[name][state] <= LIMITS[name][state]


def test_a_warm_request_touches_less_than_a_cold_one(figures: Figures) -> None:
    assert figures["files"]["warm"] < figures["files"]["cold"]
    assert figures["switches"]["warm"] < figures["switches"]["cold"]


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
