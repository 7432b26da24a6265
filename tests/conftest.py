"""How many examples property tests try (`--hypothesis-profile=long` for a long run), and policies for unit tests."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gateway.domain.snapshot import Snapshot
from gateway.policies.file_policies import load_policies
from gateway.resources.registry import load_registry

settings.register_profile("quick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("quick"), max_examples=5000)
settings.load_profile("quick")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tell apart the tests that schemathesis makes of one function: with pytest 9.2 all of them have the same id.

    Workers that are given tests by their ids would run one of them and leave out the rest.
    """
    for item in items:
        if item.name not in item.nodeid and item.parent is not None:
            item._id = item.parent.id.child(item.name)
    assert len({item.nodeid for item in items}) == len(items), "two tests have the same id"


class UnfetchedLinks:
    """Documents are read as they are; no link was ever fetched."""

    def file(self, path: Path) -> str:
        return path.read_text()

    def link(self, url: str) -> str | None:
        return None


@pytest.fixture
def policies(tmp_path: Path) -> Callable[[str], Snapshot]:
    """Policies as YAML become a snapshot."""

    def load(text: str) -> Snapshot:
        (tmp_path / "policies.yaml").write_text(text)
        return load_policies(tmp_path, load_registry(), UnfetchedLinks(), 1)

    return load
