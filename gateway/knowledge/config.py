"""How much of the graph a request gets: the agent's configuration, within what the tier of its key allows."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

MAX_ENTITIES, MAX_TOKENS = 100, 50_000  # that a configuration may ask for
MAX_DEPTH = 5
PRO_ENTITIES = 10


class KnowledgeTier(StrEnum):
    """What a key was sold with."""

    CORE = "core"
    PRO = "pro"
    TEAMS = "teams"
    ENTERPRISE = "enterprise"


class KnowledgeFormat(StrEnum):
    """How a fragment is written."""

    YAML = "yaml"
    MARKDOWN = "markdown"
    JSON = "json"


class KnowledgeConfig(msgspec.Struct, frozen=True):
    """What a fragment may contain."""

    max_tokens: int = 4000
    include_types: frozenset[str] | None = None  # in lower case; None: all
    exclude_types: frozenset[str] = frozenset()
    min_score: float = 0.5
    relationships: bool = True
    depth: int = 1
    axioms: bool = True
    max_entities: int = 20
    format: KnowledgeFormat = KnowledgeFormat.YAML
    properties: bool = True
    max_properties: int = 10

    def narrow(self, other: "KnowledgeConfig") -> "KnowledgeConfig":
        """This configuration with whatever is narrower in the other; the format is the other's."""
        included = self.include_types
        if other.include_types is not None:
            included = other.include_types if included is None else included & other.include_types
        return KnowledgeConfig(
            min(self.max_tokens, other.max_tokens),
            included,
            self.exclude_types | other.exclude_types,
            max(self.min_score, other.min_score),
            self.relationships and other.relationships,
            min(self.depth, other.depth),
            self.axioms and other.axioms,
            min(self.max_entities, other.max_entities),
            other.format,
            self.properties and other.properties,
            min(self.max_properties, other.max_properties),
        )


def _name_types(*names: str) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


DEFAULT_CONFIG = KnowledgeConfig()
PRESETS: Mapping[str, KnowledgeConfig] = {
    "editor": KnowledgeConfig(max_entities=30, max_tokens=5000, min_score=0.4),
    "simplifier": KnowledgeConfig(
        max_entities=10,
        max_tokens=2000,
        min_score=0.6,
        include_types=_name_types("Concept", "Term", "Definition"),
        relationships=False,
        axioms=False,
    ),
    "tuning": KnowledgeConfig(
        max_entities=20,
        max_tokens=4000,
        min_score=0.5,
        include_types=_name_types("Endpoint", "Parameter", "Response", "Schema"),
    ),
    "summarizer": KnowledgeConfig(
        max_entities=15,
        max_tokens=3000,
        min_score=0.5,
        include_types=_name_types("Product", "Component", "Feature", "Service"),
        axioms=False,
    ),
    "copilot": KnowledgeConfig(max_entities=25, max_tokens=4000, min_score=0.4),
}


def read_tier(name: str | None, default: KnowledgeTier = KnowledgeTier.CORE) -> KnowledgeTier:
    """The tier of a key; one that nobody knows is the lowest."""
    if name is None:
        return default
    known = {one.value: one for one in KnowledgeTier}
    return known.get(name.strip().casefold(), KnowledgeTier.CORE)


def find_preset(name: str | None, agent: str | None) -> KnowledgeConfig:
    """The preset that is named, else the one that bears the agent's alias, else the defaults."""
    return PRESETS.get(name or agent or "", DEFAULT_CONFIG)


def build_config(preset: KnowledgeConfig, custom: Mapping[str, Any], tier: KnowledgeTier) -> KnowledgeConfig | None:
    """What a request may get: None without knowledge.

    A configuration of one's own may go beyond its preset for the tier `enterprise` only; for all others it can narrow
    the preset, so that what an operator excludes is excluded for everybody.
    """
    if tier is KnowledgeTier.CORE:
        return None
    wanted = replace(preset, **custom) if custom else preset
    config = wanted if tier is KnowledgeTier.ENTERPRISE else preset.narrow(wanted)
    if tier is KnowledgeTier.PRO:
        entities = min(config.max_entities, PRO_ENTITIES)
        config = replace(config, max_entities=entities, relationships=False, axioms=False)
    return config if config.max_entities else None
