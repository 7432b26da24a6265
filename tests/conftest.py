"""What holds for all tests: how many examples are tried (`--hypothesis-profile=long`), and what is looked up once."""

import faulthandler
import gc
from collections.abc import Callable, Generator, Iterator
from functools import cache, partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gateway.domain.snapshot import Snapshot
from gateway.tokens import load_core, make_table
from tests.support.loaded_policies import load_text

settings.register_profile("quick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("quick"), max_examples=5000)
settings.load_profile("quick")

# Modules with tests of many seconds. They begin first: as the last ones they would leave other workers without work.
LONG = {
    *("test_bench.py", "test_chaos.py", "test_deploy.py", "test_disconnects.py", "test_docs_commands.py"),
    *("test_eval_banking.py", "test_memory_floods.py", "test_receipts_processes.py", "test_stats_processes.py"),
    *("test_two_nodes.py", "test_workers.py"),
}

EXIT_SECONDS = 60.0  # after the last test


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and found stays: to look through it for garbage takes a quarter of the time, and more later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_unconfigure() -> None:
    """A thread that never ends would keep the process alive after the last test: it ends anyway, and shows where."""
    faulthandler.dump_traceback_later(EXIT_SECONDS, exit=True, file=2)


@pytest.fixture(scope="session", autouse=True)
def known_tokens() -> Iterator[None]:
    """An encoding is read once: that takes up to half a second, and most gateways and commands need one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.tokens.make_table", cache(make_table))
        patch.setattr("gateway.tokens.load_core", cache(load_core))
        yield


@pytest.fixture
def policies(tmp_path: Path) -> Callable[[str], Snapshot]:
    """Policies as YAML become a snapshot."""
    return partial(load_text, tmp_path)
