"""Policies that never change, for tests of what serves them."""

from dataclasses import dataclass

from gateway.domain.snapshot import EMPTY_SNAPSHOT, ServedSnapshots, Snapshot


@dataclass
class FixedPolicies:
    """One snapshot for every workspace."""

    current: Snapshot = EMPTY_SNAPSHOT
    error: str | None = None
    store_error: str | None = None

    @property
    def loaded(self) -> bool:
        return self.current.generation > 0

    @property
    def generation(self) -> int:
        return self.current.generation

    def get_snapshot(self, workspace: str) -> Snapshot:
        return self.current

    def snapshots(self) -> ServedSnapshots:
        return ServedSnapshots(self.current, {})
