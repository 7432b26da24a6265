"""What may be used of a server's list, and under which names."""

from typing import Any

import orjson
import pytest

from gateway.domain.tool import rename_definition
from gateway.tools.listing import MAX_TOOLS, build_definition, build_listing, decode_listing, encode_schema
from gateway.tools.names import clean_name, make_function_name

SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}


def make(name: Any, schema: Any = SCHEMA, description: Any = "d") -> dict[str, Any]:
    return {"name": name, "description": description, "schema": schema}


@pytest.mark.parametrize(
    "tool",
    [make(""), make("x" * 129), make("a\nb"), make(None), make("a", []), make("a", {"type": "string"}),
     make("a", {"x": "y" * 40_000}), make("a", {"x": {1: 2}})],
)  # fmt: skip
def test_a_tool_that_cannot_be_used_is_refused_and_counted(tool: dict[str, Any]) -> None:
    listing = build_listing([make("fine"), tool])
    assert [one.name for one in listing.tools] == ["fine"]
    assert listing.refused == 1
    assert listing.why


def test_a_schema_keeps_its_order_and_a_deep_one_is_refused() -> None:
    assert encode_schema(SCHEMA) == '{"type":"object","properties":{"b":{},"a":{}}}'
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(5000):
        deep = {"type": "object", "x": deep}
    assert encode_schema(deep) == ""


def test_a_list_is_bounded_and_survives_as_a_text() -> None:
    listing = build_listing(make(f"t{number}") for number in range(MAX_TOOLS + 10))
    assert (len(listing.tools), listing.refused) == (MAX_TOOLS, 10)
    assert decode_listing(listing.encode()) == listing.tools
    large = build_listing(make(f"t{number}", {"x": "y" * 30_000}) for number in range(100))
    assert len(large.encode()) < 1_200_000


def test_the_same_name_counts_once() -> None:
    assert build_listing([make("a"), make("a")]).refused == 1


@pytest.mark.parametrize("name", ["read_file", "a b", "é", "x" * 200, "a/b\\c", "😀"])
def test_function_names_are_what_openai_accepts(name: str) -> None:
    for made in (clean_name(name), make_function_name("server", name)):
        assert 0 < len(made) <= 64
        assert made.replace("_", "").replace("-", "").isascii()
        assert all(character.isalnum() or character in "_-" for character in made)


def test_long_names_stay_apart() -> None:
    assert make_function_name("s", "x" * 100 + "a") != make_function_name("s", "x" * 100 + "b")


def test_a_definition_is_renamed_without_being_parsed() -> None:
    definition = build_definition("name", 'a "name" here', encode_schema(SCHEMA))
    renamed = orjson.loads(rename_definition(definition, "name", "name_2"))
    assert renamed["function"] == {"name": "name_2", "description": 'a "name" here', "parameters": SCHEMA}
