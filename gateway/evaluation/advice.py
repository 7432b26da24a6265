"""What to change so that a wrong case becomes right. Pure functions over all outcomes."""

import math
from collections.abc import Sequence
from typing import Self

import msgspec

from gateway.evaluation.run import InjectedResource, Outcome, UnplacedResource

REASONS = {
    "over_budget": "it was found, but the budget was used up: raise the budget or shorten what is always placed",
    "late": "it has no embedding yet: run `gateway index`",
    "language": "its languages exclude it: fix them or the language of the case",
    "overridden": "another resource of the same type and key took its place",
    "excluded": "the request excludes it",
}
NOT_ASSIGNED = "it is not assigned here: assign its context to the agent, profile, prompt or content of the case"
EXAMPLE = "add an example question like this one"
LOWEST_THRESHOLD = 0.2  # to suggest: a lower one would let in almost everything
NOT_SHORTLISTED = "it did not make the shortlist: add example questions like this one"


class ThresholdEffects(msgspec.Struct, frozen=True):
    """What another threshold would do to all cases together."""

    unwanted: tuple[float, ...]  # scores of what is neither expected nor injected
    wanted: tuple[float, ...]  # scores of what is expected and injected

    @classmethod
    def build(cls, outcomes: Sequence[Outcome]) -> Self:
        unwanted = [
            one.score
            for outcome in outcomes
            for name, one in outcome.unplaced.items()
            if one.score is not None and name not in outcome.case.expect
        ]
        wanted = [
            one.score
            for outcome in outcomes
            for one in outcome.injected
            if one.via == "semantic" and one.resource in outcome.case.expect
        ]
        return cls(tuple(unwanted), tuple(wanted))

    def describe_lowering(self, score: float) -> str:
        return _format_count(sum(other >= score for other in self.unwanted), "inject", "unexpected")

    def describe_raising(self, score: float) -> str:
        return _format_count(sum(other <= score for other in self.wanted), "lose", "expected")


def advise_on_missed(name: str, outcome: Outcome, effects: ThresholdEffects) -> str:
    """Why an expected resource was not injected, and what would change that."""
    unplaced: UnplacedResource | None = outcome.unplaced.get(name)
    if unplaced is None:
        return NOT_ASSIGNED
    if unplaced.reason in REASONS:
        return REASONS[unplaced.reason]
    if unplaced.score is None:
        return NOT_SHORTLISTED
    taken = [one.score for one in outcome.injected if one.via == "semantic"]
    if taken and unplaced.score >= min(taken):
        return f"{len(taken)} others came first: raise top_n"
    if unplaced.score < LOWEST_THRESHOLD:
        return EXAMPLE
    floor = math.floor(unplaced.score * 100) / 100
    return f"{EXAMPLE}, or lower min_score to {floor:.2f}{effects.describe_lowering(floor)}"


def advise_on_unexpected(one: InjectedResource, outcome: Outcome, effects: ThresholdEffects) -> str:
    """What would keep out an unexpected resource, unless the expectation is wrong."""
    if one.via == "expansion":
        return f"raise semantic.expansion.threshold above {one.score:.2f}, or expect it"
    rivals = outcome.missed_ids
    first = f"give {rivals[0]} an example question like this one" if rivals else "narrow its description and examples"
    raised = f"raise min_score and include_score above {one.score:.2f}{effects.describe_raising(one.score)}"
    return f"{first}, or {raised}, or expect it"


def _format_count(count: int, verb: str, kind: str) -> str:
    resources = "resource" if count == 1 else "resources"
    return f" (would {verb} {count} {kind} {resources})" if count else ""
