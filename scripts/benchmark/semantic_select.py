"""Searches passages beside exact numpy (and faiss, where it is installed); prints figures as JSON.

Vectors are drawn around centres, as texts lie around their subjects.
"""

import gc
import importlib
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.domain.search import Pick
from gateway.semantic.index.lexical import extract_terms
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.passages import Passage
from gateway.semantic.index.relations import Relations
from gateway.semantic.index.vector_index import Floats, VectorIndex, build_index
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.expansion import ExpansionRule, expand_picks
from gateway.semantic.search.scoring import rank_resources
from gateway.semantic.search.view import IndexView
from scripts.benchmark.semantic_figures import Figure, print_figures, time_side_by_side

WIDTH, BEST, PER_RESOURCE = 384, 10, 3
WHOLE = 10_000  # passages with texts: reading the words of more takes long and tells nothing new
TIMES, RECALL = 3, 0.99
PICKED = 5  # resources that an expansion starts from
SAMPLED = 50  # resources that tell what it takes to relate one


def draw_clustered(count: int, seed: int) -> Floats:
    """Rows of length 1 around centres that are the same for every seed."""
    centres = np.random.default_rng(0).standard_normal((200, WIDTH)).astype(np.float32)
    noise = np.random.default_rng(seed)
    rows = centres[noise.integers(0, len(centres), count)]
    rows += 0.9 * noise.standard_normal((count, WIDTH)).astype(np.float32)
    scaled: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def search_exactly(vectors: Floats, query: Floats, rows: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """The baseline: all cosines, then the ten largest in order."""
    scores = (vectors if rows is None else vectors[rows]) @ query
    found = np.argpartition(scores, -BEST)[-BEST:]
    found = found[np.argsort(-scores[found])]
    return found if rows is None else rows[found]


def take_queries_in_turn(work: Callable[[Floats], Any], queries: Floats) -> Callable[[], Any]:
    """The same work for another query each time."""
    place = iter(range(1_000_000))
    return lambda: work(queries[next(place) % len(queries)])


def measure_size(count: int, rounds: int) -> Iterator[Figure]:
    vectors, queries = draw_clustered(count, 1), draw_clustered(50, 2)
    half = vectors.astype(np.float16)
    index = build_index(half)
    for share in (1, 10, 100):
        rows = draw_allowed_rows(count, share)
        yield from measure_search(f"{count:,} passages, {share} % allowed", (index, vectors), queries, rows, rounds)
    every = np.arange(count)
    ours, plain = time_side_by_side(
        [
            take_queries_in_turn(lambda query: index.compute_scores(query[None], every), queries),
            take_queries_in_turn(lambda query: vectors @ query, queries),
        ],
        rounds,
    )
    yield Figure(f"{count:,} passages, every score", ours, "ms", plain, "numpy", TIMES)
    yield from measure_faiss(count, (index, vectors), queries, rounds)


def draw_allowed_rows(count: int, share: int) -> NDArray[np.intp] | None:
    """So many per cent of the rows, ascending; None for all."""
    return None if share == 100 else np.sort(np.random.default_rng(3).choice(count, count * share // 100, False))


def measure_search(
    name: str, data: tuple[VectorIndex, Floats], queries: Floats, rows: NDArray[np.intp] | None, rounds: int
) -> Iterator[Figure]:
    index, vectors = data
    works = [
        take_queries_in_turn(lambda query: index.search(query[None], BEST, rows), queries),
        take_queries_in_turn(lambda query: search_exactly(vectors, query, rows), queries),
    ]
    ours, plain = time_side_by_side(works, rounds)
    yield Figure(f"{name}, ten best", ours, "ms", plain, "numpy", TIMES)
    hits = [len(set(index.search(q[None], BEST, rows)[1][0]) & set(search_exactly(vectors, q, rows))) for q in queries]
    yield Figure(f"{name}, recall@10", sum(hits) / (BEST * len(queries)), "", target=RECALL, sign="≥")


def search_one(search: Callable[..., Any], query: Floats, **among: Any) -> Any:
    return search(query[None], BEST, **among)


def measure_faiss(count: int, data: tuple[VectorIndex, Floats], queries: Floats, rounds: int) -> Iterator[Figure]:
    try:
        faiss = importlib.import_module("faiss")
    except ImportError:
        return
    index, vectors = data
    flat = faiss.IndexScalarQuantizer(WIDTH, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    flat.train(vectors)
    flat.add(vectors)
    for share in (1, 10, 100):
        rows = draw_allowed_rows(count, share)
        only = None if rows is None else faiss.SearchParameters(sel=faiss.IDSelectorBatch(rows))
        works = [
            take_queries_in_turn(partial(search_one, index.search, rows=rows), queries),
            take_queries_in_turn(partial(search_one, flat.search, params=only), queries),
        ]
        ours, plain = time_side_by_side(works, rounds)
        yield Figure(f"{count:,} passages, {share} % allowed, ten best", ours, "ms", plain, "faiss fp16 exact", TIMES)


def measure_expansion(count: int, rounds: int) -> Iterator[Figure]:
    """An expansion by relations beside one that compares, and the cost of relating everything."""
    texts = [Passage(f"c/{number // PER_RESOURCE}", f"text {number}") for number in range(count)]
    view = build_view(texts)
    everyone = np.arange(len(view.index.numbers))
    step = len(everyone) // PICKED
    picked = everyone[: step * PICKED : step]
    relations = Relations.empty(view.index)
    began = time.process_time()
    for _ in relations.compare(np.union1d(picked, everyone[:SAMPLED]), everyone, fresh=True):
        pass
    seconds = (time.process_time() - began) / len(np.union1d(picked, everyone[:SAMPLED])) * len(everyone)
    picks, settings = (
        [Pick(view.resources[number], 0.9) for number in picked],
        ExpansionRule(depth=1, threshold=0.5),
    )
    ours, plain = time_side_by_side(
        [lambda: expand_picks(view, picks, settings, relations), lambda: expand_picks(view, picks, settings)],
        max(3, rounds // 4),
    )
    if expand_picks(view, picks, settings, relations) != expand_picks(view, picks, settings):
        raise RuntimeError("An expansion by relations finds something else than one that compares.")
    name = f"{count:,} passages, expansion of {PICKED} picks"
    yield Figure(name, ours, "ms", plain, "comparing", 1)
    yield Figure(f"{count:,} passages, relating all, of CPU", seconds, "s")


class NamedModel:
    """All that an index needs of an embedder here."""

    id = "bench"


def measure_whole_search(count: int, rounds: int) -> Iterator[Figure]:
    """What a search costs besides the vectors, and what a passage takes in memory besides its own."""
    tracemalloc.start()
    view = build_view_of_texts(count)
    gc.collect()
    megabytes = tracemalloc.get_traced_memory()[0] / 2**20 - compute_vector_mb(view.index.vectors)
    tracemalloc.stop()
    sentence, query = ["How do I change where the log is written?"], draw_clustered(1, 2)
    evidence, calibration = view.collect_evidence(sentence, query), Calibration.load()
    lexical, judged, all_of_it = time_side_by_side(
        [
            lambda: view.words.match(extract_terms(sentence[0])),
            lambda: rank_resources(evidence, calibration),
            lambda: rank_resources(view.collect_evidence(sentence, query), calibration),
        ],
        rounds,
    )
    yield Figure(f"{count:,} passages, words of a query", lexical, "ms")
    yield Figure(f"{count:,} passages, calibrated ranking", judged, "ms")
    yield Figure(f"{count:,} passages, all of a search but embedding", all_of_it, "ms")
    yield Figure(f"memory of 100,000 passages, texts and words (from {count:,})", megabytes * 100_000 / count, "MB")


def build_view_of_texts(count: int) -> IndexView:
    """An index of passages of 70 words each, three to a resource, all of it visible."""
    words = Path(__file__).resolve().parents[2].joinpath("docs", "OPERATIONS.md").read_text().split()
    draw = random.Random(1)
    return build_view(
        [Passage(f"c/{number // PER_RESOURCE}", " ".join(draw.choices(words, k=70))) for number in range(count)]
    )


def build_view(passages: list[Passage]) -> IndexView:
    """An index of passages, all of it visible."""
    rows = draw_clustered(len(passages), 1).astype(np.float16)
    vectors = {passage.key(NamedModel.id): row for passage, row in zip(passages, rows, strict=True)}
    index = PassageIndex.build(1, NamedModel(), passages, vectors)  # type: ignore[arg-type]
    return IndexView.build(IndexWords.build(index), list(index.numbers))


def compute_vector_mb(index: VectorIndex) -> float:
    arrays = [getattr(index, name) for name in index.__struct_fields__]  # type: ignore[attr-defined]
    return float(sum(array.nbytes for array in arrays) / 2**20)


def measure_vector_memory(count: int) -> Figure:
    index = build_index(draw_clustered(count, 1).astype(np.float16))
    return Figure(
        f"memory of 100,000 passages, vectors (from {count:,})", compute_vector_mb(index) * 100_000 / count, "MB"
    )


def main(sizes: list[int], rounds: int) -> None:
    figures = [figure for count in sizes for figure in measure_size(count, rounds)]
    figures += [figure for count in sizes for figure in measure_expansion(count, rounds)]
    print_figures([*figures, *measure_whole_search(min(sizes[-1], WHOLE), rounds), measure_vector_memory(sizes[-1])])


if __name__ == "__main__":
    main([int(size) for size in sys.argv[2:]], int(sys.argv[1]))
