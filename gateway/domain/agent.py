"""Who answers: agents, the profiles they share, and prompts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self


class Placement(StrEnum):
    """Where the volatile block goes."""

    SYSTEM = "system"
    TURN = "turn"
    TURN_USER = "turn_user"


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens an injection may spend; `maximum` bounds what a caller may ask for."""

    total: int | None = None
    maximum: int | None = None
    shares: tuple[tuple[str, int], ...] = ()  # tokens reserved by category, of the configured whole


@dataclass(frozen=True, slots=True)
class RankingWeights:
    """What counts how much in the order of what collectors find."""

    semantic: float = 0.35
    structural: float = 0.25  # nearness in the tree
    recency: float = 0.15
    type: float = 0.15  # the type matches what the question is about
    affinity: float = 0.10  # of the user


DEFAULT_WEIGHTS = RankingWeights()


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """What one level (configuration, workspace, agent) says about a collector; None: what the next broader one says."""

    enabled: bool | None = None
    priority: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  # limits and settings of its own

    def override(self, broader: "CollectorSettings") -> "CollectorSettings":
        return CollectorSettings(
            broader.enabled if self.enabled is None else self.enabled,
            broader.priority if self.priority is None else self.priority,
            {**broader.options, **self.options},
        )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What decides whether a ranked resource comes in; None means the next broader setting."""

    include_score: float | None = None
    min_score: float | None = None
    top_k: int | None = None
    top_n: int | None = None

    def override(self, broader: "Thresholds") -> "Thresholds":
        """These where they say something, else the broader ones."""
        pairs = ((name, getattr(self, name), getattr(broader, name)) for name in self.__dataclass_fields__)
        return Thresholds(**{name: own if own is not None else other for name, own, other in pairs})


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """Tuning of the semantic selection on one level: request, agent or configuration."""

    preset: str | None = None  # "conservative", "normal" or "aggressive"
    every: Thresholds = Thresholds()
    kinds: tuple[tuple[str, Thresholds], ...] = ()  # what one kind of resource has instead

    @classmethod
    def from_data(cls, said: Mapping[str, Any]) -> Self:
        """From the checked data of a request, a policy or the configuration."""
        every = Thresholds(**{name: said.get(name) for name in Thresholds.__dataclass_fields__})
        kinds = sorted((said.get("kinds") or {}).items())
        return cls(said.get("preset"), every, tuple((kind, Thresholds(**own)) for kind, own in kinds))

    def get_for_kind(self, kind: str) -> Thresholds:
        """What holds for a kind of resource on this level."""
        return dict(self.kinds).get(kind, UNTUNED).override(self.every)

    def override(self, broader: "SelectionSettings") -> "SelectionSettings":
        """These settings where they say something, else the broader ones.

        A level speaks for all kinds unless it says otherwise, and a preset brings its own thresholds along: those that
        were meant for another one no longer hold.
        """
        kept = broader if self.preset is None else broader._drop_thresholds()
        named = sorted({kind for kind, _ in (*self.kinds, *kept.kinds)})
        kinds = tuple((kind, self.get_for_kind(kind).override(kept.get_for_kind(kind))) for kind in named)
        return SelectionSettings(self.preset or broader.preset, self.every.override(kept.every), kinds)

    def _drop_thresholds(self) -> "SelectionSettings":
        """What no preset says anything about."""
        kinds = tuple((kind, Thresholds(top_k=own.top_k)) for kind, own in self.kinds)
        return SelectionSettings(self.preset, Thresholds(top_k=self.every.top_k), kinds)


UNTUNED = Thresholds()
UNTUNED_SELECTION = SelectionSettings()


@dataclass(frozen=True, slots=True)
class ModelDefaults:
    """What is sent upstream where the request itself says nothing."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A baseline that several agents share."""

    alias: str
    name: str
    contexts: tuple[str, ...] = ()
    defaults: ModelDefaults = ModelDefaults()
    budget: Budget = Budget()
    placement: Placement | None = None


@dataclass(frozen=True, slots=True)
class Agent:
    """A configured assistant: instructions, contexts, model defaults."""

    alias: str
    name: str
    description: str = ""
    instructions: str = ""
    profile: str | None = None
    contexts: tuple[str, ...] = ()
    inject: bool | None = None  # None: takes part if it or its profile lists contexts
    defaults: ModelDefaults = ModelDefaults()
    budget: Budget = Budget()
    placement: Placement | None = None
    selection: SelectionSettings = SelectionSettings()
    max_turns: int | None = None
    collectors: Mapping[str, CollectorSettings] = field(default_factory=dict)  # by name
    ranking: RankingWeights | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """A task with a template for the last user text."""

    alias: str
    name: str
    template: str | None = None
    contexts: tuple[str, ...] = ()
