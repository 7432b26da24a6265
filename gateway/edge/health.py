"""Is it alive, is it ready: answers for supervisors and load balancers."""

from collections.abc import Callable, Mapping
from typing import Protocol

import orjson
from starlette.types import Send

from gateway.domain.snapshot import Snapshot
from gateway.edge.respond import send_json


class SnapshotSource(Protocol):
    """Holds the snapshots that new requests work with."""

    @property
    def loaded(self) -> bool:
        """Whether requests can be answered at all."""
        ...

    @property
    def generation(self) -> int:
        """Counts what was swapped."""
        ...

    @property
    def error(self) -> str | None:
        """Why the latest change is not in use."""
        ...

    def of(self, workspace: str) -> Snapshot:
        """The snapshot of a workspace; raises Unavailable."""
        ...

    def snapshots(self) -> tuple[Snapshot, Mapping[str, Snapshot]]:
        """What the files give, and what each workspace that stores something has."""
        ...


class Health:
    """What the process knows about itself; neither answer waits for anything."""

    def __init__(self, policies: SnapshotSource, store_ok: Callable[[], bool], draining: Callable[[], bool]) -> None:
        self._policies = policies
        self._store_ok = store_ok
        self._draining = draining

    async def livez(self, send: Send) -> None:
        """Alive as long as the loop turns."""
        await send_json(send, 200, b'{"status":"alive"}')

    async def readyz(self, send: Send) -> None:
        """503 only while requests would be refused; a failed reload or a broken store degrade, they do not refuse."""
        draining = self._draining()
        loaded = self._policies.loaded
        ready = loaded and not draining
        detail = {
            "status": "ready" if ready else "not ready",
            "draining": draining,
            "policies": {
                "loaded": loaded,
                "generation": self._policies.generation,
                "snapshot": self._snapshot().hash[:12],
                "error": self._policies.error,
            },
            "store": {"ok": self._store_ok()},
        }
        await send_json(send, 200 if ready else 503, orjson.dumps(detail))

    def _snapshot(self) -> Snapshot:
        base, workspaces = self._policies.snapshots()
        return workspaces.get("default", base)
