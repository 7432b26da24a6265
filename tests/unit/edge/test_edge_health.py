"""What supervisors are told."""

from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from msgspec.structs import replace
from starlette.requests import Request

from gateway.domain.snapshot import EMPTY_SNAPSHOT, Snapshot
from gateway.edge.health import HealthEndpoint
from tests.support.fixed_policies import FixedPolicies

LOADED = replace(EMPTY_SNAPSHOT, hash="abcdef0123456789" * 4, generation=3)


@dataclass
class FakePolicies(FixedPolicies):
    current: Snapshot = LOADED


async def ask(endpoint: Any) -> tuple[int, dict[str, Any]]:
    response = await endpoint(Request({"type": "http"}))
    return response.status_code, orjson.loads(response.body)


JOBS = {"links": {"running": True, "restarts": 0, "error": None}}


def health(
    policies: FakePolicies, *, store: bool = True, draining: bool = False, admin: bool = True, jobs: Any = JOBS
) -> HealthEndpoint:
    async def may_see_details(request: Request) -> bool:
        return admin

    return HealthEndpoint(policies, lambda: store, lambda: draining, lambda: jobs, may_see_details)


async def test_a_process_that_cannot_serve_is_still_alive():
    status, _ = await ask(health(FakePolicies(EMPTY_SNAPSHOT), store=False, draining=True).livez)
    assert status == 200


async def test_a_ready_process_says_what_it_serves():
    status, detail = await ask(health(FakePolicies()).readyz)
    assert status == 200
    assert detail == {
        "status": "ready",
        "not_ready": [],
        "draining": False,
        "policies": {"loaded": True, "generation": 3, "snapshot": "abcdef012345", "error": None},
        "store": {"ok": True},
        "jobs": JOBS,
    }


async def test_a_failed_reload_or_a_broken_store_is_shown_but_does_not_refuse_traffic():
    status, detail = await ask(health(FakePolicies(error="a.yaml:3: no"), store=False).readyz)
    assert status == 200
    assert (detail["policies"]["error"], detail["store"]["ok"]) == ("a.yaml:3: no", False)


@pytest.mark.parametrize(("policies", "draining"), [(FakePolicies(EMPTY_SNAPSHOT), False), (FakePolicies(), True)])
async def test_without_policies_or_while_draining_it_is_not_ready(policies, draining):
    status, detail = await ask(health(policies, draining=draining).readyz)
    assert (status, detail["status"], detail["draining"]) == (503, "not ready", draining)


ENDED = {"links": {"running": False, "restarts": 3, "error": "ValueError('inner detail')"}}


@pytest.mark.parametrize(
    ("endpoint", "status", "parts"),
    [
        (health(FakePolicies(), admin=False), 200, []),
        (health(FakePolicies(error="/etc/a.yaml:3: no"), admin=False), 200, ["policies"]),
        (health(FakePolicies(), store=False, jobs=ENDED, admin=False), 200, ["jobs", "store"]),
        (health(FakePolicies(EMPTY_SNAPSHOT), draining=True, admin=False), 503, ["draining", "policies"]),
    ],
)
async def test_who_is_no_admin_learns_which_part_is_not_ready_and_nothing_else(endpoint, status, parts):
    assert await ask(endpoint.readyz) == (
        status,
        {"status": "ready" if status == 200 else "not ready", "not_ready": parts},
    )
