"""Which tuning of the selection holds: the request's over its agent's over the configuration's."""

import pytest

from gateway.domain.agent import Expansion, SelectionSettings, Thresholds


def said(**settings: object) -> SelectionSettings:
    return SelectionSettings.from_data(settings)


def test_a_level_that_says_something_goes_before_a_broader_one() -> None:
    settings = said(top_n=2).override(said(top_n=7, min_score=0.4))
    assert settings == said(top_n=2, min_score=0.4)


def test_a_preset_drops_the_thresholds_of_every_broader_level() -> None:
    agent = said(preset="aggressive", include_score=0.1, min_score=0.1, top_n=50)
    assert said(preset="conservative").override(agent) == said(preset="conservative")


def test_a_preset_drops_a_kinds_thresholds_too() -> None:
    agent = said(kinds={"tool": {"min_score": 0.1}})
    assert said(preset="conservative").override(agent).get_for_kind("tool") == Thresholds()


def test_a_preset_says_nothing_about_how_many_are_looked_at() -> None:
    settings = said(preset="normal").override(said(top_k=7, kinds={"tool": {"top_k": 3, "top_n": 9}}))
    assert settings.get_for_kind("reference") == Thresholds(top_k=7)
    assert settings.get_for_kind("tool") == Thresholds(top_k=3)


def test_a_presets_own_thresholds_stay_with_it() -> None:
    narrower = said(top_n=1)
    assert narrower.override(said(preset="aggressive", include_score=0.9)) == said(
        preset="aggressive", include_score=0.9, top_n=1
    )


@pytest.mark.parametrize(
    ("narrower", "broader", "tool", "reference"),
    [
        ({}, {"top_n": 5, "kinds": {"tool": {"top_n": 3}}}, 3, 5),
        ({"kinds": {"tool": {"top_n": 1}}}, {"top_n": 5, "kinds": {"tool": {"top_n": 3}}}, 1, 5),
        ({"top_n": 2}, {"kinds": {"tool": {"top_n": 3}}}, 2, 2),
        ({"top_n": 2, "kinds": {"tool": {"top_n": 1}}}, {}, 1, 2),
    ],
)
def test_a_kind_has_its_own_where_the_same_level_says_so(
    narrower: dict[str, object], broader: dict[str, object], tool: int, reference: int
) -> None:
    settings = said(**narrower).override(said(**broader))
    assert (settings.get_for_kind("tool").top_n, settings.get_for_kind("reference").top_n) == (tool, reference)


def test_settings_can_be_part_of_a_key() -> None:
    kinds = {"tool": {"top_n": 1}, "reference": {"top_n": 2}}
    assert len({said(kinds=kinds), said(kinds=dict(reversed(kinds.items())))}) == 1


def test_an_expansion_is_overridden_field_by_field_and_no_preset_changes_it() -> None:
    agent = said(expansion={"depth": 2, "threshold": 0.5})
    settings = said(preset="conservative", expansion={"threshold": 0.9}).override(agent)
    assert settings.expansion == Expansion(2, 0.9, None)
    assert said(expansion={"depth": 0}).override(settings).expansion == Expansion(0, 0.9, None)


@pytest.mark.parametrize(
    ("narrower", "broader", "enabled"),
    [(None, None, None), (None, False, False), (True, False, True), (False, True, False), (False, None, False)],
)
def test_a_level_can_switch_the_search_on_and_off(
    narrower: bool | None, broader: bool | None, enabled: bool | None
) -> None:
    assert said(preset="normal", enabled=narrower).override(said(enabled=broader)).enabled is enabled


def test_settings_survive_being_written_and_read() -> None:
    settings = said(
        preset="normal", top_n=3, enabled=False, kinds={"tool": {"top_k": 4}}, expansion={"depth": 1, "top_n": 2}
    )
    assert SelectionSettings.from_data(settings.to_data()) == settings
