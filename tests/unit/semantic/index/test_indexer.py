"""The indexer: what it embeds, what it does not embed again, and what serves meanwhile."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from gateway.domain.resource import Mode, Resource, ResourceKind
from gateway.errors import StoreError
from gateway.semantic.index.indexer import CHUNK, DEFAULT_INDEXER_OPTIONS, Indexer, IndexerOptions, take_turns
from gateway.semantic.model.embedder import EmbedderUnavailable
from gateway.semantic.model.onnx_model import normalise_vectors
from gateway.stores.memory_vectors import MemoryVectorStore
from gateway.stores.protocols import UNUSED_SECONDS
from tests.support.search_harness import wait_until


class Hashing:
    """An embedder whose vectors are hashes; `gate` holds it up, `broken` fails it."""

    def __init__(self, name: str = "model") -> None:
        self.id = name
        self.texts: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False

    def normalise(self, text: str) -> str:
        return text

    async def embed(
        self, texts: Sequence[str], within: float | None = None, workspace: str = ""
    ) -> NDArray[np.float32]:
        self.texts += texts
        await self.gate.wait()
        if self.broken:
            raise EmbedderUnavailable("broken")
        return np.stack([vector(self.id, text) for text in texts])

    async def close(self) -> None:
        return


class Failing(MemoryVectorStore):
    async def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        raise StoreError("disk")

    async def put_many(self, vectors: Mapping[bytes, bytes]) -> None:
        raise StoreError("disk")


def vector(model: str, text: str) -> NDArray[np.float32]:
    seed = int.from_bytes(hashlib.sha256(f"{model} {text}".encode()).digest()[:8])
    return normalise_vectors(np.random.default_rng(seed).standard_normal(64).astype(np.float32))


def resource(name: str, text: str = "body") -> Resource:
    facts: dict[str, Any] = {
        "languages": (),
        "conflict_key": None,
        "priority": 100,
        "required": False,
        "mandatory": False,
    }
    more: dict[str, Any] = {"readers": (), "examples": (), "truncate": "extractive", "data": None, "description": ""}
    return Resource(
        id=f"c/{name}", context="c", type="text", name=name, mode=Mode.SEMANTIC, kind=ResourceKind.REFERENCE, text=text,
        **facts, **more,
    )  # fmt: skip


Start = Callable[..., Indexer]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    tasks: list[asyncio.Task[None]] = []

    def started(store: MemoryVectorStore, options: IndexerOptions = DEFAULT_INDEXER_OPTIONS) -> Indexer:
        indexer = Indexer(store, options)
        tasks.append(asyncio.create_task(indexer.run()))
        return indexer

    yield started
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def settle(indexer: Indexer) -> None:
    async with asyncio.timeout(5):
        await indexer.wait_until_indexed()


def best(indexer: Indexer, text: str, resources: Sequence[str]) -> list[str]:
    current = indexer.current
    assert current is not None
    query = vector(current.embedder.id, text)[None]
    _, rows = current.vectors.search(query, 3, current.find_rows(resources))
    return [current.passages[row].resource for row in rows[0]]


async def test_what_is_submitted_can_be_found_among_what_is_allowed(start: Start) -> None:
    indexer = start(MemoryVectorStore())
    indexer.submit(7, Hashing(), [resource("a"), resource("b"), resource("c")])
    await settle(indexer)
    assert indexer.current is not None
    assert indexer.current.generation == 7
    assert best(indexer, "b\n\nbody", ["c/a", "c/b", "c/c"])[0] == "c/b"
    assert sorted(best(indexer, "b\n\nbody", ["c/a", "c/c", "c/unknown"])) == ["c/a", "c/c"]
    assert best(indexer, "b\n\nbody", []) == []


async def test_a_restart_embeds_nothing_and_finds_the_same(start: Start) -> None:
    store, many = MemoryVectorStore(), [resource(f"r{n}") for n in range(50)]
    first = start(store)
    first.submit(1, Hashing(), many)
    await settle(first)
    embedder, second = Hashing(), start(store)
    second.submit(1, embedder, many)
    await settle(second)
    assert (embedder.texts, second.embedded, first.embedded) == ([], 0, 50)
    assert first.current is not None
    assert second.current is not None
    rows = np.arange(50)
    assert np.array_equal(first.current.vectors.get_vectors(rows), second.current.vectors.get_vectors(rows))


@pytest.mark.parametrize("store", [MemoryVectorStore(), Failing()], ids=["stored", "store down"])
async def test_an_edit_embeds_only_the_changed_passages(start: Start, store: MemoryVectorStore) -> None:
    body = "\n\n".join(letter * 400 for letter in "xyz")
    embedder, indexer = Hashing(), start(store)
    indexer.submit(1, embedder, [resource("a"), resource("long", body)])
    await settle(indexer)
    embedder.texts.clear()
    indexer.submit(2, embedder, [resource("long", body.replace("y" * 400, "q" * 400)), resource("a")])
    await settle(indexer)
    assert embedder.texts == ["q" * 400]
    assert (indexer.progress.total, indexer.progress.missing, indexer.progress.embedded) == (4, 1, 1)


async def test_equal_passages_are_embedded_once(start: Start) -> None:
    embedder, indexer = Hashing(), start(MemoryVectorStore())
    indexer.submit(1, embedder, [resource("a"), replace(resource("a"), id="d/a")])
    await settle(indexer)
    assert embedder.texts == ["a\n\nbody"]
    assert sorted(best(indexer, "a\n\nbody", ["c/a", "d/a"])) == ["c/a", "d/a"]


async def test_the_former_index_serves_until_a_new_model_is_through(start: Start) -> None:
    indexer, new = start(MemoryVectorStore()), Hashing("new")
    indexer.submit(1, Hashing("old"), [resource("a")])
    await settle(indexer)
    new.gate.clear()
    indexer.submit(2, new, [resource("a"), *(resource(f"r{n}") for n in range(3 * CHUNK))])
    await wait_until(lambda: bool(new.texts))
    assert indexer.current is not None
    assert indexer.current.embedder.id == "old"
    assert best(indexer, "a\n\nbody", ["c/a"]) == ["c/a"]
    new.gate.set()
    await settle(indexer)
    assert indexer.current.embedder.id == "new"
    assert len(new.texts) == 1 + 3 * CHUNK


async def test_what_is_ready_is_served_while_the_rest_is_made(start: Start) -> None:
    store, embedder = MemoryVectorStore(), Hashing()
    first = start(store)
    first.submit(1, embedder, [resource("a")])
    await settle(first)
    second = start(store)
    embedder.gate.clear()
    second.submit(2, embedder, [resource("a"), resource("b")])
    await wait_until(lambda: second.current is not None)
    assert second.current is not None
    assert second.current.missing == {"c/b"}
    assert best(second, "b\n\nbody", ["c/a", "c/b"]) == ["c/a"]
    assert not second.progress.done
    embedder.gate.set()
    await settle(second)
    assert second.current.missing == frozenset()
    assert second.progress.done


async def test_half_a_new_index_never_takes_away_what_can_be_found(start: Start) -> None:
    embedder, indexer = Hashing(), start(MemoryVectorStore())
    indexer.submit(1, embedder, [resource("a"), resource("b")])
    await settle(indexer)
    embedder.gate.clear()
    indexer.submit(2, embedder, [resource("a"), resource("b", "edited")])
    await wait_until(lambda: "b\n\nedited" in embedder.texts)
    assert len(best(indexer, "b\n\nbody", ["c/a", "c/b"])) == 2
    embedder.gate.set()
    await settle(indexer)


async def test_what_is_asked_for_is_embedded_first(start: Start) -> None:
    embedder, indexer = Hashing(), start(MemoryVectorStore())
    embedder.gate.clear()
    indexer.submit(1, embedder, [resource(f"r{n}") for n in range(4 * CHUNK)])
    await wait_until(lambda: len(embedder.texts) == CHUNK)
    indexer.prefer({f"c/r{4 * CHUNK - 1}"})
    embedder.gate.set()
    await settle(indexer)
    assert embedder.texts[CHUNK] == f"r{4 * CHUNK - 1}\n\nbody"
    assert len(embedder.texts) == 4 * CHUNK


async def test_a_newer_submission_stops_the_older_build(start: Start) -> None:
    embedder, indexer = Hashing(), start(MemoryVectorStore())
    embedder.gate.clear()
    indexer.submit(1, embedder, [resource(f"old{n}") for n in range(4 * CHUNK)])
    await wait_until(lambda: bool(embedder.texts))
    indexer.submit(2, embedder, [resource("new")])
    embedder.gate.set()
    await settle(indexer)
    assert len(embedder.texts) == CHUNK + 1
    assert indexer.current is not None
    assert [passage.resource for passage in indexer.current.passages] == ["c/new"]


async def test_a_failing_embedder_is_told_and_tried_again(start: Start) -> None:
    embedder, indexer = Hashing(), start(MemoryVectorStore(), IndexerOptions(retry_seconds=0.02))
    embedder.broken = True
    indexer.submit(1, embedder, [resource("a")])
    await wait_until(lambda: indexer.progress.error == "broken")
    assert indexer.current is None
    embedder.broken = False
    await settle(indexer)
    assert indexer.progress.error is None


async def test_an_indexer_that_was_ended_goes_on_with_what_it_had_begun(start: Start) -> None:
    embedder, indexer = Hashing(), Indexer(MemoryVectorStore())
    embedder.gate.clear()
    indexer.submit(1, embedder, [resource("a")])
    first = asyncio.create_task(indexer.run())
    await wait_until(lambda: bool(embedder.texts))
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    embedder.gate.set()
    second = asyncio.create_task(indexer.run())
    await settle(indexer)
    second.cancel()
    assert indexer.current is not None


async def test_nothing_to_index_is_an_empty_index(start: Start) -> None:
    indexer = start(MemoryVectorStore())
    indexer.submit(1, Hashing(), [replace(resource("a"), mode=Mode.ALWAYS)])
    await settle(indexer)
    assert indexer.current is not None
    assert best(indexer, "anything", ["c/a"]) == []


async def test_what_another_gateway_embeds_meanwhile_is_not_embedded_again(start: Start) -> None:
    store, many = MemoryVectorStore(), [resource(f"r{n}") for n in range(4 * CHUNK)]
    slow, first = Hashing(), start(store, IndexerOptions(poll_seconds=0))
    slow.gate.clear()
    first.submit(1, slow, many)
    await wait_until(lambda: len(slow.texts) == CHUNK)
    second = start(store)
    second.submit(1, Hashing(), many)
    await settle(second)
    slow.gate.set()
    await settle(first)
    assert (len(slow.texts), first.embedded) == (CHUNK, CHUNK)
    assert (first.progress.done, first.progress.total) == (True, 4 * CHUNK)


async def test_vectors_in_use_are_marked_so_that_no_sweep_takes_them(start: Start) -> None:
    now = [0.0]
    store = MemoryVectorStore(clock=lambda: now[0])
    indexer = start(store)
    indexer.submit(1, Hashing(), [resource("a"), resource("b")])
    await settle(indexer)
    await store.put_many({b"gone": b"1"})
    now[0] = UNUSED_SECONDS + 1
    await indexer.mark_used()
    assert await store.sweep() == 1


async def test_a_large_set_of_one_workspace_does_not_delay_the_small_one_of_another(start: Start) -> None:
    model = Hashing()
    large = [replace(resource(f"r{number}", f"large {number}"), id=f"a\0c/r{number}") for number in range(10 * CHUNK)]
    small = replace(resource("s", "small"), id="b\0c/s")
    indexer = start(MemoryVectorStore())
    indexer.submit(1, model, [*large, small])
    await indexer.wait_until_indexed()
    assert any("small" in text for text in model.texts[:CHUNK])


async def test_policies_that_change_all_the_time_do_not_keep_others_from_being_indexed(start: Start) -> None:
    model, indexer = Hashing(), start(MemoryVectorStore())
    publish = indexer._publish
    edits = iter(range(1, 200))

    async def publish_and_edit(*args: Any, **options: Any) -> None:
        await publish(*args, **options)
        edit = next(edits)  # before every passage that could be embedded, another set is there
        indexer.submit(edit + 1, model, [replace(resource("h", f"edit {edit}"), id="a\0c/h"), *honest])

    honest = [replace(resource(f"r{n}", f"honest {n}"), id=f"b\0c/r{n}") for n in range(3 * CHUNK)]
    indexer._publish = publish_and_edit  # type: ignore[method-assign]
    indexer.submit(1, model, honest)
    await wait_until(lambda: sum("honest" in text for text in model.texts) == 3 * CHUNK)


def test_passages_are_taken_from_one_workspace_after_the_other() -> None:
    class Named:
        def __init__(self, resource: str) -> None:
            self.resource = resource

    passages: Any = {name.encode(): Named(name) for name in ("f1", "f2", "a\0x", "a\0y", "a\0z", "b\0x")}
    assert list(take_turns(passages)) == [b"f1", b"a\0x", b"b\0x", b"f2", b"a\0y", b"a\0z"]
