"""From a question to the entities of its fragment: those that the request names, and those that are relevant."""

from gateway.domain.knowledge import Entity, KnowledgeSet
from gateway.knowledge.config import KnowledgeConfig
from gateway.knowledge.graph import build_graph
from gateway.knowledge.retrieval import MOST_NAMED, KnowledgeQuery, is_quick, retrieve

READERS = frozenset({"key:app"})
ENTITIES = {
    **{
        f"a{place:03}": Entity(f"a{place:03}", "Secret", f"Hidden {place}", (), {}, ("group:x",))
        for place in range(150)
    },
    "z": Entity("z", "Lamp", "Lumo lamp", (), {"colour": "white"}),
    "y": Entity("y", "Lamp", "Nova lamp", (), {"colour": "red"}),
}
GRAPH = build_graph(KnowledgeSet(), KnowledgeSet(ENTITIES, {}, {}))
CONFIG = KnowledgeConfig()


def find(query: KnowledgeQuery, config: KnowledgeConfig = CONFIG) -> list[str]:
    fragment = retrieve(GRAPH, query, config).fragment
    return [] if fragment is None else [one.entity.id for one in fragment.entities]


def test_names_of_nodes_and_of_what_is_hidden_take_nobodys_place() -> None:
    nodes = {f"n{place:03}" for place in range(MOST_NAMED)}
    assert find(KnowledgeQuery((), READERS, frozenset({*ENTITIES, *nodes}))) == ["y", "z"]


def test_a_preferred_type_lifts_an_entity_over_the_least_score() -> None:
    plain = KnowledgeQuery(("What does a white thing weigh?",), READERS)
    fragment = retrieve(GRAPH, plain, KnowledgeConfig(min_score=0.01)).fragment
    assert fragment is not None
    config = KnowledgeConfig(min_score=fragment.entities[0].score + 0.05)
    assert find(plain, config) == []
    assert find(KnowledgeQuery(plain.sentences, READERS, prioritize_types=frozenset({"lamp"})), config) == ["z"]


def test_only_small_fragments_are_quick() -> None:
    query = KnowledgeQuery(("What colour has the Lumo lamp?",), READERS)
    retrieve(GRAPH, query, CONFIG)
    assert is_quick(GRAPH, query, CONFIG)
    assert not is_quick(GRAPH, query, KnowledgeConfig(max_entities=100))
    assert not is_quick(GRAPH, query, KnowledgeConfig(depth=5))
