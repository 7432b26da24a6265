"""`/v1/models`: what the upstreams list, and the agents as virtual models."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson
from starlette.types import Send

from gateway.domain.principal import Principal
from gateway.domain.upstream import Upstream
from gateway.edge.health import SnapshotSource
from gateway.edge.respond import send_json
from gateway.errors import UnknownAlias, UpstreamError

DEADLINE_SECONDS = 2.0  # for all upstreams together, since they are asked at the same time
FRESH_SECONDS = 30.0
RETRY_SECONDS = 3.0  # how long a list with a gap is used
AGENT = "agent:"

Card = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CachedModels:
    """What the upstreams said, and until when to believe it."""

    cards: tuple[Card, ...] = ()
    gap: bool = False  # an upstream did not answer
    until: float = float("-inf")


class ModelList:
    """The models that a caller may name."""

    def __init__(
        self, upstreams: Mapping[str, Upstream], policies: SnapshotSource, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._upstreams = upstreams
        self._policies = policies
        self._clock = clock
        self._listing = CachedModels()
        self._asking = asyncio.Lock()

    async def serve_list(self, send: Send, principal: Principal) -> None:
        """`GET /v1/models`."""
        listing = await self._current()
        cards = [*listing.cards, *self._agents(principal)]
        await send_json(send, 200, orjson.dumps({"object": "list", "data": cards}), _degraded(listing))

    async def serve_one(self, send: Send, principal: Principal, escaped_id: str) -> None:
        """`GET /v1/models/{id}`, the id as it stood in the path."""
        wanted = unquote(escaped_id)
        listing = await self._current()
        cards = {card["id"]: card for card in (*listing.cards, *self._agents(principal))}
        if wanted not in cards:
            unknown = UnknownAlias("model", wanted, cards, param="model")
            unknown.status = 404
            raise unknown
        await send_json(send, 200, orjson.dumps(cards[wanted]), _degraded(listing))

    def _agents(self, principal: Principal) -> list[Card]:
        aliases = self._policies.of(principal.workspace).agents
        return [_card(AGENT + alias, "context-gateway") for alias in aliases if principal.may_use(alias)]

    async def _current(self) -> CachedModels:
        async with self._asking:
            if self._clock() >= self._listing.until:
                self._listing = await self._ask()
            return self._listing

    async def _ask(self) -> CachedModels:
        answers = await asyncio.gather(*(_cards_of(upstream) for upstream in self._upstreams.values()))
        cards: dict[str, Card] = {}
        for card in (card for answer in answers for card in answer or ()):
            cards.setdefault(card["id"], card)
        gap = None in answers
        return CachedModels(tuple(cards.values()), gap, self._clock() + (RETRY_SECONDS if gap else FRESH_SECONDS))


async def _cards_of(upstream: Upstream) -> list[Card] | None:
    """An upstream's cards in OpenAI's form; None if it does not say."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            given = await upstream.models()
    except (UpstreamError, TimeoutError):
        return None
    # An upstream cannot take the name of an agent.
    return [card | _card(card["id"], upstream.name, card) for card in given if not card["id"].startswith(AGENT)]


def _card(id: str, owner: str, given: Mapping[str, Any] = {}) -> Card:
    created = given.get("created")
    return {
        "id": id,
        "object": "model",
        "created": created if isinstance(created, int) else 0,
        "owned_by": str(given.get("owned_by") or owner),
    }


def _degraded(listing: CachedModels) -> list[tuple[bytes, bytes]]:
    return [(b"x-context-degraded", b"models")] if listing.gap else []
