"""The cache of question vectors: what counts as the same, who shares it, and how large it grows."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.domain.memory_budget import MemoryBudget
from gateway.semantic.model.embedder import SearchTimeout
from gateway.semantic.search.query_cache import QueryCache


class Counting:
    """An embedder that notes what it was asked."""

    def __init__(self, name: str = "model") -> None:
        self.id = name
        self.asked: list[list[str]] = []
        self.normalised: list[str] = []
        self.late = False

    def normalise(self, text: str) -> str:
        self.normalised.append(text)
        return text.lower()

    async def embed(
        self, texts: Sequence[str], within: float | None = None, workspace: str = ""
    ) -> NDArray[np.float32]:
        if self.late:
            raise SearchTimeout("late")
        self.asked.append(list(texts))
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)

    async def close(self) -> None:
        return


async def test_a_sentence_is_embedded_once_however_it_is_spaced() -> None:
    cache, embedder = QueryCache(), Counting()
    first = await cache.embed(embedder, "w", ["How  are\nyou?", "Fine."], 1)
    again = await cache.embed(embedder, "w", [" Fine. ", "How are you?"], 1)
    assert np.array_equal(first, again[::-1])
    assert embedder.asked == [["How are you?", "Fine."]]
    assert (cache.lookups.hits, cache.lookups.misses) == (2, 2)


async def test_a_sentence_said_twice_is_embedded_once() -> None:
    cache, embedder = QueryCache(), Counting()
    assert len(await cache.embed(embedder, "w", ["a", "b", "a"], 1)) == 3
    assert embedder.asked == [["a", "b"]]


async def test_a_sentence_is_normalised_once_on_the_event_loop() -> None:
    cache, embedder = QueryCache(), Counting()
    await cache.embed(embedder, "w", ["How are you?", "Fine."], 1)
    assert embedder.normalised == ["How are you?", "Fine."]


async def test_of_sentences_that_the_model_cannot_tell_apart_the_first_is_embedded() -> None:
    cache, embedder = QueryCache(), Counting()
    await cache.embed(embedder, "w", ["Fine.", "FINE."], 1)
    assert embedder.asked == [["Fine."]]


async def test_only_what_is_new_is_asked_for() -> None:
    cache, embedder = QueryCache(), Counting()
    await cache.embed(embedder, "w", ["old"], 1)
    rows = await cache.embed(embedder, "w", ["new", "old"], 1)
    assert rows.tolist() == [[3, ord("n")], [3, ord("o")]]
    assert embedder.asked == [["old"], ["new"]]


async def test_workspaces_and_models_share_nothing() -> None:
    cache, embedder, other = QueryCache(), Counting(), Counting("other")
    await cache.embed(embedder, "w", ["a"], 1)
    await cache.embed(embedder, "v", ["a"], 1)
    await cache.embed(other, "w", ["a"], 1)
    assert (len(embedder.asked), len(other.asked), cache.lookups.hits) == (2, 1, 0)


async def test_the_least_recently_used_is_forgotten() -> None:
    cache, embedder = QueryCache(MemoryBudget(2_000)), Counting()
    for sentence in ("a", "b", "a", "c", "a", "b", "d", "a", "c"):
        await cache.embed(embedder, "w", [sentence], 1)
    assert embedder.asked == [["a"], ["b"], ["c"], ["d"], ["c"]]


async def test_what_the_embedder_cannot_tell_apart_is_embedded_once() -> None:
    cache, embedder = QueryCache(), Counting()
    await cache.embed(embedder, "w", ["How are you?"], 1)
    assert len(await cache.embed(embedder, "w", ["how ARE you?", "HOW are you?"], 1)) == 2
    assert embedder.asked == [["How are you?"]]


async def test_a_flood_of_one_workspace_leaves_the_vectors_of_others() -> None:
    cache, embedder = QueryCache(MemoryBudget(20_000)), Counting()
    await cache.embed(embedder, "honest", ["mine"], 1)
    for number in range(200):
        await cache.embed(embedder, "hostile", [f"{number} " + "x" * 5_000], 1)
    embedder.asked.clear()
    await cache.embed(embedder, "honest", ["mine"], 1)
    assert embedder.asked == []


async def test_lateness_is_passed_on_and_not_kept() -> None:
    cache, embedder = QueryCache(), Counting()
    embedder.late = True
    with pytest.raises(SearchTimeout):
        await cache.embed(embedder, "w", ["a"], 1)
    embedder.late = False
    assert len(await cache.embed(embedder, "w", ["a"], 1)) == 1


class Slow(Counting):
    """An embedder that waits until it may answer."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def embed(
        self, texts: Sequence[str], within: float | None = None, workspace: str = ""
    ) -> NDArray[np.float32]:
        self.asked.append(list(texts))
        await self.gate.wait()
        return np.array([[len(text), ord(text[0])] for text in texts], np.float32)


async def test_a_sentence_that_is_being_embedded_is_waited_for() -> None:
    cache, embedder = QueryCache(), Slow()
    resources = asyncio.create_task(cache.embed(embedder, "w", ["whole", "part"], 5))
    await asyncio.sleep(0)
    nodes = asyncio.create_task(cache.embed(embedder, "w", ["whole"], 5))
    await asyncio.sleep(0)
    embedder.gate.set()
    assert np.array_equal((await resources)[:1], await nodes)
    assert embedder.asked == [["whole", "part"]]


async def test_whoever_waits_embeds_itself_when_the_other_gives_up() -> None:
    cache, embedder = QueryCache(), Slow()
    first = asyncio.create_task(cache.embed(embedder, "w", ["whole"], 5))
    await asyncio.sleep(0)
    second = asyncio.create_task(cache.embed(embedder, "w", ["whole"], 5))
    await asyncio.sleep(0)
    first.cancel()
    embedder.gate.set()
    assert (await second).tolist() == [[5, ord("w")]]
    assert embedder.asked == [["whole"], ["whole"]]
