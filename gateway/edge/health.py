"""Is it alive, is it ready: answers for supervisors and load balancers."""

from collections.abc import Callable
from typing import Protocol

import orjson
from starlette.types import Send

from gateway.domain.snapshot import Snapshot
from gateway.edge.respond import send_json


class Policies(Protocol):
    """Holds the snapshot that new requests work with."""

    current: Snapshot
    error: str | None  # why the last reload kept the old snapshot


class Health:
    """What the process knows about itself; neither answer waits for anything."""

    def __init__(self, policies: Policies, store_ok: Callable[[], bool], draining: Callable[[], bool]) -> None:
        self._policies = policies
        self._store_ok = store_ok
        self._draining = draining

    async def livez(self, send: Send) -> None:
        """Alive as long as the loop turns."""
        await send_json(send, 200, b'{"status":"alive"}')

    async def readyz(self, send: Send) -> None:
        """503 only while requests would be refused; a failed reload or a broken store degrade, they do not refuse."""
        draining = self._draining()
        snapshot = self._policies.current
        loaded = snapshot.generation > 0
        ready = loaded and not draining
        detail = {
            "status": "ready" if ready else "not ready",
            "draining": draining,
            "policies": {
                "loaded": loaded,
                "generation": snapshot.generation,
                "snapshot": snapshot.hash[:12],
                "error": self._policies.error,
            },
            "store": {"ok": self._store_ok()},
        }
        await send_json(send, 200 if ready else 503, orjson.dumps(detail))
