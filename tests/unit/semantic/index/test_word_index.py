"""Documents are found by their words, by whoever may read them, whatever was added, replaced or removed before."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.semantic.index.word_index import IndexedDocument, WordIndex
from gateway.semantic.index.word_view import DENSITY, K1, B, WordView, compute_rarity

ALL = (0, 1, 2)


def make_index(**texts: str) -> WordIndex:
    return WordIndex().revise({name: IndexedDocument(text.split()) for name, text in texts.items()})


def find(index: WordIndex, *queries: str, groups: tuple[int, ...] = ALL, limit: int = 10) -> list[str]:
    return [one.id for one in WordView.open(index, groups).search([query.split() for query in queries], limit)]


def test_the_document_with_the_rarest_words_of_a_query_comes_first() -> None:
    index = make_index(a="lamp red", b="lamp blue", c="lamp green", d="chair")
    assert find(index, "blue lamp") == ["b", "a", "c"]
    assert find(index, "sofa") == []
    assert sorted(find(index, "chair", "green")) == ["c", "d"]


def test_a_whole_match_scores_near_one_and_a_common_word_alone_scores_little() -> None:
    texts = {f"n{number}": f"page about{number}" for number in range(100)}
    view = WordView.open(make_index(**texts), ALL)
    (best, *_) = view.search([["about7"]], 5)
    assert (best.id, best.score > 0.8) == ("n7", True)
    assert all(one.score < 0.5 for one in view.search([["page", "summary"]], 5)), "nobody said anything about it"


def test_of_equal_matches_the_latest_comes_first() -> None:
    documents = {name: IndexedDocument(["lamp"], changed=when) for name, when in (("old", 1.0), ("new", 2.0))}
    assert find(WordIndex().revise(documents), "lamp") == ["new", "old"]


def test_a_replaced_document_is_found_by_its_new_words_only_and_a_removed_one_not_at_all() -> None:
    index = make_index(a="lamp", b="chair", c="table")
    index = index.revise({"a": IndexedDocument(["sofa"])}, ["b"])
    assert [find(index, word) for word in ("lamp", "sofa", "chair", "table")] == [[], ["a"], [], ["c"]]
    assert len(index) == 2


def test_what_is_hidden_changes_neither_the_order_nor_a_score() -> None:
    shown = {f"s{number}": IndexedDocument(["lamp", f"kind{number % 3}"]) for number in range(9)}
    hidden = {f"h{number}": IndexedDocument(["lamp", "kind1", "secret"] * 3, group=1) for number in range(50)}
    alone, mixed = WordIndex().revise(shown), WordIndex().revise(hidden).revise(shown)
    for query in (["lamp", "kind1"], ["secret", "lamp"], ["kind2"]):
        assert WordView.open(alone, [0]).search([query], 20) == WordView.open(mixed, [0]).search([query], 20)
    assert WordView.open(mixed, [0, 1]).search([["secret"]], 3), "others do find it"
    assert not WordView.open(mixed, []).search([["lamp"]], 3)


def test_other_groups_hold_for_all_documents_at_once() -> None:
    index = make_index(a="lamp", b="lamp").regroup({"a": 4, "b": 2})
    assert find(index, "lamp", groups=(4,)) == ["a"]
    assert find(index.regroup({"b": 2}), "lamp", groups=(2, 4)) == ["b"], "what has no group is nobody's"


def test_any_order_of_changes_finds_the_same_as_an_index_made_at_once() -> None:
    draw = random.Random(7)
    words = [f"word{number}" for number in range(30)]
    index, texts = WordIndex(), dict[str, list[str]]()
    for _ in range(60):
        new = {f"n{draw.randrange(80)}": draw.choices(words, k=draw.randrange(1, 8)) for _ in range(draw.randrange(6))}
        gone = draw.sample(sorted(texts), min(len(texts), draw.randrange(3)))
        index = index.revise({name: IndexedDocument(text) for name, text in new.items()}, gone)
        texts = {name: text for name, text in texts.items() if name not in gone} | new
    fresh = WordIndex().revise({name: IndexedDocument(text) for name, text in texts.items()})
    for word in words:
        assert sorted(find(index, word, limit=100)) == sorted(name for name, text in texts.items() if word in text)
        scores = {one.id: one.score for one in WordView.open(fresh, [0]).search([[word, "word1"]], 100)}
        assert {one.id: one.score for one in WordView.open(index, [0]).search([[word, "word1"]], 100)} == scores
    assert len(index.ids) < 2 * len(texts), "rows of what is gone are given up"


def rate_every_document(
    texts: dict[str, tuple[list[str], int, float]], queries: list[list[str]], groups: tuple[int, ...]
) -> dict[str, tuple[float, float]]:
    """How well every visible document matches, and when it was changed: the rule of the search, word by word."""
    shown = {name: (words, when) for name, (words, group, when) in texts.items() if group in groups and words}
    mean = np.float64(np.array([len(words) for words, _ in shown.values()], np.float32).mean()) if shown else 1.0
    sizes = {word: sum(word in words for words, _ in shown.values()) for query in queries for word in query}
    rated: dict[str, tuple[float, float]] = {}
    for query in queries:
        rarities = {word: compute_rarity(sizes[word], len(shown)) for word in dict.fromkeys(query)}
        total = sum(one if sizes[word] else one / 2 for word, one in rarities.items())
        for name, (words, when) in shown.items():
            gained = 0.0
            for word, rarity in rarities.items():
                if times := words.count(word):
                    density = times / (times + K1 * (1 - B + B * len(words) / max(1.0, mean)))
                    gained += rarity * (1 - DENSITY + DENSITY * density)
            if gained:
                rated[name] = max(rated.get(name, (0.0, when)), ((gained / total) ** 0.5, when))
    return rated


@given(st.randoms(use_true_random=False), st.integers(1, 12), st.sampled_from([(0,), (0, 1, 2), (2,)]))
@settings(max_examples=60, deadline=None)
def test_the_best_are_the_best_of_all_documents(draw: random.Random, limit: int, groups: tuple[int, ...]) -> None:
    """Postings that cannot matter are not read; whoever reads all of them finds the same."""
    words = [f"w{number}" for number in range(draw.choice([3, 12, 40]))]
    weights = [1 / (place + 1) ** draw.choice([0, 1, 2]) for place in range(len(words))]
    texts, index = dict[str, tuple[list[str], int, float]](), WordIndex()
    for _ in range(draw.randint(1, 4)):
        new = {
            f"n{draw.randrange(150)}": (
                draw.choices(words, weights, k=draw.randint(0, 9)),
                draw.choice([0, 0, 1, 2]),
                float(draw.randrange(3)),
            )
            for _ in range(draw.randint(1, 40))
        }
        index, texts = index.revise({name: IndexedDocument(*one) for name, one in new.items()}), texts | new
    queries = [draw.choices([*words, "unknown"], k=draw.randint(1, 6)) for _ in range(draw.randint(1, 3))]
    found = WordView.open(index, groups).search(queries, limit)
    rated = rate_every_document(texts, queries, groups)
    assert len(found) == min(limit, len(rated))
    assert [one.score for one in found] == pytest.approx(
        [score for score, _ in sorted(rated.values(), reverse=True)[:limit]], rel=1e-5
    )
    assert all(one.score == pytest.approx(rated[one.id][0], rel=1e-5) for one in found)
    order = [(-one.score, -rated[one.id][1]) for one in found]
    assert order == sorted(order), "of equal matches, the latest comes first"
