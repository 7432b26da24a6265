"""Relationships between what is selected, axioms of its types, files over store, changes."""

from gateway.domain.knowledge import Axiom, Entity, KnowledgeSet, Relationship
from gateway.knowledge.graph import LOOKED_UP, MOST_RELATIONSHIPS, build_graph, revise_graph

ALL = frozenset({"key:app"})


def make_set(
    entities: list[Entity], ties: list[Relationship] | None = None, axioms: tuple[Axiom, ...] = ()
) -> KnowledgeSet:
    by_id = {one.id: one for one in ties or []}
    return KnowledgeSet({one.id: one for one in entities}, by_id, {one.id: one for one in axioms})


def tie(source: int, target: int) -> Relationship:
    return Relationship(f"{source}-{target}", "next", f"e{source}", f"e{target}")


CHAIN = [Entity(f"e{n}", "Step", f"Step {n}") for n in range(15)]
TIES = [tie(n, n + 1) for n in range(14)]


def test_both_ends_have_to_be_selected() -> None:
    graph = build_graph(make_set(CHAIN, TIES), KnowledgeSet())
    assert [one.id for one in graph.list_relationships([CHAIN[0], CHAIN[1], CHAIN[3]], 1)] == ["0-1"]
    assert graph.list_relationships([CHAIN[0], CHAIN[2]], 5) == []


def test_only_the_first_entities_are_looked_up_and_depth_goes_on_from_there() -> None:
    graph = build_graph(make_set(CHAIN, TIES), KnowledgeSet())
    first = [one.id for one in graph.list_relationships(CHAIN, 1)]
    assert len(first) == LOOKED_UP
    assert first[-1] == f"{LOOKED_UP - 1}-{LOOKED_UP}"
    assert [one.id for one in graph.list_relationships(CHAIN, 3)][LOOKED_UP:] == ["10-11", "11-12"]


def test_an_entity_with_very_many_relationships_is_bounded() -> None:
    pair = [Entity("a", "T", "A"), Entity("b", "T", "B")]
    ties = [Relationship(f"r{n:05}", f"t{n}", "a", "b") for n in range(5000)]
    graph = build_graph(make_set(pair, ties), KnowledgeSet())
    assert len(graph.list_relationships(pair, 1)) == MOST_RELATIONSHIPS


def test_axioms_hold_for_types_in_any_case_and_come_once() -> None:
    both = Axiom("both", ("Endpoint", "Parameter"), "Paged.")
    hidden = Axiom("hidden", ("Endpoint",), "Secret.", ("group:x",))
    graph = build_graph(make_set([], axioms=(both, hidden)), KnowledgeSet())
    assert graph.list_axioms(["endpoint", "PARAMETER"], ALL) == [both]
    assert graph.list_axioms(["Product"], ALL) == []
    assert graph.list_axioms(["Endpoint"], ALL | {"group:x"}) == [both, hidden]


def test_axioms_of_several_types_come_in_the_order_of_ids_up_to_a_bound() -> None:
    many = [Axiom(f"a{number:03}", (f"T{number % 2}", "Every"), "Held.") for number in reversed(range(300))]
    graph = build_graph(make_set([], axioms=(*many, Axiom("a", ("Other",), "Never."))), KnowledgeSet())
    assert [one.id for one in graph.list_axioms(["t1", "EVERY"], ALL)] == [f"a{number:03}" for number in range(100)]
    assert [one.id for one in graph.list_axioms(["t1"], ALL)] == [f"a{number:03}" for number in range(1, 200, 2)]


def test_a_file_wins_over_the_store_before_and_after_a_change() -> None:
    files = make_set([Entity("a", "T", "Of the file")])
    stored = make_set([Entity("a", "T", "Stored"), Entity("b", "T", "Other")])
    graph = build_graph(files, stored)
    assert {one.name for one in graph.items.entities.values()} == {"Of the file", "Other"}
    changed = revise_graph(graph, files, make_set([Entity("a", "T", "Again")]), {"entities": frozenset({"a", "b"})})
    assert [one.name for one in changed.items.entities.values()] == ["Of the file"]


def test_a_changed_relationship_is_looked_up_as_it_is_now_and_the_former_graph_stays() -> None:
    stored = make_set(CHAIN[:3], [tie(0, 1)])
    graph = build_graph(KnowledgeSet(), stored)
    moved = Relationship("0-1", "next", "e1", "e2")
    later = revise_graph(graph, KnowledgeSet(), make_set(CHAIN[:3], [moved]), {"relationships": frozenset({"0-1"})})
    assert later.list_relationships(CHAIN[:3], 1) == [moved]
    assert graph.list_relationships(CHAIN[:3], 1) == [tie(0, 1)]
    gone = revise_graph(later, KnowledgeSet(), make_set(CHAIN[:3]), {"relationships": frozenset({"0-1"})})
    assert gone.list_relationships(CHAIN[:3], 1) == []
    assert gone.index is later.index
