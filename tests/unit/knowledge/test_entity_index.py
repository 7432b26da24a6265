"""Finding entities: names that are mentioned, words of properties, readers, types, changes, growth."""

import random

import pytest

from gateway.domain.knowledge import Entity
from gateway.knowledge.entity_index import EntityIndex
from gateway.knowledge.matches import TypeFilter

NOBODY, FINANCE = frozenset({"key:app"}), frozenset({"key:app", "group:finance"})
ANY = TypeFilter()
ENTITIES = [
    Entity("orders", "Endpoint", "Orders endpoint", ("List orders",), {"path": "/v2/orders"}),
    Entity("refunds", "Endpoint", "Refunds endpoint", (), {"path": "/v2/refunds", "note": "Money back to a customer"}),
    Entity("lamp", "Product", "Lumo lamp", ("Lumo",), {"colours": ["red", "white"], "price": 49.5}),
    Entity("margin", "Product", "Lumo margin", (), {"percent": 61}, ("group:finance",)),
]


def find(index: EntityIndex, *sentences: str, readers: frozenset[str] = NOBODY, types: TypeFilter = ANY) -> list[str]:
    return [one.entity.id for one in index.search(sentences, readers, types, 10).found if one.score >= 0.5]


@pytest.fixture(scope="module")
def index() -> EntityIndex:
    return EntityIndex.build(ENTITIES)


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("What does the orders endpoint return?", ["orders"]),
        ("How do I list orders?", ["orders"]),
        ("Is there a LUMO in my basket?", ["lamp"]),
        ("Which endpoint gives a customer money back?", ["refunds"]),
        ("Is it white?", ["lamp"]),
        ("Write a poem about whales and the sea", []),
        ("what is it and who are they", []),
        ("", []),
    ],
)
def test_what_a_question_mentions_is_found(index: EntityIndex, question: str, found: list[str]) -> None:
    assert find(index, question) == found


def test_each_sentence_finds_its_own(index: EntityIndex) -> None:
    assert set(find(index, "How do I list orders?", "What colours has the Lumo lamp?")) == {"orders", "lamp"}


def test_types_are_wanted_or_not_in_any_case(index: EntityIndex) -> None:
    question = "Do the orders endpoint and the Lumo lamp match?"
    assert find(index, question, types=TypeFilter(frozenset({"product"}))) == ["lamp"]
    assert find(index, question, types=TypeFilter(exclude=frozenset({"product"}))) == ["orders"]


def test_what_is_hidden_changes_neither_what_is_found_nor_its_score() -> None:
    hidden = [Entity(f"x{n}", "Product", f"Lumo lamp {n}", (), {"a": "orders"}, ("group:x",)) for n in range(50)]
    alone, among = EntityIndex.build(ENTITIES), EntityIndex.build([*hidden, *ENTITIES])
    for question in ("Lumo lamp", "What is the Lumo margin?", "orders of a customer"):
        for readers in (NOBODY, FINANCE):
            assert alone.search([question], readers, ANY, 5) == among.search([question], readers, ANY, 5)
    assert find(alone, "What is the Lumo margin?") == ["lamp"]
    assert find(alone, "What is the Lumo margin?", readers=FINANCE) == ["margin", "lamp"]


def test_a_limit_keeps_the_best_and_the_total_counts_all() -> None:
    index = EntityIndex.build([Entity(f"e{n}", "Term", f"Tide {n}") for n in range(40)])
    matches = index.search(["tide 7"], NOBODY, ANY, 3)
    assert matches.found[0].entity.id == "e7"
    assert (len(matches.found), matches.total, matches.visible) == (3, 40, 40)


def test_a_revised_index_finds_what_a_new_one_does() -> None:
    chance = random.Random(7)
    words = ["tide", "lamp", "order", "refund", "margin", "limit", "cursor", "colour", "price", "customer"]

    def draw(identity: str) -> Entity:
        name = " ".join(chance.sample(words, 2))
        readers = ("group:finance",) if chance.random() < 0.3 else ()
        return Entity(identity, chance.choice(["A", "B"]), name, tuple(chance.sample(words, 1)), {"p": name}, readers)

    kept = {f"e{n}": draw(f"e{n}") for n in range(30)}
    index = EntityIndex.build(list(kept.values()))
    for _ in range(20):
        changed: dict[str, Entity | None] = {}
        for identity in chance.sample([*kept, "new-1", "new-2", "new-3"], 4):
            changed[identity] = draw(identity) if chance.random() < 0.7 else None
        for identity, entity in changed.items():
            if entity is None:
                kept.pop(identity, None)
            else:
                kept[identity] = entity
        index = index.revise(changed)
        fresh = EntityIndex.build(list(kept.values()))
        for question in (["lamp price"], ["refund order", "tide"]):
            got, wanted = (one.search(question, FINANCE, ANY, 50) for one in (index, fresh))
            assert {one.entity.id: one.score for one in got.found} == pytest.approx(
                {one.entity.id: one.score for one in wanted.found}
            )
            assert (got.total, got.visible) == (wanted.total, wanted.visible)


def test_a_search_is_quick_once_its_view_is_known_unless_there_is_much_to_look_at(index: EntityIndex) -> None:
    index, question = EntityIndex.build(ENTITIES), ("How do I list orders?",)
    assert not index.is_quick(question, NOBODY, ANY)
    index.search(question, NOBODY, ANY, 10)
    assert index.is_quick(question, NOBODY, ANY)
    assert not index.is_quick(question, FINANCE, ANY)
    assert not index.is_quick(question, NOBODY, TypeFilter(frozenset({"product"})))
    assert not index.is_quick(("word " * 1000,), NOBODY, ANY)
    assert not index.is_quick(7 * ("orders",), NOBODY, ANY)


def test_what_scores_too_little_is_counted_and_not_listed() -> None:
    draw = random.Random(7)
    words = [f"word{number}" for number in range(40)]
    entities = [
        Entity(f"e{number}", "Thing", " ".join(draw.choices(words, k=2)), (), {"a": " ".join(draw.choices(words, k=4))})
        for number in range(300)
    ]
    index = EntityIndex.build(entities)
    for _ in range(50):
        question, least = (" ".join(draw.choices(words, k=5)),), draw.choice([0.3, 0.5, 0.7])
        every = index.search(question, NOBODY, ANY, 60)
        some = index.search(question, NOBODY, ANY, 60, least=least)
        assert (some.total, some.visible) == (every.total, every.visible)
        assert [one for one in some.found if one.score >= least] == [one for one in every.found if one.score >= least]
        assert all(one.score >= least - 0.001 for one in some.found)
