"""Liveness and readiness, for supervisors and load balancers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from gateway.edge.snapshot_source import SnapshotSource


class HealthEndpoint:
    """`/livez` and `/readyz`; neither waits for anything but a browser's sign-in."""

    def __init__(
        self,
        policies: SnapshotSource,
        store_ok: Callable[[], bool],
        draining: Callable[[], bool],
        describe_jobs: Callable[[], Mapping[str, Any]],
        may_see_details: Callable[[Request], Awaitable[bool]],
    ) -> None:
        self._policies = policies
        self._may_see_details = may_see_details
        self._store_ok = store_ok
        self._draining = draining
        self._describe_jobs = describe_jobs

    async def livez(self, request: Request) -> JSONResponse:
        """Alive as long as the loop runs."""
        return JSONResponse({"status": "alive"})

    async def readyz(self, request: Request) -> JSONResponse:
        """503 only while requests would be refused; a failed reload or a broken store does not prevent serving them.

        Everybody learns which part is not as it should be, and only an admin why.
        """
        ready = self._policies.loaded and not self._draining()
        answer: dict[str, Any] = {"status": "ready" if ready else "not ready", "not_ready": self._list_faulty_parts()}
        if await self._may_see_details(request):
            answer["draining"] = self._draining()
            answer |= describe_parts(self._policies, self._describe_jobs(), store_ok=self._store_ok())
        return JSONResponse(answer, 200 if ready else 503)

    def _list_faulty_parts(self) -> list[str]:
        policies = self._policies
        parts = {
            "draining": self._draining(),
            "jobs": not all(state["running"] for state in self._describe_jobs().values()),
            "policies": not policies.loaded or policies.error is not None,
            "store": not self._store_ok(),
        }
        return [name for name, faulty in parts.items() if faulty]


def describe_parts(policies: SnapshotSource, jobs: Mapping[str, Any], *, store_ok: bool) -> dict[str, Any]:
    """Every part in detail, for admins."""
    served = policies.snapshots()
    return {
        "policies": {
            "loaded": policies.loaded,
            "generation": policies.generation,
            "snapshot": served.workspaces.get("default", served.base).hash[:12],
            "error": policies.error,
        },
        "store": {"ok": store_ok},
        "jobs": jobs,
    }
