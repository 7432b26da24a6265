"""Where endpoints find the policies in use."""

from typing import Protocol

from gateway.domain.snapshot import ServedSnapshots, Snapshot


class SnapshotSource(Protocol):
    """Provides the snapshots for new requests."""

    store_error: str | None  # why changes cannot be read from the store

    @property
    def loaded(self) -> bool:
        """Whether requests can be answered at all."""
        ...

    @property
    def generation(self) -> int:
        """Counts the snapshots that were put into use."""
        ...

    @property
    def error(self) -> str | None:
        """Why the latest change is not in use."""
        ...

    def get_snapshot(self, workspace: str) -> Snapshot:
        """The snapshot of a workspace; raises ServiceUnavailable."""
        ...

    def snapshots(self) -> ServedSnapshots:
        """The snapshot of the policy files, and that of each workspace with stored objects."""
        ...
