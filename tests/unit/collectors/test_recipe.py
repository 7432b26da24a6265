"""Layers of recipes: what they take, where they stop, and what they leave to those who may read it."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.collectors import branch
from gateway.collectors.recipe import RecipeCollector, cut_tail
from gateway.collectors.world import WorldCollector
from gateway.domain.collector import CollectorOrder, Findings
from gateway.domain.principal import Principal
from gateway.domain.recipe import NodeFilter
from gateway.domain.scope import ContextRequest
from gateway.domain.snapshot import Snapshot
from gateway.errors import Faults
from tests.support.content_orders import FakeContent, applies, make_order

Policies = Callable[[str], Snapshot]

TREE = """
recipes:
  r: {layers: %s, world: %s}
content:
  book:
    type: book
    children:
      one: {type: chapter, order: 1, body: "The first chapter ends. Here is its last sentence."}
      note: {type: note, order: 2, body: Between the chapters.}
      two: {type: chapter, order: 3, body: The second chapter., properties: {plan: [A, B]}, links: [
        {to: x, type: role}, {to: book/note}, {to: secret, type: role}]}
      x: {id: x, type: person, body: X., properties: {tags: [old, kind], alive: true, age: 40}}
      y: {id: y, type: person, body: Y., properties: {tags: [young]}, links: [{to: x, type: knows}]}
      secret: {id: secret, type: person, body: Z., readers: ['group:board'], links: [{to: x, type: hates}]}
"""


def load(policies: Policies, layers: str = "[]", world: str = "null") -> tuple[Snapshot, FakeContent]:
    snapshot = policies(TREE % (layers, world))
    return snapshot, FakeContent(snapshot)


async def take(policies: Policies, layers: str, who: Principal | None = None, **asked: Any) -> Findings:
    snapshot, content = load(policies, layers)
    recipe = RecipeCollector(content)
    said = ContextRequest(task="r", **{"content": "book/two", **asked})
    return await recipe.collect(make_order(recipe, snapshot, said, who=who))


def ids(found: Findings) -> list[str]:
    return [one.id for one in found.items]


async def test_the_sibling_before_is_the_one_of_the_same_type_and_only_its_end_is_shown(policies: Policies) -> None:
    found = await take(policies, "[{take: previous, characters: 32}]")
    assert [(one.id, one.text) for one in found.items] == [("book/one#ending", "[…] Here is its last sentence.")]
    assert ids(await take(policies, "[previous]", content="book/one")) == []
    assert ids(await take(policies, "[previous]", content=None)) == []


async def test_a_sibling_that_the_caller_may_not_read_takes_no_place(policies: Policies) -> None:
    hidden = "      draft: {type: chapter, order: 2, body: Not public., readers: ['group:board']}\n      x: {id: x,"
    snapshot = policies((TREE % ("[previous]", "null")).replace("      x: {id: x,", hidden))
    recipe = RecipeCollector(FakeContent(snapshot))
    for who, expected in (
        (None, "book/one#ending"),
        (Principal("board", groups=frozenset({"board"})), "book/draft#ending"),
    ):
        order = make_order(recipe, snapshot, ContextRequest(task="r", content="book/two"), who=who)
        assert ids(await recipe.collect(order)) == [expected]


async def test_an_outline_is_any_property_as_text_or_list(policies: Policies) -> None:
    found = await take(policies, "[{take: outline, show: plan}, outline]")
    assert [(one.id, one.text) for one in found.items] == [("book/two#outline", "- A\n- B")]


async def test_references_are_typed_links_and_named_inputs_that_the_caller_may_read(policies: Policies) -> None:
    assert ids(await take(policies, "[references]")) == ["x"]
    assert ids(await take(policies, "[references]", refs={"role": "y"})) == ["y", "x"]
    assert ids(await take(policies, "[{take: references, links: [place]}]", refs={"role": "y"})) == []
    board = Principal("board", groups=frozenset({"board"}))
    assert ids(await take(policies, "[references, relations]", board)) == ["x", "secret", "#relations"]


async def test_relations_are_those_among_what_is_referred_to(policies: Policies) -> None:
    found = await take(policies, "[references, relations]", refs={"role": "y"})
    assert found.items[-1].text == "- y → x: knows".replace("y", "Y").replace("x:", "X:")
    assert ids(await take(policies, "[relations]")) == []


@pytest.mark.parametrize(
    ("where", "admitted"),
    [
        ({"tags": ["kind"]}, ["x"]),
        ({"tags": ["old", "young"]}, ["x", "y"]),
        ({"alive": ["true"], "age": ["40"]}, ["x"]),
        ({"none": ["x"]}, []),
    ],
)
async def test_nodes_are_taken_by_type_and_properties(
    policies: Policies, where: dict[str, list[str]], admitted: list[str]
) -> None:
    layer = f"[{{take: nodes, types: person, where: {where}}}]".replace("'", '"')
    assert ids(await take(policies, layer)) == admitted


async def test_limits_are_kept_and_told(policies: Policies, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await take(policies, "[{take: nodes, types: person, limit: 1}]")
    assert (ids(found), found.truncated) == (["x"], True)
    monkeypatch.setattr(branch, "MOST_VISITED", 3)
    found = await take(policies, "[{take: nodes, types: person}]")
    assert (ids(found), found.truncated) == (["x", "y"], True)


async def test_a_node_stands_in_the_first_layer_that_has_it(policies: Policies) -> None:
    found = await take(policies, "[references, {take: nodes, types: person}, selected]", refs={"selected": ["y"]})
    assert [(one.id, one.layer) for one in found.items] == [("x", 0), ("y", 1)]
    assert found.counts == {"layer_1": 1, "layer_2": 1, "layer_3": 0}


async def test_what_the_user_says_is_marked_whatever_its_spacing(policies: Policies) -> None:
    snapshot, content = load(policies, "[body]")
    content.changes["book/two"] = replace(
        snapshot.contents["book/two"], body="A sentence of more than\nforty characters."
    )
    recipe = RecipeCollector(content)

    async def is_stated(said: str) -> bool:
        order: CollectorOrder = make_order(recipe, snapshot, ContextRequest(task="r", content="book/two"))
        (item,) = (await recipe.collect(replace(order, read_messages=lambda: [said]))).items
        return item.stated

    assert await is_stated("Go on: A sentence  of more than forty characters. Please.")
    assert not await is_stated("Go on: A sentence of more than thirty characters.")


async def test_the_world_is_grouped_by_type_in_the_given_order(policies: Policies) -> None:
    snapshot, content = load(policies, world="{detail: summary, types: [person, note], show: [age]}")
    world = WorldCollector(content)
    order = make_order(world, snapshot, ContextRequest(task="r", content="book/two"))
    found = await world.collect(order)
    assert [(one.type, one.text) for one in found.items] == [("person", "- X (40)\n- Y"), ("note", "- Note")]
    assert applies(world, snapshot, ContextRequest(task="r"))
    assert not applies(RecipeCollector(content), snapshot, ContextRequest(task="r"))


def test_a_tail_begins_with_a_sentence_or_a_word() -> None:
    assert cut_tail("Short.", 10) == "Short."
    assert cut_tail("One two three four five", 12) == "[…] four five"
    assert cut_tail("First one here. Second sentence here.", 30) == "[…] Second sentence here."


def test_a_filter_without_conditions_admits_everything() -> None:
    assert NodeFilter().admits({})
    assert NodeFilter().admits_type("any")


@pytest.mark.parametrize(
    ("recipe", "path"),
    [
        ("{layers: [bodies]}", "recipes.r.layers.0.take"),
        ("{layers: [{take: nodes, limit: 0}]}", "recipes.r.layers.0.limit"),
        ("{world: everything}", "recipes.r.world.detail"),
        ("{content: maybe}", "recipes.r.content"),
        ("{layer: []}", "recipes.r.layer"),
    ],
)
def test_a_faulty_recipe_is_reported_with_its_path(policies: Policies, recipe: str, path: str) -> None:
    with pytest.raises(Faults) as faults:
        policies(f"recipes: {{r: {recipe}}}")
    assert [fault.path for fault in faults.value.faults] == [path]
