"""What would have to change for a wrong case to become right. Pure functions over all outcomes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.evaluation.run import Injected, Missing, Outcome

REASONS = {
    "over_budget": "it was found, and the budget had no room left: raise the budget or shorten what is always placed",
    "late": "it has no vector yet: run `gateway index`",
    "language": "its languages leave it out: correct them, or the language of the case",
    "overridden": "another resource of the same type and key took its place",
    "excluded": "the request excludes it",
}
OUT_OF_REACH = "it is out of reach here: assign its context to the agent, profile, prompt or content of the case"
EXAMPLE = "add an example question like this one"
SENSIBLE = 0.2  # nobody should lower a threshold further: it would let in almost everything
FAR = "it is not among the resources that were looked at closely: add example questions like this one"


@dataclass(frozen=True, slots=True)
class Prices:
    """What a shifted threshold would do to all cases together."""

    unwanted: tuple[float, ...]  # scores of what is neither expected nor injected
    wanted: tuple[float, ...]  # scores of what is expected and injected

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> "Prices":
        left = [
            one.score
            for outcome in outcomes
            for name, one in outcome.left.items()
            if one.score is not None and name not in outcome.case.expect
        ]
        hits = [
            one.score
            for outcome in outcomes
            for one in outcome.injected
            if one.via == "semantic" and one.resource in outcome.case.expect
        ]
        return cls(tuple(left), tuple(hits))

    def of_lowering(self, score: float) -> str:
        return _number(sum(other >= score for other in self.unwanted), "inject", "that nobody expects")

    def of_raising(self, score: float) -> str:
        return _number(sum(other <= score for other in self.wanted), "lose", "that are expected")


def for_missed(name: str, outcome: Outcome, prices: Prices) -> str:
    """Why an expected resource was not injected, and what would bring it in."""
    left: Missing | None = outcome.left.get(name)
    if left is None:
        return OUT_OF_REACH
    if left.reason in REASONS:
        return REASONS[left.reason]
    if left.score is None:
        return FAR
    taken = [one.score for one in outcome.injected if one.via == "semantic"]
    if taken and left.score >= min(taken):
        return f"{len(taken)} others came first: raise top_n"
    if left.score < SENSIBLE:
        return EXAMPLE
    floor = math.floor(left.score * 100) / 100
    return f"{EXAMPLE}, or lower min_score to {floor:.2f}{prices.of_lowering(floor)}"


def for_unexpected(one: Injected, outcome: Outcome, prices: Prices) -> str:
    """What would keep out a resource that nobody expects, unless the expectation is what is wrong."""
    if one.via == "expansion":
        return f"raise semantic.expansion.threshold above {one.score:.2f}, or expect it"
    rivals = outcome.missed
    first = f"give {rivals[0]} an example question like this one" if rivals else "narrow its description and examples"
    raised = f"raise min_score and include_score above {one.score:.2f}{prices.of_raising(one.score)}"
    return f"{first}, or {raised}, or expect it"


def _number(count: int, verb: str, what: str) -> str:
    return f" (would {verb} {count} {what})" if count else ""
