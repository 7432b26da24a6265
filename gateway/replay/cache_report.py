"""How much of each prompt a provider's prompt cache can reuse, by placement, with and without sticky picks."""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from gateway.domain.agent import Placement, SelectionSettings
from gateway.domain.exchange import Exchange, HeaderBytes
from gateway.domain.principal import Principal
from gateway.domain.session import SessionSettings
from gateway.domain.snapshot import Snapshot
from gateway.pipeline import Pipeline, PreparedRequest
from gateway.preview import find_placement
from gateway.replay.conversations import ChatBody
from gateway.replay.prompt_prefix import PromptUse, measure_prompts
from gateway.scopes.context_request import read_context_request
from gateway.scopes.session_scope import make_session_key
from gateway.sessions.sessions import Sessions

SESSION = (b"x-context-session", b"cache-report")


class CacheVariant(msgspec.Struct, frozen=True):
    """One way to place what search picks."""

    placement: Placement
    sticky: bool


VARIANTS = tuple(CacheVariant(placement, sticky) for placement in Placement for sticky in (False, True))


class ConversationReplay(msgspec.Struct, frozen=True):
    """Builds the requests of a conversation one after the other, as a session would; nothing is sent or stored."""

    pipeline: Pipeline
    principal: Principal
    snapshot: Snapshot
    headers: HeaderBytes

    async def report(self, requests: Sequence[ChatBody]) -> list[dict[str, Any]]:
        """The figures of every variant."""
        return [await self._measure(requests, variant) for variant in VARIANTS]

    async def prepare(self, requests: Sequence[ChatBody], variant: CacheVariant) -> list[PreparedRequest]:
        """The outgoing requests of a session with these settings."""
        sessions, headers = Sessions(), (*self.headers, SESSION)
        settings = SessionSettings(placement=variant.placement, selection=SelectionSettings(sticky=variant.sticky))
        key = make_session_key(read_context_request(headers, None), self.principal)
        await sessions.change(key, lambda session: replace(session, settings=settings))
        pipeline = replace(self.pipeline, sessions=sessions, receipts=None)
        prepared = []
        for request in requests:
            exchange = Exchange("cache-report", self.principal, self.snapshot, headers)
            ready = await pipeline.prepare(exchange, orjson.dumps(request))
            await pipeline.save_session(exchange, ready)
            prepared.append(ready)
        return prepared

    async def _measure(self, requests: Sequence[ChatBody], variant: CacheVariant) -> dict[str, Any]:
        prepared = await self.prepare(requests, variant)
        counter, model = self.pipeline.builder.counter, prepared[0].model
        bodies = [msgspec.json.decode(ready.body) for ready in prepared]
        uses = measure_prompts(bodies, lambda text: counter.count(text, model))
        return {
            "placement": variant.placement.value,
            "effective": find_placement(self.pipeline, prepared[0]).value,
            "sticky": variant.sticky,
            **summarize_uses(uses),
            "context_tokens": sum(ready.injection.tokens for ready in prepared[1:]),
            "requests": [{"tokens": use.tokens, "reusable": use.reusable, "prefix": use.prefix} for use in uses],
        }


def summarize_uses(uses: Sequence[PromptUse]) -> dict[str, Any]:
    tokens, reusable, prefix = (sum(getattr(use, name) for use in uses) for name in ("tokens", "reusable", "prefix"))
    return {
        "tokens": tokens,
        "reusable": reusable,
        "prefix": prefix,
        "share_of_prompt": round(prefix / max(1, tokens), 4),
        "share_of_reusable": round(prefix / max(1, reusable), 4),
    }
