"""All engines against the plain definition: the highest cosines among the allowed rows."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.semantic.index.compact_index import CompactIndex
from gateway.semantic.index.vector_index import (
    EXACT_LIMIT,
    CodedIndex,
    ExactIndex,
    Floats,
    Rows,
    VectorIndex,
    build_index,
    widen,
)

WIDTH = 96  # not a multiple of 64: the last word of a code is half empty


def clustered(count: int, seed: int = 0) -> NDArray[np.float16]:
    """Vectors in a few hundred knots, as texts about the same things are."""
    centres = np.random.default_rng(0).standard_normal((300, WIDTH))
    random = np.random.default_rng(seed + 1)
    vectors = centres[random.integers(0, 300, count)] + 0.7 * random.standard_normal((count, WIDTH))
    scaled: NDArray[np.float16] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    return scaled


def plain(vectors: NDArray[np.float16], query: Floats, rows: Rows, k: int) -> Rows:
    scores = vectors[rows].astype(np.float64) @ query.astype(np.float64)
    return rows[np.argsort(-scores, kind="stable")[:k]]


Build = Callable[[NDArray[np.float16]], VectorIndex]


def build_compact(vectors: NDArray[np.float16]) -> VectorIndex:
    """In uneven steps, so that rows come into blocks that are there."""
    index = CompactIndex(vectors.shape[1])
    for start in range(0, len(vectors), 777):
        index = index.append(vectors[start : start + 777].astype(np.float32))
    return index


BUILDS: list[Build] = [
    partial(build_index, exact_limit=EXACT_LIMIT),
    partial(build_index, exact_limit=0),
    build_compact,
]


@pytest.fixture(params=BUILDS, ids=["exact", "coded", "compact"])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setattr("gateway.semantic.index.compact_index.BLOCK_ROWS", 2048)  # several of them in a test
    made: Build = request.param
    return made


@pytest.mark.parametrize("keep", [0.01, 0.1, 1.0])
def test_the_nearest_of_the_allowed_rows_are_found(build: Build, keep: float) -> None:
    vectors = clustered(6000)
    index = build(vectors)
    queries = clustered(20, seed=1).astype(np.float32)
    rows = np.flatnonzero(np.random.default_rng(2).random(len(vectors)) < keep)
    scores, found = index.search(queries, 10, None if keep == 1 else rows)
    hits = [len(set(line) & set(plain(vectors, query, rows, 10))) for line, query in zip(found, queries, strict=True)]
    least: dict[type, int] = {ExactIndex: 200, CodedIndex: 198, CompactIndex: 194}
    assert sum(hits) >= least[type(index)]
    assert set(found.ravel()) <= set(rows)
    assert (np.diff(scores) <= 0).all()
    assert np.allclose(scores, np.take_along_axis(index.compute_scores(queries, np.arange(6000)), found, 1), atol=1e-4)


def test_beyond_the_limit_the_index_is_coded_and_smaller() -> None:
    vectors = clustered(EXACT_LIMIT + 1)
    coded = build_index(vectors)
    exact = build_index(vectors[:-1])
    assert isinstance(coded, CodedIndex)
    assert isinstance(exact, ExactIndex)
    assert coded.vectors.nbytes + coded.codes.nbytes < 0.7 * exact.vectors.nbytes


def test_what_others_hold_changes_nothing(build: Build) -> None:
    mine, others = clustered(1500), clustered(4500, seed=5)
    queries = clustered(5, seed=1).astype(np.float32)
    alone = build(mine).search(queries, 10, np.arange(1500))
    together = build(np.concatenate([mine, others])).search(queries, 10, np.arange(1500))
    assert np.array_equal(alone[0], together[0])
    assert np.array_equal(alone[1], together[1])


def test_equal_vectors_come_in_row_order(build: Build) -> None:
    vectors = np.tile(clustered(1), (7, 1))
    _, found = build(vectors).search(vectors[:1].astype(np.float32), 7)
    assert found.tolist() == [[0, 1, 2, 3, 4, 5, 6]]


def test_fewer_rows_than_wanted_give_fewer_columns(build: Build) -> None:
    queries = clustered(2).astype(np.float32)
    scores, found = build(clustered(200)).search(queries, 10, np.array([3, 150]))
    assert scores.shape == found.shape == (2, 2)


def test_where_nothing_is_allowed_nothing_is_found(build: Build) -> None:
    queries = clustered(2).astype(np.float32)
    nothing = np.array([], np.intp)
    for vectors in (clustered(200), np.zeros((0, 0), np.float16)):
        index = build(vectors)
        assert index.search(queries, 10, nothing)[1].shape == (2, 0)
        assert index.compute_scores(queries, nothing).shape == (2, 0)
    assert index.search(queries, 10)[1].shape == (2, 0)


def test_scores_keep_the_order_of_the_rows(build: Build) -> None:
    vectors = clustered(500)
    queries = clustered(3, seed=1).astype(np.float32)
    for rows in (np.array([400, 7, 7]), np.arange(499, -1, -1)):
        assert np.allclose(build(vectors).compute_scores(queries, rows), queries @ vectors[rows].T, atol=4e-3)


def test_vectors_come_back_as_they_were_given(build: Build) -> None:
    vectors = clustered(50)
    rows = np.array([49, 0, 0])
    given = vectors[rows].astype(np.float32)
    index = build(vectors)
    # A byte a dimension: half a step of the largest number in a row.
    tolerance = 0.5 * np.abs(given).max() / 127 if isinstance(index, CompactIndex) else 0.0
    assert np.allclose(index.get_vectors(rows), given, rtol=0, atol=tolerance + 1e-9)


def test_widening_is_exact_for_every_number() -> None:
    half = np.arange(65536).astype(np.uint16).view(np.float16)
    half = half[np.isfinite(half)]
    assert np.array_equal(widen(half), half.astype(np.float32))
