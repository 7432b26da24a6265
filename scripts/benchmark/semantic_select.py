"""Finding passages beside exact numpy (and faiss, where it is installed); prints figures as JSON.

Vectors are drawn around centres, as texts lie around their subjects.
"""

import gc
import importlib
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.semantic_figures import Figure, side_by_side, tell
from gateway.domain.search import Pick
from gateway.semantic.index.lexical import terms
from gateway.semantic.index.passage_index import PassageIndex
from gateway.semantic.index.passages import Passage
from gateway.semantic.index.relations import Relations
from gateway.semantic.index.vector_index import Index, build_index
from gateway.semantic.search.calibration import Calibration
from gateway.semantic.search.expansion import expand
from gateway.semantic.search.scoring import rank
from gateway.semantic.search.view import IndexView, IndexWords
from gateway.settings import ExpansionSettings

Floats = NDArray[np.float32]
WIDTH, BEST, PER_RESOURCE = 384, 10, 3
WHOLE = 10_000  # passages with texts: to read the words of more takes longer than they tell
TIMES, RECALL = 3, 0.99
PICKED = 5  # resources that an expansion begins with
SAMPLED = 50  # resources that tell what it takes to relate one


def clustered(count: int, seed: int) -> Floats:
    """Rows of length 1 around centres that are the same for every seed."""
    centres = np.random.default_rng(0).standard_normal((200, WIDTH)).astype(np.float32)
    noise = np.random.default_rng(seed)
    rows = centres[noise.integers(0, len(centres), count)]
    rows += 0.9 * noise.standard_normal((count, WIDTH)).astype(np.float32)
    scaled: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def exact(vectors: Floats, query: Floats, rows: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """The baseline: all cosines, then the ten largest in order."""
    scores = (vectors if rows is None else vectors[rows]) @ query
    found = np.argpartition(scores, -BEST)[-BEST:]
    found = found[np.argsort(-scores[found])]
    return found if rows is None else rows[found]


def in_turn(work: Callable[[Floats], Any], queries: Floats) -> Callable[[], Any]:
    """The same work for another query each time."""
    place = iter(range(1_000_000))
    return lambda: work(queries[next(place) % len(queries)])


def of_size(count: int, rounds: int) -> Iterator[Figure]:
    vectors, queries = clustered(count, 1), clustered(50, 2)
    half = vectors.astype(np.float16)
    index = build_index(half)
    for share in (1, 10, 100):
        rows = allowed(count, share)
        yield from searched(f"{count:,} passages, {share} % allowed", (index, vectors), queries, rows, rounds)
    every = np.arange(count)
    ours, plain = side_by_side(
        [
            in_turn(lambda query: index.scores_for(query[None], every), queries),
            in_turn(lambda query: vectors @ query, queries),
        ],
        rounds,
    )
    yield Figure(f"{count:,} passages, every score", ours, "ms", plain, "numpy", TIMES)
    yield from by_faiss(count, (index, vectors), queries, rounds)


def allowed(count: int, share: int) -> NDArray[np.intp] | None:
    """So many per cent of the rows, ascending; None for all."""
    return None if share == 100 else np.sort(np.random.default_rng(3).choice(count, count * share // 100, False))


def searched(
    name: str, data: tuple[Index, Floats], queries: Floats, rows: NDArray[np.intp] | None, rounds: int
) -> Iterator[Figure]:
    index, vectors = data
    works = [
        in_turn(lambda query: index.search(query[None], BEST, rows), queries),
        in_turn(lambda query: exact(vectors, query, rows), queries),
    ]
    ours, plain = side_by_side(works, rounds)
    yield Figure(f"{name}, ten best", ours, "ms", plain, "numpy", TIMES)
    hits = [len(set(index.search(q[None], BEST, rows)[1][0]) & set(exact(vectors, q, rows))) for q in queries]
    yield Figure(f"{name}, recall@10", sum(hits) / (BEST * len(queries)), "", target=RECALL, sign="≥")


def by_faiss(count: int, data: tuple[Index, Floats], queries: Floats, rounds: int) -> Iterator[Figure]:
    try:
        faiss = importlib.import_module("faiss")
    except ImportError:
        return
    index, vectors = data
    flat = faiss.IndexScalarQuantizer(WIDTH, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    flat.train(vectors)
    flat.add(vectors)
    for share in (1, 10, 100):
        rows = allowed(count, share)
        only = None if rows is None else faiss.SearchParameters(sel=faiss.IDSelectorBatch(rows))
        works = [
            in_turn(lambda query, rows=rows: index.search(query[None], BEST, rows), queries),
            in_turn(lambda query, only=only: flat.search(query[None], BEST, params=only), queries),
        ]
        ours, plain = side_by_side(works, rounds)
        yield Figure(f"{count:,} passages, {share} % allowed, ten best", ours, "ms", plain, "faiss fp16 exact", TIMES)


def related(count: int, rounds: int) -> Iterator[Figure]:
    """An expansion by relations beside one that compares, and what it takes to relate everything."""
    texts = [Passage(f"c/{number // PER_RESOURCE}", f"text {number}") for number in range(count)]
    view = seen(texts)
    everyone = np.arange(len(view.indexed.numbers))
    step = len(everyone) // PICKED
    picked = everyone[: step * PICKED : step]
    relations = Relations.none(view.indexed)
    began = time.process_time()
    for _ in relations._compared(np.union1d(picked, everyone[:SAMPLED]), everyone, fresh=True):
        pass
    seconds = (time.process_time() - began) / len(np.union1d(picked, everyone[:SAMPLED])) * len(everyone)
    picks, settings = (
        [Pick(view.resources[number], 0.9) for number in picked],
        ExpansionSettings(depth=1, threshold=0.5),
    )
    ours, plain = side_by_side(
        [lambda: expand(view, picks, settings, relations), lambda: expand(view, picks, settings)], max(3, rounds // 4)
    )
    if expand(view, picks, settings, relations) != expand(view, picks, settings):
        raise RuntimeError("An expansion by relations finds something else.")
    name = f"{count:,} passages, expansion of {PICKED} picks"
    yield Figure(name, ours, "ms", plain, "comparing", 1)
    yield Figure(f"{count:,} passages, relating all, of CPU", seconds, "s")


class Named:
    """All that an index wants of an embedder here."""

    id = "bench"


def whole(count: int, rounds: int) -> Iterator[Figure]:
    """What a search costs besides the vectors, and what a passage takes in memory besides its own."""
    tracemalloc.start()
    view = viewed(count)
    gc.collect()
    megabytes = tracemalloc.get_traced_memory()[0] / 2**20 - vector_mb(view.indexed.index)
    tracemalloc.stop()
    sentence, query = ["How do I change where the log is written?"], clustered(1, 2)
    evidence, calibration = view.evidence(sentence, query), Calibration.load()
    lexical, judged, all_of_it = side_by_side(
        [
            lambda: view.words.match(terms(sentence[0])),
            lambda: rank(evidence, calibration),
            lambda: rank(view.evidence(sentence, query), calibration),
        ],
        rounds,
    )
    yield Figure(f"{count:,} passages, words of a query", lexical, "ms")
    yield Figure(f"{count:,} passages, calibrated ranking", judged, "ms")
    yield Figure(f"{count:,} passages, all of a search but embedding", all_of_it, "ms")
    yield Figure(f"memory of 100,000 passages, texts and words (from {count:,})", megabytes * 100_000 / count, "MB")


def viewed(count: int) -> IndexView:
    """An index of passages of 70 words each, three to a resource, all of it visible."""
    words = Path(__file__).resolve().parents[2].joinpath("docs", "OPERATIONS.md").read_text().split()
    draw = random.Random(1)
    return seen(
        [Passage(f"c/{number // PER_RESOURCE}", " ".join(draw.choices(words, k=70))) for number in range(count)]
    )


def seen(passages: list[Passage]) -> IndexView:
    """An index of passages, all of it visible."""
    rows = clustered(len(passages), 1).astype(np.float16)
    vectors = {passage.key(Named.id): row for passage, row in zip(passages, rows, strict=True)}
    indexed = PassageIndex.build(1, Named(), passages, vectors)  # type: ignore[arg-type]
    return IndexView.build(indexed, list(indexed.numbers), IndexWords.of(indexed))


def vector_mb(index: Index) -> float:
    arrays = [getattr(index, name) for name in index.__dataclass_fields__]  # type: ignore[attr-defined]
    return float(sum(array.nbytes for array in arrays) / 2**20)


def stored(count: int) -> Figure:
    index = build_index(clustered(count, 1).astype(np.float16))
    return Figure(f"memory of 100,000 passages, vectors (from {count:,})", vector_mb(index) * 100_000 / count, "MB")


def main(sizes: list[int], rounds: int) -> None:
    figures = [figure for count in sizes for figure in of_size(count, rounds)]
    figures += [figure for count in sizes for figure in related(count, rounds)]
    tell([*figures, *whole(min(sizes[-1], WHOLE), rounds), stored(sizes[-1])])


if __name__ == "__main__":
    main([int(size) for size in sys.argv[2:]], int(sys.argv[1]))
