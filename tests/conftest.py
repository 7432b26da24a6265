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
