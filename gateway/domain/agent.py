"""Who answers: agents, the profiles they share, and prompts."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Self

import msgspec
from msgspec.structs import asdict

from gateway.domain.name_pattern import matches_pattern


class Placement(StrEnum):
    """Where the volatile block goes."""

    SYSTEM = "system"
    TURN = "turn"
    TURN_USER = "turn_user"


class TextJoin(StrEnum):
    """Which texts of an answer in several turns the client sees."""

    ALL = "all"  # of every turn, with a blank line between them
    LAST = "last"


class ToolPermission(StrEnum):
    """Whether the gateway may run the tools of MCP servers and HTTP endpoints; its own two are not affected."""

    ALLOW = "allow"
    APPROVE = "approve"  # each call needs somebody's approval
    DENY = "deny"  # none is registered

    @property
    def strictness(self) -> int:
        return list(ToolPermission).index(self)


class ToolFilter(msgspec.Struct, frozen=True):
    """Which tools of servers and endpoints may be used, by patterns of their ids."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()

    def permits(self, identity: str) -> bool:
        allowed = any(matches_pattern(pattern, identity) for pattern in self.allow)
        return allowed and not any(matches_pattern(pattern, identity) for pattern in self.deny)


class ClientToolLimit(msgspec.Struct, frozen=True):
    """How many of the tools that a request brings itself are sent."""

    narrow: int | None = None  # None: all of them
    keep: tuple[str, ...] = ()  # names, or patterns, that are always sent

    def is_exceeded(self, count: int) -> bool:
        return self.narrow is not None and count > self.narrow


class Budget(msgspec.Struct, frozen=True):
    """Tokens an injection may spend; `maximum` bounds what a caller may ask for."""

    total: int | None = None
    maximum: int | None = None
    shares: tuple[tuple[str, int], ...] = ()  # tokens reserved by category, of the configured whole


class RankingWeights(msgspec.Struct, frozen=True):
    """What counts how much in the order of what collectors find."""

    semantic: float = 0.35
    structural: float = 0.25  # nearness in the tree
    recency: float = 0.15
    type: float = 0.15  # the type matches what the question is about
    affinity: float = 0.10  # of the user


DEFAULT_WEIGHTS = RankingWeights()


class CollectorSettings(msgspec.Struct, frozen=True):
    """What one level (configuration, workspace, agent) says about a collector; None: what the next broader one says."""

    enabled: bool | None = None
    priority: int | None = None
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)  # limits and settings of its own

    def override(self, broader: "CollectorSettings") -> "CollectorSettings":
        return CollectorSettings(
            broader.enabled if self.enabled is None else self.enabled,
            broader.priority if self.priority is None else self.priority,
            {**broader.options, **self.options},
        )


class Thresholds(msgspec.Struct, frozen=True):
    """What decides whether a ranked resource comes in; None means the next broader setting."""

    include_score: float | None = None
    min_score: float | None = None
    top_k: int | None = None
    top_n: int | None = None

    def override(self, broader: "Thresholds") -> "Thresholds":
        """These where they say something, else the broader ones."""
        return Thresholds(**_override_fields(self, broader))


MAX_DEPTH = 3  # passes of an expansion
MAX_NEIGHBOURS = 50  # that a pass may add


class Expansion(msgspec.Struct, frozen=True):
    """How far picks lead to what is near to them; None means the next broader setting."""

    depth: int | None = None  # passes; 0: none
    threshold: float | None = None  # cosine
    top_n: int | None = None  # of each pass

    def override(self, broader: "Expansion") -> "Expansion":
        """This where it says something, else the broader one."""
        return Expansion(**_override_fields(self, broader))


def _override_fields(own: Thresholds | Expansion, broader: Thresholds | Expansion) -> dict[str, Any]:
    pairs = ((name, getattr(own, name), getattr(broader, name)) for name in own.__struct_fields__)
    return {name: said if said is not None else other for name, said, other in pairs}


class SelectionSettings(msgspec.Struct, frozen=True):
    """Tuning of the semantic selection on one level: request, agent or configuration."""

    preset: str | None = None  # "conservative", "normal" or "aggressive"
    every: Thresholds = Thresholds()
    kinds: tuple[tuple[str, Thresholds], ...] = ()  # what one kind of resource has instead
    expansion: Expansion = Expansion()
    enabled: bool | None = None  # False: no search for this question; the tools can still be used
    sticky: bool | None = None  # in a session, picks stay while they are relevant enough

    @classmethod
    def from_data(cls, said: Mapping[str, Any]) -> Self:
        """From the checked data of a request, a policy or the configuration."""
        every = Thresholds(**{name: said.get(name) for name in Thresholds.__struct_fields__})
        kinds = sorted((said.get("kinds") or {}).items())
        return cls(
            said.get("preset"),
            every,
            tuple((kind, Thresholds(**own)) for kind, own in kinds),
            Expansion(**(said.get("expansion") or {})),
            said.get("enabled"),
            said.get("sticky"),
        )

    def to_data(self) -> dict[str, Any]:
        """What `from_data` takes."""
        kinds = {kind: asdict(own) for kind, own in self.kinds}
        own = {"preset": self.preset, "kinds": kinds, "expansion": asdict(self.expansion), "enabled": self.enabled}
        return asdict(self.every) | own | {"sticky": self.sticky}

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
        return SelectionSettings(
            self.preset or broader.preset,
            self.every.override(kept.every),
            kinds,
            self.expansion.override(broader.expansion),
            broader.enabled if self.enabled is None else self.enabled,
            broader.sticky if self.sticky is None else self.sticky,
        )

    def _drop_thresholds(self) -> "SelectionSettings":
        """What no preset says anything about."""
        kinds = tuple((kind, Thresholds(top_k=own.top_k)) for kind, own in self.kinds)
        return SelectionSettings(self.preset, Thresholds(top_k=self.every.top_k), kinds)


UNTUNED = Thresholds()
UNTUNED_SELECTION = SelectionSettings()


class ModelDefaults(msgspec.Struct, frozen=True):
    """What is sent upstream where the request itself says nothing."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None


class Profile(msgspec.Struct, frozen=True):
    """A baseline that several agents share."""

    alias: str
    name: str
    contexts: tuple[str, ...] = ()
    defaults: ModelDefaults = ModelDefaults()
    budget: Budget = Budget()
    placement: Placement | None = None


class Agent(msgspec.Struct, frozen=True):
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
    tool_permission: ToolPermission | None = None
    retain: bool | None = None  # keep what the model fetched in the session
    tools: ToolFilter = ToolFilter()
    client_tools: ClientToolLimit = ClientToolLimit()
    tool_expansion: int = 0  # further searches with results of tools in one exchange
    collectors: Mapping[str, CollectorSettings] = msgspec.field(default_factory=dict)  # by name
    ranking: RankingWeights | None = None
    requires: tuple[str, ...] = ()  # categories in which a valid context has something
    join: TextJoin = TextJoin.ALL


class Prompt(msgspec.Struct, frozen=True):
    """A task with a template for the last user text."""

    alias: str
    name: str
    template: str | None = None
    contexts: tuple[str, ...] = ()

    @property
    def uses_content(self) -> bool:
        """Whether its template may need the text of a node."""
        return self.template is not None and "{content}" in self.template
