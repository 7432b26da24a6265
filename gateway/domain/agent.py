"""Who answers: agents, the profiles they share, and prompts."""

from dataclasses import dataclass
from enum import StrEnum


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


@dataclass(frozen=True, slots=True)
class SelectionSettings:
    """Tuning of the semantic selection; None means the next broader setting."""

    preset: str | None = None  # "conservative", "normal" or "aggressive"
    include_score: float | None = None
    min_score: float | None = None
    top_k: int | None = None
    top_n: int | None = None

    def over(self, broader: "SelectionSettings") -> "SelectionSettings":
        """These settings where they say something, else the broader ones."""
        pairs = ((name, getattr(self, name), getattr(broader, name)) for name in self.__dataclass_fields__)
        return SelectionSettings(**{name: own if own is not None else other for name, own, other in pairs})


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


@dataclass(frozen=True, slots=True)
class Prompt:
    """A task with a template for the last user text."""

    alias: str
    name: str
    template: str | None = None
    contexts: tuple[str, ...] = ()
