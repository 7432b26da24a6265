"""Which documents have which neighbours."""

import numpy as np

from gateway.semantic.index.lexical import terms
from gateway.semantic.index.pairs import Pairs

NOWHERE = np.empty(0, np.intp)


def pairs_of(*texts: str) -> Pairs:
    return Pairs.none().revised(NOWHERE, {number: terms(text) for number, text in enumerate(texts)})


def found(pairs: Pairs, query: str) -> list[list[int]]:
    return [documents.tolist() for documents in pairs.documents(terms(query))]


def test_each_pair_of_a_query_is_looked_up_in_its_order() -> None:
    assert found(pairs_of("red fox runs", "fox red", "a red fox"), "red fox runs") == [[0, 2], [0]]


def test_a_pair_counts_once_however_often_it_stands() -> None:
    assert found(pairs_of("red fox red fox red fox"), "red fox red fox") == [[0], [0]]


def test_the_end_of_one_document_and_the_start_of_the_next_are_no_pair() -> None:
    assert found(pairs_of("runs red", "fox runs"), "red fox") == [[]]


def test_scripts_without_spaces_have_no_pairs() -> None:
    assert found(pairs_of("退款政策退款政策"), "退款政策") == []
    assert len(pairs_of("退款政策退款政策").packed) == 0


def test_one_word_and_none_have_no_pairs() -> None:
    assert found(pairs_of("red fox"), "red") == found(pairs_of("red fox"), "") == found(Pairs.none(), "") == []


def test_documents_move_and_go_with_their_pairs() -> None:
    revised = pairs_of("red fox", "old dog", "red fox").revised(np.array([1, 0, -1]), {2: terms("a red fox")})
    assert found(revised, "red fox") == [[1, 2]]
    assert found(revised, "old dog") == [[0]]


def test_the_same_documents_have_the_same_pairs_however_they_came() -> None:
    one_by_one = pairs_of("red fox").revised(np.array([0]), {1: terms("old dog")})
    assert one_by_one.packed.tolist() == pairs_of("red fox", "old dog").packed.tolist()
