"""Policies written as YAML, as a snapshot."""

from pathlib import Path

from gateway.domain.snapshot import Snapshot
from gateway.policies.file_policies import load_policies
from gateway.resources.registry import load_registry


class UnfetchedLinks:
    """Documents are read as they are; no link was ever fetched."""

    def file(self, path: Path) -> str:
        return path.read_text()

    def link(self, url: str) -> str | None:
        return None


def load_text(directory: Path, text: str) -> Snapshot:
    """The snapshot of one file, which is written into the directory."""
    (directory / "policies.yaml").write_text(text)
    return load_policies(directory, load_registry(), UnfetchedLinks(), 1)
