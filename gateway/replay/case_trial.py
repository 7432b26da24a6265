"""Runs saved cases with the current policies and with others: what would be different, and how good it would be.

Nothing is sent to a model. Both sides are built with the rights of the caller.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from gateway.control.evaluation_cases import SavedCase
from gateway.domain.principal import Principal
from gateway.domain.snapshot import Snapshot
from gateway.errors import GatewayError, ServiceUnavailable
from gateway.evaluation.advice import ThresholdEffects
from gateway.evaluation.figures import compute_figures
from gateway.evaluation.report import describe_mistakes
from gateway.evaluation.run import Outcome, read_outcome
from gateway.replay.overlay import PolicyChoice
from gateway.replay.replayer import Replayer
from gateway.replay.request_diff import compare_requests, make_pair
from gateway.replay.resolved_request import RequestResolver, RequestSource, ResolvedRequest


class TriedCase(msgspec.Struct, frozen=True):
    """A case, and what became of it: two outcomes and their differences, or why it could not be built."""

    case: SavedCase
    before: Outcome | None = None
    after: Outcome | None = None
    differences: dict[str, Any] = msgspec.field(default_factory=dict)
    error: str | None = None


class CaseTrial(msgspec.Struct, frozen=True):
    """Tries cases for one caller; the policies that are not served are built once for all of them."""

    replayer: Replayer

    async def run(
        self, caller: Principal, cases: Sequence[SavedCase], policies: PolicyChoice, model: str | None = None
    ) -> list[TriedCase]:
        """One result per case; raises InvalidObject and Conflict for policies that cannot be built."""
        workspace, replayer = caller.workspace, self.replayer
        async with replayer.queue.hold(workspace):
            served = await replayer.overlays.build(workspace, PolicyChoice())
            other = await replayer.overlays.build(workspace, policies)
        sides = (replayer.resolver, served), (replayer.resolver.isolate(other), other)
        return [await self._try(caller, case, sides, model) for case in cases]

    async def _try(
        self,
        caller: Principal,
        case: SavedCase,
        sides: tuple[tuple[RequestResolver, Snapshot], ...],
        model: str | None,
    ) -> TriedCase:
        source = build_source(caller, case, model)
        try:
            async with self.replayer.queue.hold(caller.workspace):
                before, after = [await resolve(source, *side) for side in sides]
            found = await self.replayer.threads.run(caller.workspace, compare_requests, before, after)
        except GatewayError as error:
            return TriedCase(case, error=error.message)
        asked = case.shape.build_case()
        first, second = (read_outcome(asked, one.prepared.injection.selection) for one in (before, after))
        return TriedCase(case, first, second, found)


async def resolve(source: RequestSource, resolver: RequestResolver, snapshot: Snapshot) -> ResolvedRequest:
    """One side; raises ServiceUnavailable if its figures would be meaningless."""
    resolved = await resolver.resolve(source, snapshot, is_served=True)
    if "semantic" in resolved.exchange.degraded:
        raise ServiceUnavailable("Semantic search failed; see the log.")
    return resolved


def build_source(caller: Principal, case: SavedCase, model: str | None) -> RequestSource:
    shape = case.shape
    messages = [{"role": "user", "content": text} for text in (*shape.earlier, shape.question)]
    named = {"model": model} if model else {}
    return RequestSource(caller, orjson.dumps({**named, "messages": messages, "context": dict(shape.headers)}))


def describe_trial(tried: Sequence[TriedCase]) -> dict[str, Any]:
    """Figures before and after, and every case with what would be different."""
    compared = [one for one in tried if one.before is not None and one.after is not None]
    befores = [one.before for one in compared if one.before is not None]
    afters = [one.after for one in compared if one.after is not None]
    effects = ThresholdEffects.build(befores), ThresholdEffects.build(afters)
    return {
        "compared": len(compared),
        "changed": sum(not one.differences["same"] for one in compared),
        "failed": len(tried) - len(compared),
        "figures": make_pair(compute_figures(befores).to_dict(), compute_figures(afters).to_dict()),
        "items": [describe_case(one, effects) for one in tried],
    }


def describe_case(tried: TriedCase, effects: tuple[ThresholdEffects, ThresholdEffects]) -> dict[str, Any]:
    about = {"id": tried.case.id, "question": tried.case.shape.question, "error": tried.error}
    if tried.before is None or tried.after is None:
        return {**about, "same": None, "tokens": None, "added": [], "removed": [], "changed": [], "outcome": None}
    items = tried.differences["items"]
    outcomes = [describe_outcome(one, effect) for one, effect in zip((tried.before, tried.after), effects, strict=True)]
    return {
        **about,
        "same": tried.differences["same"],
        "tokens": tried.differences["tokens"]["total"],
        **{kind: [one["id"] for one in items[kind]] for kind in ("added", "removed", "changed")},
        "outcome": make_pair(*outcomes),
    }


def describe_outcome(outcome: Outcome, effects: ThresholdEffects) -> dict[str, Any]:
    found = [{"id": one.resource, "score": round(one.score, 4), "via": one.via} for one in outcome.injected]
    right = not outcome.missed_ids and not outcome.unexpected_resources
    return {"right": right, "injected": found, **describe_mistakes(outcome, effects)}
