"""What vectors of nodes cost: memory, CPU in the background, and CPU of a search beside one by words alone.

Vectors are drawn around common directions, as those of texts are, so that nothing has to be embedded.
Run: .venv/bin/python -m scripts.node_search_eval.cost [nodes …]
"""

import random
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from statistics import median

import numpy as np
from msgspec.structs import replace

from gateway.domain.search import NodeQuery
from gateway.domain.snapshot import EMPTY_SNAPSHOT
from gateway.semantic.index.document_vectors import DocumentVectors, StoredVector
from gateway.semantic.index.node_index import MeantQuestion, NodeIndex
from gateway.semantic.index.vector_index import Floats
from scripts.benchmark.context_build import make_content, read_vocabulary

WIDTH = 384
PASSAGES = 2  # of a page of a hundred words
DIRECTIONS = 2_000
ROUNDS, WARM_UP = 60, 5
NOBODY: frozenset[str] = frozenset()


def draw_vectors(count: int, seed: int) -> Floats:
    centres = np.random.default_rng(0).standard_normal((DIRECTIONS, WIDTH))
    draw = np.random.default_rng(seed)
    vectors = centres[draw.integers(0, DIRECTIONS, count)] + 1.2 * draw.standard_normal((count, WIDTH))
    scaled: Floats = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return scaled


def build(count: int, vocabulary: list[str]) -> tuple[NodeIndex, DocumentVectors, float]:
    """An index of so many nodes with vectors, and the seconds that adding vectors took."""
    tree, contents = make_content(count, vocabulary, random.Random(1))
    index = NodeIndex()
    snapshot = replace(EMPTY_SNAPSHOT, tree=tree, contents=contents)
    for start in range(0, len(nodes := index.follow(snapshot, ()).nodes), 1000):
        index.add(nodes[start : start + 1000], contents)
    index.tree = tree
    vectors, ids, spent = DocumentVectors.build(WIDTH, index.numbers), list(contents), 0.0
    for start in range(0, len(ids), 250):
        some = [id for id in ids[start : start + 250] for _ in range(PASSAGES)]
        drawn = draw_vectors(len(some), start).astype(np.float16)
        began = time.process_time()
        vectors = vectors.add([StoredVector(id, bytes(32), row) for id, row in zip(some, drawn, strict=True)])
        spent += time.process_time() - began
    return index, vectors, spent


@cache
def make_questions() -> list[tuple[str, Floats]]:
    """Words, and the vector of a question."""
    vocabulary, draw = read_vocabulary(), random.Random(2)
    return [(" ".join(draw.choices(vocabulary, k=8)), draw_vectors(1, one)) for one in range(ROUNDS + WARM_UP)]


def clock(work: Callable[[int], object]) -> tuple[float, float]:
    """Median and 95th percentile of the CPU time of one round, in milliseconds."""
    taken = []
    for number in range(ROUNDS + WARM_UP):
        began = time.process_time()
        work(number)
        taken.append((time.process_time() - began) * 1000)
    taken = sorted(taken[WARM_UP:])
    return median(taken), taken[int(0.95 * len(taken))]


def search(index: NodeIndex, vectors: DocumentVectors, sentences: int, number: int) -> None:
    """One question; by as many of its sentences' vectors."""
    words, queries = make_questions()[number]
    meant = MeantQuestion(queries[:sentences], vectors) if sentences else None
    index.search(NOBODY, NodeQuery((words,)), 16, meant)


def main() -> None:
    vocabulary = read_vocabulary()
    sys.stdout.write("nodes   vectors MB  adding s  words p50/p95 ms  and meaning\n")
    for count in [int(one) for one in sys.argv[1:]] or [1_000, 10_000, 100_000]:
        index, vectors, spent = build(count, vocabulary)
        shown = [clock(partial(search, index, vectors, many)) for many in range(2)]
        cells = "  ".join(f"{half:6.2f} / {most:6.2f}" for half, most in shown)
        sys.stdout.write(f"{count:<8}{vectors.nbytes / 1e6:>8.1f}{spent:>10.2f}    {cells}\n")


if __name__ == "__main__":
    main()
