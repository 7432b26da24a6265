"""The three formats, properties, names that are the same, and shrinking."""

import orjson
import pytest
import yaml
from msgspec.structs import replace

from gateway.domain.knowledge import Axiom, Entity, PropertyValue, Relationship
from gateway.knowledge.config import DEFAULT_CONFIG, KnowledgeFormat
from gateway.knowledge.fragment import KnowledgeFragment, format_scalar
from gateway.knowledge.matches import ScoredEntity

ORDERS = Entity("orders", "Endpoint", "Orders: all", ("no", "1"), {"path": "/v2", "on": True, "n": None, "l": ["a, b"]})
LIMIT = Entity("limit", "Parameter", "Limit", (), {"max": 100})
OTHER = Entity("other", "Parameter", "Limit", (), {})
TIES = (
    Relationship("r1", "accepts", "orders", "limit", {"since": "2024"}),
    Relationship("r2", "accepts", "orders", "other"),
)
AXIOMS = (Axiom("a", ("Endpoint",), "Paged: always."), Axiom("b", ("Parameter",), "Positive."))
SCORED = (ScoredEntity(ORDERS, 0.9), ScoredEntity(LIMIT, 0.7), ScoredEntity(OTHER, 0.6))
FRAGMENT = KnowledgeFragment(SCORED, TIES, AXIOMS, DEFAULT_CONFIG)


def test_yaml_is_read_back_as_it_was_meant() -> None:
    data = yaml.safe_load(FRAGMENT.to_item().text)
    assert data["entities"][0] == {
        "name": "Orders: all",
        "type": "Endpoint",
        "aliases": ["no", "1"],
        "properties": {"path": "/v2", "on": True, "n": None, "l": ["a, b"]},
    }
    assert [one["name"] for one in data["entities"][1:]] == ["Limit (limit)", "Limit (other)"]
    assert data["relationships"][0] == {
        "from": "Orders: all",
        "type": "accepts",
        "to": "Limit (limit)",
        "since": "2024",
    }
    assert data["axioms"][0] == {"types": ["Endpoint"], "text": "Paged: always."}


TEXTS: tuple[str, ...] = (
    "",
    "a b",
    "a: b",
    "a:b",
    "- a",
    "#a",
    "a #b",
    "yes",
    "No",
    "~",
    "1",
    "1.5",
    "2024-01-01",
    "[a]",
    "{a}",
    "a,",
)
TEXTS += ("a, b", "'a'", '"', "a\nb", "a\tb", " a", "a ", "&a", "*a", "!a", "|", ">", "%a", "@a", "`a", "?", ":", "é")


@pytest.mark.parametrize("text", [*TEXTS, "東京", "a\u2028b", "null"])
def test_any_text_is_a_text_in_yaml(text: str) -> None:
    assert yaml.safe_load(f"key: {format_scalar(text)}") == {"key": text}


def test_markdown_has_one_line_per_fact() -> None:
    text = (
        KnowledgeFragment(SCORED, TIES, AXIOMS, replace(DEFAULT_CONFIG, format=KnowledgeFormat.MARKDOWN)).to_item().text
    )
    assert text.splitlines()[:4] == [
        "### Entities",
        "- **Orders: all** (Endpoint), also no, 1",
        "  - path: /v2",
        "  - on: True",
    ]
    assert "- Orders: all — accepts → Limit (limit) (since: 2024)" in text
    assert "- Endpoint: Paged: always." in text


def test_json_is_json() -> None:
    item = KnowledgeFragment(SCORED, TIES, AXIOMS, replace(DEFAULT_CONFIG, format=KnowledgeFormat.JSON)).to_item(1)
    assert orjson.loads(item.text) == {
        "entities": [
            {
                "name": "Orders: all",
                "type": "Endpoint",
                "aliases": ["no", "1"],
                "properties": {"path": "/v2", "on": True, "n": None, "l": ["a, b"]},
            }
        ],
        "axioms": [{"types": ["Endpoint"], "text": "Paged: always."}],
        "truncated": True,
        "note": "1 of 3 relevant entities; the others did not fit.",
    }


def test_properties_are_limited_or_left_out() -> None:
    few = replace(FRAGMENT, config=replace(DEFAULT_CONFIG, max_properties=1)).to_item().text
    assert yaml.safe_load(few)["entities"][0]["properties"] == {"path": "/v2"}
    none = replace(FRAGMENT, config=replace(DEFAULT_CONFIG, properties=False)).to_item().text
    assert "properties" not in none


def test_shrinking_drops_the_lowest_with_what_depends_on_them() -> None:
    whole = FRAGMENT.to_item()
    assert whole.counts == {"entities": 3, "relationships": 2, "axioms": 2}
    for room in range(len(whole.text)):
        short = FRAGMENT.shrink(len, room)
        if short is not None:
            assert len(short.text) <= room
            assert [one.id for one in short.parts] == ["orders", "limit", "other"][: len(short.parts)]
            assert len(short.parts) < 3
    one = FRAGMENT.shrink(lambda text: "Limit" in text, 0)
    assert one is not None
    assert one.counts == {"entities": 1, "relationships": 0, "axioms": 1}
    assert one.text.endswith("# 1 of 3 relevant entities; the others did not fit.")
    assert FRAGMENT.shrink(lambda text: 1, 0) is None


@pytest.mark.parametrize("format", [KnowledgeFormat.YAML, KnowledgeFormat.JSON])
def test_a_property_does_not_pass_for_an_end_of_its_relationship(format: KnowledgeFormat) -> None:
    entities = tuple(ScoredEntity(Entity(id, "Lamp", name), 0.9) for id, name in (("a", "Lumo"), ("b", "Halden")))
    forged: dict[str, PropertyValue] = {"from": "Acme", "to": "Acme", "type": "owns", "since": 2020}
    fragment = KnowledgeFragment(
        entities, (Relationship("r", "makes", "a", "b", forged),), (), replace(DEFAULT_CONFIG, format=format)
    )
    (told,) = yaml.safe_load(fragment.render(0))["relationships"]  # JSON is YAML
    assert told == {"from": "Lumo", "type": "makes", "to": "Halden", "since": 2020}
