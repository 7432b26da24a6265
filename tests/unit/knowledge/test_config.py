"""Presets, tiers, and what a configuration of one's own may change."""

import pytest

from gateway.knowledge.config import (
    DEFAULT_CONFIG,
    PRESETS,
    KnowledgeConfig,
    KnowledgeTier,
    build_config,
    find_preset,
    read_tier,
)

TEAMS, ENTERPRISE, PRO = KnowledgeTier.TEAMS, KnowledgeTier.ENTERPRISE, KnowledgeTier.PRO


@pytest.mark.parametrize(
    ("name", "entities", "tokens", "score", "types", "relationships", "axioms"),
    [
        ("editor", 30, 5000, 0.4, None, True, True),
        ("simplifier", 10, 2000, 0.6, {"concept", "term", "definition"}, False, False),
        ("tuning", 20, 4000, 0.5, {"endpoint", "parameter", "response", "schema"}, True, True),
        ("summarizer", 15, 3000, 0.5, {"product", "component", "feature", "service"}, True, False),
        ("copilot", 25, 4000, 0.4, None, True, True),
    ],
)
def test_the_presets_are_those_of_the_seed(
    name: str, entities: int, tokens: int, score: float, types: set[str] | None, relationships: bool, axioms: bool
) -> None:
    config = PRESETS[name]
    assert (config.max_entities, config.max_tokens, config.min_score) == (entities, tokens, score)
    assert (config.include_types, config.relationships, config.axioms) == (types, relationships, axioms)
    assert (config.depth, config.max_properties, config.format) == (1, 10, "yaml")


def test_a_preset_is_named_or_bears_the_agents_alias() -> None:
    assert find_preset("tuning", "editor") is PRESETS["tuning"]
    assert find_preset(None, "editor") is PRESETS["editor"]
    assert find_preset(None, "somebody") is find_preset(None, None) is DEFAULT_CONFIG
    assert KnowledgeConfig(max_tokens=4000, min_score=0.5, max_entities=20) == DEFAULT_CONFIG


@pytest.mark.parametrize(
    ("name", "tier"),
    [
        (None, "core"),
        ("", "core"),
        ("gold", "core"),
        ("Teams", "teams"),
        (" enterprise ", "enterprise"),
        ("pro", "pro"),
    ],
)
def test_a_tier_that_is_absent_or_unknown_is_the_lowest(name: str | None, tier: str) -> None:
    assert read_tier(name) == tier
    assert read_tier(name, TEAMS) == ("teams" if name is None else tier)


def test_core_gets_nothing_and_pro_ten_entities_alone() -> None:
    assert build_config(DEFAULT_CONFIG, {}, KnowledgeTier.CORE) is None
    config = build_config(PRESETS["editor"], {"max_entities": 50}, PRO)
    assert config is not None
    assert (config.max_entities, config.relationships, config.axioms) == (10, False, False)


def test_below_enterprise_a_configuration_can_only_narrow() -> None:
    wide = {"max_entities": 90, "min_score": 0.1, "include_types": frozenset({"product"}), "axioms": True, "depth": 3}
    simplifier = PRESETS["simplifier"]
    config = build_config(simplifier, wide, TEAMS)
    assert config is not None
    assert (config.max_entities, config.min_score, config.include_types) == (10, 0.6, frozenset())
    assert (config.axioms, config.depth) == (False, 1)
    free = build_config(simplifier, wide, ENTERPRISE)
    assert free is not None
    assert (free.max_entities, free.include_types, free.axioms, free.depth) == (90, {"product"}, True, 3)
    narrow = {"exclude_types": frozenset({"salary"}), "max_entities": 2, "min_score": 0.9, "relationships": False}
    for tier in (TEAMS, ENTERPRISE):
        config = build_config(DEFAULT_CONFIG, narrow, tier)
        assert config is not None
        assert (config.exclude_types, config.max_entities, config.min_score) == ({"salary"}, 2, 0.9)
        assert not config.relationships
    assert build_config(DEFAULT_CONFIG, {"max_entities": 0}, ENTERPRISE) is None
