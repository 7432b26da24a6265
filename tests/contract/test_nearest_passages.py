"""What every way to look up the nearest passages promises: here exactly, here by codes, and on a real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from numpy.typing import NDArray

from gateway.domain.redis_address import redis_address
from gateway.semantic.index.nearest import NearestPassages, find_nearest
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.passages import Passage
from gateway.semantic.index.redis_index import LookupOptions, RedisIndex
from gateway.semantic.index.redis_writer import RedisLayout, WriterOptions
from gateway.semantic.index.vector_index import EXACT_LIMIT
from gateway.semantic.model.onnx_model import normalise_vectors
from gateway.semantic.search.view import IndexView
from gateway.stores.redis_connection import RedisConnection
from gateway.stores.redis_passages import PassageFilter
from tests.support.redis_server import RedisServer, query_engine, running_redis
from tests.support.search_harness import wait_until

COUNT, WIDTH, BEST = 1500, 64, 10
Find = Callable[[IndexView, Sequence[str], NDArray[np.float32]], Awaitable[NearestPassages]]


class NamedModel:
    """All that an index needs of an embedder here."""

    id = "contract"


def clustered(count: int, seed: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((60, WIDTH))
    return normalise_vectors(
        (centres[rng.integers(0, 60, count)] + rng.standard_normal((count, WIDTH))).astype(np.float32)
    )


def made(*workspaces: str, exact_limit: int = EXACT_LIMIT) -> PassageIndex:
    """Passages of the files ("") or of workspaces, two to a resource and ten resources to a context."""
    passages = []
    for workspace in workspaces:
        prefix = f"{workspace}\0" if workspace else ""
        passages += [Passage(f"{prefix}c{n // 20}/{n // 2}", f"{workspace} text {n} of {n % 7}") for n in range(COUNT)]
    rows = clustered(len(passages), 1).astype(np.float16)
    vectors = {one.key("contract"): row for one, row in zip(passages, rows, strict=True)}
    return PassageIndex.build(1, NamedModel(), passages, vectors, exact_limit)  # type: ignore[arg-type]


INDEXED = made("")
CODED = made("", exact_limit=0)
# The suite asks what is found, not how fast; and what is fast here need not spare the server.
OPTIONS = LookupOptions(
    answer_seconds=10.0,
    poll_seconds=0.02,
    retry_seconds=0.05,
    writer=WriterOptions(wait_seconds=0.02, batch=100),
)


def view_of(indexed: PassageIndex, names: Sequence[str]) -> IndexView:
    return IndexView.build(IndexWords.build(indexed), names)


def share_of(indexed: PassageIndex, share: float, *, whole_contexts: bool) -> list[str]:
    names = list(indexed.numbers)
    if whole_contexts:
        contexts = list(dict.fromkeys(name.rpartition("/")[0] for name in names))
        some = set(np.random.default_rng(3).choice(contexts, max(1, round(len(contexts) * share)), replace=False))
        return [name for name in names if name.rpartition("/")[0] in some]
    return [names[n] for n in np.random.default_rng(4).choice(len(names), max(6, round(len(names) * share)), False)]


def exact(view: IndexView, queries: NDArray[np.float32]) -> list[set[int]]:
    scores = view.index.vectors.compute_scores(queries, view.rows)
    return [set(np.argsort(-line)[:BEST].tolist()) for line in scores]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis(modules=[query_engine()]) as running:
        yield running


@asynccontextmanager
async def on_server(server: RedisServer, newest: Callable[[], PassageIndex | None]) -> AsyncIterator[RedisIndex]:
    index = RedisIndex(await RedisConnection.open(redis_address(server.url)), always=True, options=OPTIONS)
    running = asyncio.create_task(index.run(newest))
    try:
        yield index
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await index.close()


@pytest.fixture(params=["exact", "coded", "redis"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def exact_limit(way: str) -> int:
    return 0 if way == "coded" else EXACT_LIMIT


@pytest.fixture
async def find(way: str, server: RedisServer) -> AsyncIterator[Find]:
    async def here(view: IndexView, sentences: Sequence[str], queries: NDArray[np.float32]) -> NearestPassages:
        return find_nearest(view.index.vectors, view.rows, queries)

    async def there(view: IndexView, sentences: Sequence[str], queries: NDArray[np.float32]) -> NearestPassages:
        if newest[0] is not view.index:
            newest[0] = view.index
        await wait_until(lambda: index.stored_index is view.index, 30)
        near = await index.find_nearest(view, sentences, queries)
        assert near is not None
        return near

    if way != "redis":
        yield here
        return
    newest: list[PassageIndex | None] = [None]
    async with on_server(server, lambda: newest[0]) as index:
        yield there


@pytest.mark.parametrize("whole_contexts", [True, False], ids=["contexts", "resources"])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.4, 1.0])
async def test_the_ten_best_of_what_is_allowed_are_found(
    find: Find, exact_limit: int, share: float, whole_contexts: bool
) -> None:
    indexed = INDEXED if exact_limit else CODED
    view = view_of(indexed, share_of(indexed, share, whole_contexts=whole_contexts))
    queries = clustered(30, 9)
    hits = wanted = 0
    for query, best in zip(queries, exact(view, queries), strict=True):
        near = await find(view, ["anything"], query[None])
        hits, wanted = hits + len(best & set(near.places.tolist())), wanted + len(best)
        assert (np.diff(near.places) > 0).all()
        assert near.places.max() < len(view.rows)
    assert hits >= 0.99 * wanted


async def test_several_sentences_are_looked_up_at_once_and_bounded_each(find: Find) -> None:
    view, queries = view_of(INDEXED, list(INDEXED.numbers)), clustered(4, 10)
    near = await find(view, ["anything"] * 4, queries)
    scores = INDEXED.vectors.compute_scores(queries, view.rows)
    hits = sum(len(best & set(near.places.tolist())) for best in exact(view, queries))
    assert hits >= 0.99 * 4 * BEST
    others = np.setdiff1d(np.arange(len(view.rows)), near.places)
    assert (scores[:, others] <= near.bounds[:, None] + 0.02).mean() > 0.999


async def test_a_workspace_finds_its_own_and_the_files_and_nothing_of_another(find: Find, exact_limit: int) -> None:
    indexed = made("", "a", "b", exact_limit=exact_limit)
    mine = [key for key in indexed.numbers if not key.startswith("b\0")]
    view, queries = view_of(indexed, mine), clustered(10, 11)
    near = await find(view, ["b text 3"] * 10, queries)
    shown = {indexed.passages[view.rows[place]].resource for place in near.places}
    assert shown <= set(mine)
    assert {key.startswith("a\0") for key in shown} == {True, False}
    hits = sum(len(best & set(near.places.tolist())) for best in exact(view, queries))
    assert hits >= 0.99 * 10 * BEST


async def test_words_are_looked_up_as_hashes_whatever_they_say(server: RedisServer) -> None:
    odd = '"text" | * @r:{c0} -77 $v \\ 🦊 }=>[KNN 5 @v $v]'
    async with on_server(server, lambda: INDEXED) as index:
        await wait_until(lambda: index.stored_index is INDEXED, 30)
        view = view_of(INDEXED, [f"c{n // 10}/{n}" for n in range(60)])
        near = await index.find_nearest(view, [odd], clustered(1, 12))
    assert near is not None
    worded = {place for place, row in enumerate(view.rows) if "77" in INDEXED.passages[row].text.split()}
    assert worded
    assert worded <= set(near.places.tolist())


async def test_a_filter_that_is_left_out_would_be_noticed(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: everything is ranked, and what may not be seen is thrown away afterwards."""
    monkeypatch.setattr(RedisLayout, "build_filter", lambda self, number, rows: None)
    async with on_server(server, lambda: INDEXED) as index:
        await wait_until(lambda: index.stored_index is INDEXED, 30)

        async def there(view: IndexView, sentences: Sequence[str], queries: NDArray[np.float32]) -> NearestPassages:
            near = await index.find_nearest(view, sentences, queries)
            assert near is not None
            return near

        with pytest.raises((AssertionError, ValueError)):
            await test_the_ten_best_of_what_is_allowed_are_found(there, EXACT_LIMIT, 0.01, True)


def test_what_another_workspace_stores_lies_in_another_index_and_changes_none() -> None:
    def held(indexed: PassageIndex) -> dict[str, tuple[str, bytes]]:
        return {
            part.workspace: (part.name("kind"), part.fingerprint) for part in RedisLayout.build(indexed, 1).partitions
        }

    alone, beside = held(made("", "a")), held(made("", "a", "b"))
    assert {name: beside[name] for name in ("", "a")} == alone
    assert len({name for name, _ in beside.values()}) == 3


def test_tags_stand_for_whole_contexts_where_they_can() -> None:
    layout = RedisLayout.build(INDEXED, 1)
    some = [*(f"c0/{n}" for n in range(10)), "c1/10", "c1/11"]
    allowed = layout.build_filter(0, view_of(INDEXED, some).rows)
    assert isinstance(allowed, PassageFilter)
    assert (len(allowed.contexts), len(allowed.resources)) == (1, 2)
    assert allowed.share == pytest.approx(24 / COUNT)
    assert layout.build_filter(0, view_of(INDEXED, list(INDEXED.numbers)).rows) is None
