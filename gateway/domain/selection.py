"""What is injected, offered or dropped, each with its reason."""

from dataclasses import dataclass

from gateway.domain.candidate import Assignment, Candidate
from gateway.domain.resource import Mode
from gateway.domain.scope import Item


@dataclass(frozen=True, slots=True)
class Placed:
    """A resource whose text goes into the request."""

    candidate: Candidate
    text: str
    tokens: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Left:
    """A resource whose text is not placed, and why: offered through the tools or dropped."""

    candidate: Candidate
    reason: str | None = None  # over_budget, below_threshold, language, excluded, overridden, late, no_tools

    @property
    def findable(self) -> bool:
        """Whether a search by meaning may pick it."""
        return self.candidate.resource.mode is Mode.SEMANTIC and self.reason in (None, "no_tools")


@dataclass(frozen=True, slots=True)
class Warned:
    """Something a person should know about a selection that was made all the same."""

    code: str
    category: str
    message: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome for one request."""

    stable: tuple[Placed, ...] = ()  # the same from turn to turn
    volatile: tuple[Placed, ...] = ()  # depends on the question
    items: tuple[Item, ...] = ()  # text given by the caller, part of the volatile block
    catalogue: tuple[Left, ...] = ()  # reachable through the tools
    dropped: tuple[Left, ...] = ()
    sources: tuple[Assignment, ...] = ()
    budget: int = 0
    warnings: tuple[Warned, ...] = ()
    degraded: frozenset[str] = frozenset()
