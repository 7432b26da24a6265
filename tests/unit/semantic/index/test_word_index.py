"""Documents are found by their words, by whoever may read them, whatever was added, replaced or removed before."""

import random

from gateway.semantic.index.word_index import IndexedDocument, WordIndex
from gateway.semantic.index.word_view import WordView

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
