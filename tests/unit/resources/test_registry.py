import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from pydantic import BaseModel

from gateway import plugins
from gateway.resources import registry
from gateway.resources.base import ResourceType
from gateway.resources.registry import BUILT_IN, ResourceRegistry, load_registry
from gateway.resources.text import TextType

BUILT_IN_ALIASES = (
    *("brand-voice", "text", "document", "external-link", "glossary", "mcp-server", "http-tool"),
    "retriever",
)


class Haiku(ResourceType):
    alias, name, description, data = "haiku", "Haiku", "Three lines", BaseModel


class Impostor(TextType):
    """A plugin that takes a built-in's alias."""


@pytest.fixture
def installed(monkeypatch):
    def install(**points: str) -> None:
        listed = [EntryPoint(name.replace("_", "-"), value, plugins.GROUP) for name, value in points.items()]
        monkeypatch.setattr(plugins, "find_entry_points", lambda path: listed)

    return install


def test_built_ins_are_there_without_an_install(installed):
    installed()
    assert load_registry().list_aliases() == BUILT_IN_ALIASES


def test_a_built_in_delivered_by_an_entry_point_counts_once(installed):
    installed(resource_text="gateway.resources.text:TextType")
    assert load_registry().list_aliases() == BUILT_IN_ALIASES


def test_a_plugin_comes_in_through_the_same_door(installed):
    installed(resource_haiku=f"{__name__}:Haiku")
    assert isinstance(load_registry().get("haiku"), Haiku)


def test_entry_points_of_other_kinds_are_left_alone(installed):
    installed(collector_weather="no.such.module:Weather")
    assert load_registry().list_aliases() == BUILT_IN_ALIASES


@pytest.mark.parametrize("value", ["no.such.module:Thing", f"{__name__}:Missing", f"{__name__}:BUILT_IN_ALIASES"])
def test_a_plugin_that_is_no_resource_type_is_reported_with_its_name(installed, value):
    installed(resource_odd=value)
    with pytest.raises(ValueError, match="resource-odd"):
        load_registry()


def test_a_plugin_may_not_take_a_known_alias(installed):
    installed(resource_other=f"{__name__}:Impostor")
    with pytest.raises(ValueError, match="two resource types have the alias 'text'"):
        load_registry()


def test_excluded_types_do_not_exist():
    known = load_registry(exclude=["external-link"])
    assert known.get("external-link") is None
    assert "external-link" not in known.list_aliases()


def test_excluding_an_unknown_type_is_an_error():
    with pytest.raises(ValueError, match="external-lnk"):
        load_registry(exclude=["external-lnk"])


def test_an_unknown_alias_gives_nothing():
    assert ResourceRegistry([TextType()]).get("poem") is None


def test_pyproject_lists_exactly_the_built_ins():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    points = project["entry-points"][plugins.GROUP]
    listed = {name: value for name, value in points.items() if name.startswith(registry.PREFIX)}
    assert listed == {f"resource-{kind.alias}": f"{kind.__module__}:{kind.__name__}" for kind in BUILT_IN}


@pytest.mark.parametrize("kind", BUILT_IN)
def test_every_built_in_describes_its_data(kind):
    schema = kind.data.model_json_schema()
    assert schema["additionalProperties"] is False
    assert all(field["description"] for field in schema["properties"].values())
    assert kind.name
    assert kind.description


class UndeclaredType(ResourceType):
    """Says nothing about itself."""


def test_a_plugin_that_declares_nothing_is_named_with_what_it_lacks() -> None:
    point = EntryPoint("resource-undeclared", f"{__name__}:UndeclaredType", "gateway.plugins")
    with pytest.raises(ValueError, match=r"'resource-undeclared' .* does not declare alias, name, description, data"):
        registry._load_plugin(point)


def test_every_type_has_an_icon_and_a_recommended_mode() -> None:
    kinds = [kind for alias in load_registry().list_aliases() if (kind := load_registry().get(alias))]
    assert all(kind.icon for kind in kinds)
    modes = {kind.alias: kind.recommended_mode for kind in kinds}
    assert (modes["brand-voice"], modes["document"]) == ("always", "on_demand")
