"""Embedding off the loop: what is served first, what is shed, and what a broken model comes to."""

import asyncio
import hashlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.fair_queue import FairQueue
from gateway.queue_bounds import CORE_BOUNDS
from gateway.semantic.model.embedder import EmbedderUnavailable, SearchTimeout
from gateway.semantic.model.files import MODEL, TOKENIZER, ModelFiles
from gateway.semantic.model.onnx_embedder import MAX_WAITING, PIECE_CHARACTERS, OnnxEmbedder, group_texts
from gateway.semantic.model.onnx_model import normalise_vectors
from tests.support.search_harness import wait_until

FILES = ModelFiles(Path(MODEL), Path(TOKENIZER), {MODEL: "m" * 64, TOKENIZER: "t" * 64})


class Gate:
    """A model whose runs wait until the test lets them pass, and that notes their order."""

    def __init__(self, *, open_: bool = True) -> None:
        self.passed = threading.Event()
        self.started: list[str] = []
        if open_:
            self.passed.set()

    def normalise(self, text: str) -> str:
        return text

    def embed_text(self, text: str) -> NDArray[np.float32]:
        self.started.append(text)
        self.passed.wait(5)
        seed = hashlib.sha256(text.encode()).digest()
        return normalise_vectors(np.frombuffer(seed, np.uint8).astype(np.float32))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def make() -> AsyncIterator[Callable[..., OnnxEmbedder]]:
    made: list[OnnxEmbedder] = []

    def embedder(model: Gate) -> OnnxEmbedder:
        made.append(OnnxEmbedder(FILES, load=lambda _: model))
        return made[-1]

    yield embedder
    for one in made:
        await one.close()


async def test_every_text_gets_a_row_of_length_one(make: Callable[..., OnnxEmbedder]) -> None:
    vectors = await make(Gate()).embed(["one", "two", "three"], within=5)
    assert vectors.shape == (3, 32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert not np.allclose(vectors[0], vectors[1])


async def test_the_id_names_the_model_file_and_changes_with_everything_else(make: Callable[..., OnnxEmbedder]) -> None:
    other = ModelFiles(FILES.model, FILES.tokenizer, {MODEL: "m" * 64, TOKENIZER: "u" * 64})
    longer = ModelFiles(FILES.model, FILES.tokenizer, FILES.sha256, max_tokens=512)
    assert make(Gate()).id.startswith("m" * 64)
    assert len({FILES.id, other.id, longer.id}) == 3


async def test_a_late_query_is_shed_and_what_it_had_queued_is_never_run(make: Callable[..., OnnxEmbedder]) -> None:
    gate = Gate(open_=False)
    embedder = make(gate)
    with pytest.raises(SearchTimeout):
        await embedder.embed([letter * PIECE_CHARACTERS for letter in "abcd"], within=0.05)
    gate.passed.set()
    assert (await embedder.embed(["e"], within=5)).shape == (1, 32)
    assert [text[0] for text in gate.started] == ["a", "b", "e"]


async def test_short_texts_of_a_question_are_embedded_in_two_pieces_of_work(make: Callable[..., OnnxEmbedder]) -> None:
    cores = FairQueue(CORE_BOUNDS)
    embedder = make(Gate())
    embedder.share_cores(cores)
    taken: list[str] = []
    acquire = cores.acquire

    async def note(workspace: str) -> None:
        taken.append(workspace)
        await acquire(workspace)

    cores.acquire = note  # type: ignore[method-assign]
    texts = ["My name is Anna. How do I return this?", "My name is Anna.", "How do I return this?"]
    rows = await embedder.embed(texts, within=5, workspace="a")
    assert [name for name in taken if name == "a"] == ["a", "a"]
    assert np.array_equal(rows, np.concatenate([await embedder.embed([text], within=5) for text in texts]))


@pytest.mark.parametrize(
    ("lengths", "groups"),
    [
        ([10], [[10]]),
        ([10, 10], [[10], [10]]),  # two threads are faster than one
        ([80, 25, 55], [[80, 25], [55]]),
        ([500, 20, 20, 500], [[500], [20, 20], [500]]),
        ([0] * 12, [[0] * 5, [0] * 5, [0] * 2]),  # a piece of work is short, however short its texts are
        ([], []),
    ],
)
def test_only_short_texts_share_a_piece_of_work(lengths: list[int], groups: list[list[int]]) -> None:
    grouped = group_texts(["x" * length for length in lengths])
    assert [[len(text) for text in group] for group in grouped] == groups


async def test_a_workspace_that_fills_its_queue_neither_sheds_nor_delays_another(
    make: Callable[..., OnnxEmbedder],
) -> None:
    gate = Gate(open_=False)
    embedder = make(gate)
    flood = asyncio.create_task(embedder.embed(["x"] * MAX_WAITING, within=5, workspace="a"))
    await wait_until(lambda: len(gate.started) == 2)
    other = asyncio.create_task(embedder.embed(["y"], within=5, workspace="b"))
    await wait_until(lambda: gate.started == ["x", "x", "y"])
    gate.passed.set()
    assert (await other).shape == (1, 32)
    await flood


async def test_queries_beyond_the_bound_are_shed_at_once(make: Callable[..., OnnxEmbedder]) -> None:
    gate = Gate(open_=False)
    embedder = make(gate)
    first = asyncio.create_task(embedder.embed(["x"] * MAX_WAITING, within=5))
    await wait_until(lambda: len(gate.started) == 2)
    with pytest.raises(SearchTimeout, match=f"{MAX_WAITING} texts"):
        await embedder.embed(["one too many"], within=60)
    gate.passed.set()
    await first
    assert (await embedder.embed(["room again"], within=5)).shape == (1, 32)


async def test_a_single_long_question_is_not_shed_for_its_length(make: Callable[..., OnnxEmbedder]) -> None:
    assert len(await make(Gate()).embed(["x"] * (MAX_WAITING + 1), within=5)) == MAX_WAITING + 1


async def test_queries_go_before_background_work(make: Callable[..., OnnxEmbedder]) -> None:
    gate = Gate(open_=False)
    embedder = make(gate)
    background = asyncio.create_task(embedder.embed([f"passage {n}" for n in range(5)]))
    await wait_until(lambda: gate.started == ["passage 0"])
    queries = asyncio.create_task(embedder.embed(["q1", "q2", "q3"], within=5))
    await wait_until(lambda: "q1" in gate.started)
    gate.passed.set()
    assert (len(await queries), len(await background)) == (3, 5)
    assert sorted(gate.started[:4]) == ["passage 0", "q1", "q2", "q3"]


async def test_background_work_leaves_a_thread_to_the_queries(make: Callable[..., OnnxEmbedder]) -> None:
    gate = Gate(open_=False)
    embedder = make(gate)
    background = asyncio.create_task(embedder.embed(["p1", "p2", "p3"]))
    await wait_until(lambda: bool(gate.started))
    await asyncio.sleep(0.02)
    assert gate.started == ["p1"]
    gate.passed.set()
    await background


async def test_loading_goes_on_when_the_query_that_caused_it_is_late() -> None:
    loads, passed = [], threading.Event()

    def load(_: ModelFiles) -> Gate:
        loads.append(1)
        passed.wait(5)
        return Gate()

    embedder = OnnxEmbedder(FILES, load=load)
    with pytest.raises(SearchTimeout):
        await embedder.embed(["early"], within=0.02)
    passed.set()
    assert len(await embedder.embed(["later"], within=5)) == 1
    assert loads == [1]
    await embedder.close()


async def test_a_model_that_cannot_be_loaded_is_logged_once_and_tried_again_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loads, clock = [], Clock()

    def load(_: ModelFiles) -> Gate:
        loads.append(1)
        if len(loads) == 1:
            raise Exception("bare, as the tokenizers library raises it")
        return Gate()

    embedder = OnnxEmbedder(FILES, load=load, clock=clock, retry_seconds=30)
    for _ in range(3):
        with pytest.raises(EmbedderUnavailable, match="bare"):
            await embedder.embed(["x"], within=5)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    clock.now += 29
    with pytest.raises(EmbedderUnavailable, match="bare"):
        await embedder.embed(["x"], within=5)
    clock.now += 1
    assert len(await embedder.embed(["x"], within=5)) == 1
    assert len(loads) == 2
    await embedder.close()


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 0.0])
def test_what_has_no_direction_is_not_a_vector(garbage: float) -> None:
    with pytest.raises(EmbedderUnavailable):
        normalise_vectors(np.full((2, 4), garbage, np.float32))


async def test_a_model_that_fails_while_running_is_unavailable(make: Callable[..., OnnxEmbedder]) -> None:
    class Broken(Gate):
        def normalise(self, text: str) -> str:
            return text

        def embed_text(self, text: str) -> NDArray[np.float32]:
            raise RuntimeError("invalid input")

    with pytest.raises(EmbedderUnavailable, match="invalid input"):
        await make(Broken()).embed(["x"], within=5)
    with pytest.raises(EmbedderUnavailable, match="invalid input"):
        await make(Broken()).embed(["x"])
