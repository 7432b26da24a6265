"""Vectors of documents: what is near is found among what is visible, however documents come and go."""

import numpy as np

from gateway.semantic.index.compact_index import CompactIndex
from gateway.semantic.index.document_numbers import DocumentNumbers
from gateway.semantic.index.document_vectors import DocumentVectors, StoredVector
from gateway.semantic.index.vector_index import Floats

WIDTH = 64


def draw(count: int, seed: int) -> Floats:
    vectors = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    drawn: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return drawn


def make(ids: list[str], seed: int = 0) -> DocumentVectors:
    rows = draw(len(ids), seed).astype(np.float16)
    given = [StoredVector(id, id.encode().ljust(32), row) for id, row in zip(ids, rows, strict=True)]
    return DocumentVectors.build(WIDTH, DocumentNumbers()).add(given)


def see(vectors: DocumentVectors, *ids: str) -> np.ndarray:
    return vectors.find_rows(np.array(vectors.numbers.number(ids), np.int32))


def test_only_visible_documents_are_compared_and_the_others_change_nothing() -> None:
    ids = [f"d{number}" for number in range(3000)]
    both, alone = make(ids), make(ids[:1500])
    question = draw(1, 0)
    seen = both.compare(question, see(both, *ids[:1500]))
    assert "d0" in seen
    assert seen == alone.compare(question, see(alone, *ids[:1500]))
    assert "d1" in both.compare(question, see(both, "d1", "d2"))
    assert both.compare(question, np.zeros(3000, np.bool_)) == {}


def test_documents_that_are_asked_for_are_compared_however_far_they_are_unless_they_are_hidden() -> None:
    ids = [f"d{number}" for number in range(500)]
    vectors, question = make(ids), draw(1, 0)
    visible = see(vectors, *ids[:400])
    nearest = vectors.compare(question, visible)
    far = next(id for id in ids[:400] if id not in nearest)
    found = vectors.compare(question, visible, [far, "d450", "never seen"])
    assert found.keys() == {*nearest, far}
    assert found[far].whole
    assert not nearest["d0"].whole, "nobody has looked whether it has other passages"


def test_what_is_removed_is_not_found_and_its_rows_are_given_up() -> None:
    vectors = make(["a", "b", "c"])
    question = draw(1, 0)
    left = vectors.remove(["a", "unknown"])
    assert left.compare(question, see(left, "a", "b", "c")).keys() == {"b", "c"}
    assert left.is_sparse
    kept = left.keep(len(left))
    assert len(kept) == 2
    assert [kept.get_key(row).strip() for row in range(2)] == [b"b", b"c"]
    again = kept.add([StoredVector("a", bytes(32), draw(1, 0)[0].astype(np.float16))])
    assert again.compare(question, see(again, "a", "b", "c"))["a"].cosine > 0.99
    assert vectors.compare(question, see(vectors, "a")).keys() == {"a"}, "whoever searches is not disturbed"


def test_vectors_of_another_width_are_left_out() -> None:
    vectors = make(["a"])
    assert vectors.add([StoredVector("b", bytes(32), np.ones(5, np.float16))]) is vectors
    assert vectors.compare(np.ones((1, 5), np.float32), see(vectors, "a")) == {}


def test_few_vectors_take_little_memory() -> None:
    assert make(["a", "b"]).nbytes < 10_000
    assert CompactIndex(384).append(np.ones((10_000, 384), np.float32)).nbytes < 10_000 * 700
