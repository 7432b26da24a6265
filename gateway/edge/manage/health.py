"""`/health`: the state of what the gateway depends on, for people who look after it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, Field

from gateway.circuit_breaker import BreakerState, CircuitBreaker
from gateway.domain.principal import Role
from gateway.edge.manage.calls import ApiCall, ApiReply
from gateway.edge.manage.routes import ApiRoute
from gateway.settings import Settings

STATES: Mapping[BreakerState, Literal["up", "down", "recovering"]] = {
    BreakerState.CLOSED: "up",
    BreakerState.HALF_OPEN: "recovering",
    BreakerState.OPEN: "down",
}


class PolicyHealth(BaseModel):
    """The policies that are served."""

    loaded: bool
    generation: int
    snapshot: str
    error: str | None = Field(description="Why the latest change is not in use; only admins see it.")


class StoreHealth(BaseModel):
    """The store."""

    ok: bool


class JobHealth(BaseModel):
    """A background job."""

    running: bool
    restarts: int = 0
    error: str | None = Field(None, description="Why it ended last; only admins see it.")


class UpstreamHealth(BaseModel):
    """An upstream, as this process has found it."""

    name: str
    kind: str
    state: Literal["up", "down", "recovering", "disabled"] = Field(
        description="`down`: it failed several times in a row; `disabled`: it has no API key."
    )


class HealthView(BaseModel):
    """The state of every part; external links and tool servers have lists of their own."""

    policies: PolicyHealth
    store: StoreHealth
    jobs: dict[str, JobHealth]
    upstreams: list[UpstreamHealth]


class HealthRoutes(msgspec.Struct, frozen=True):
    """The same as `/readyz` shows to admins, and the upstreams."""

    describe: Callable[[], Mapping[str, Any]]
    settings: Settings
    get_breakers: Callable[[], Mapping[str, CircuitBreaker]]  # of upstreams, by name

    def list_routes(self) -> Iterator[ApiRoute]:
        yield ApiRoute(
            method="GET",
            path="/health",
            handler=self.show,
            role=Role.EDITOR,
            tag="health",
            summary="Show the state of policies, store, jobs and upstreams",
            responses={200: HealthView},
        )

    async def show(self, call: ApiCall[None, None]) -> ApiReply:
        view = HealthView.model_validate({**self.describe(), "upstreams": list(self._list_upstreams())})
        if not call.principal.role.covers(Role.ADMIN):
            hide_reasons(view)
        return ApiReply(view)

    def _list_upstreams(self) -> Iterator[UpstreamHealth]:
        breakers = self.get_breakers()
        for name, upstream in self.settings.upstreams.items():
            state: Any = STATES[breakers[name].state] if upstream.enabled else "disabled"
            yield UpstreamHealth(name=name, kind=upstream.kind, state=state)


def hide_reasons(view: HealthView) -> None:
    """Faults may name objects of other workspaces and addresses of the operator's machines."""
    view.policies.error = None
    for job in view.jobs.values():
        job.error = None
