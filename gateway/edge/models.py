"""`/v1/models`: what the upstreams list, and the agents as virtual models."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse

from gateway.conversation.dialects.registry import DIALECTS
from gateway.domain.principal import Principal
from gateway.domain.snapshot import Snapshot
from gateway.domain.upstream import Upstream
from gateway.edge.access import Caller, get_caller
from gateway.edge.limits import RateLimiter
from gateway.edge.snapshot_source import SnapshotSource
from gateway.errors import ModelNotFound, UpstreamError
from gateway.scopes.scope import find_own_model

DEADLINE_SECONDS = 2.0  # for all upstreams together, since they are called concurrently
FRESH_SECONDS = 30.0
RETRY_SECONDS = 3.0  # how long an incomplete list is cached
AGENT = "agent:"

Card = dict[str, Any]


class CachedModels(msgspec.Struct, frozen=True):
    """The models of the upstreams, and until when they are cached."""

    cards: tuple[Card, ...] = ()
    gap: bool = False  # an upstream did not answer
    until: float = float("-inf")


class ModelsEndpoint:
    """The models that a caller may name."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        policies: SnapshotSource,
        clock: Callable[[], float] = time.monotonic,
        *,
        deadline: float = DEADLINE_SECONDS,
        default: str | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        self._limiter = limiter
        self._default = default  # the model of agents that name none
        self._shared = [upstream for upstream in upstreams.values() if not upstream.passes_bearer]
        self._personal = [upstream for upstream in upstreams.values() if upstream.passes_bearer]
        self._policies = policies
        self._clock = clock
        self._deadline = deadline
        self._models = CachedModels()
        self._asking = asyncio.Lock()

    async def list(self, request: Request) -> JSONResponse:
        """`GET /v1/models`."""
        caller = await self._admit(request)
        models = await self._list_models(caller.bearer)
        cards = self._list_usable(models, caller.principal)
        return JSONResponse({"object": "list", "data": cards}, headers=build_degraded_headers(models))

    async def get(self, request: Request) -> JSONResponse:
        """`GET /v1/models/{id}`, the id escaped as in the path."""
        wanted = unquote(request.path_params["model"])
        caller = await self._admit(request)
        models = await self._list_models(caller.bearer)
        cards = {card["id"]: card for card in self._list_usable(models, caller.principal)}
        if wanted not in cards:
            raise ModelNotFound(wanted, cards)
        return JSONResponse(cards[wanted], headers=build_degraded_headers(models))

    async def _admit(self, request: Request) -> Caller:
        """Who is asking; raises RateLimited: an upstream may be asked for each request."""
        caller = get_caller(request)
        if self._limiter is not None:
            await self._limiter.admit_call(caller.principal)
        return caller

    def _list_usable(self, models: CachedModels, principal: Principal) -> tuple[Card, ...]:
        """The models that a key may use, then its agents; of a bound key, only that one has an effect."""
        snapshot = self._policies.get_snapshot(principal.workspace)
        aliases = snapshot.agents if principal.agent is None else {principal.agent} & snapshot.agents.keys()
        agents = (
            _make_card(AGENT + alias, "context-gateway")
            for alias in aliases
            if principal.may_use(alias) and principal.may_call(self._find_model(alias, snapshot))
        )
        return (*(card for card in models.cards if principal.may_call(card["id"])), *agents)

    def _find_model(self, alias: str, snapshot: Snapshot) -> str:
        agent = snapshot.agents[alias]
        profile = snapshot.profiles.get(agent.profile) if agent.profile else None
        return find_own_model(agent, profile) or self._default or ""

    async def _list_models(self, bearer: str | None) -> CachedModels:
        """What upstreams list to everybody, then what they list to this caller alone, which is not cached."""
        if not self._personal:
            return await self._refresh()
        shared, own = await asyncio.gather(self._refresh(), self._fetch(self._personal, bearer))
        known = {card["id"] for card in shared.cards}
        cards = (*shared.cards, *(card for card in own.cards if card["id"] not in known))
        return CachedModels(cards, shared.gap or own.gap)

    async def _refresh(self) -> CachedModels:
        async with self._asking:
            if self._clock() >= self._models.until:
                self._models = await self._fetch(self._shared)
            return self._models

    async def _fetch(self, upstreams: Iterable[Upstream], bearer: str | None = None) -> CachedModels:
        answers = await asyncio.gather(*(_fetch_cards(upstream, self._deadline, bearer) for upstream in upstreams))
        cards: dict[str, Card] = {}
        for card in (card for answer in answers for card in answer or ()):
            cards.setdefault(card["id"], card)
        gap = None in answers
        return CachedModels(tuple(cards.values()), gap, self._clock() + (RETRY_SECONDS if gap else FRESH_SECONDS))


async def _fetch_cards(upstream: Upstream, deadline: float, bearer: str | None) -> list[Card] | None:
    """An upstream's models in OpenAI's format; None if it does not answer."""
    try:
        async with asyncio.timeout(deadline):
            given = await upstream.list_models(bearer)
    except (UpstreamError, TimeoutError):
        return None
    native = {"native_dialects": [name for name in DIALECTS if name in upstream.capabilities.dialects]}
    # An upstream's model must not pose as an agent.
    own = (card for card in given if not card["id"].startswith(AGENT))
    return [card | _make_card(card["id"], upstream.name, card) | native for card in own]


def _make_card(id: str, owner: str, given: Mapping[str, Any] = {}) -> Card:
    """A model with the dialects that clients may use for it: what its upstream does not speak is translated."""
    created = given.get("created")
    return {
        "id": id,
        "object": "model",
        "created": created if isinstance(created, int) else 0,
        "owned_by": str(given.get("owned_by") or owner),
        "dialects": list(DIALECTS),
    }


def build_degraded_headers(models: CachedModels) -> dict[str, str]:
    return {"x-context-degraded": "models"} if models.gap else {}
