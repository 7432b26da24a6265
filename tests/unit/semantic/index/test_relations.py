"""What is looked up is what would be compared: after a build, after edits, and for whatever may be seen."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gateway.domain.search import Pick
from gateway.semantic.index import relations as relations_module
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.passages import Passage
from gateway.semantic.index.relations import KEPT, QUERIES, Relations, RelationsBuilder, compute_cosines
from gateway.semantic.index.vector_index import EXACT_LIMIT
from gateway.semantic.search import expansion as expansion_module
from gateway.semantic.search.expansion import ExpansionRule, Neighbourhood, compare_all, expand_picks
from gateway.semantic.search.view import IndexView
from tests.support.search_harness import FakeEmbedder, open_search, resource

WIDTH = 16  # few dimensions: neighbours are near, and there are more of them than are kept
Texts = dict[str, list[int]]  # by resource: what its passages say, as seeds of their vectors


def vector(seed: int) -> NDArray[np.float16]:
    drawn = np.random.default_rng(seed).standard_normal(WIDTH)
    return (drawn / np.linalg.norm(drawn)).astype(np.float16)


def indexed(texts: Texts, exact_limit: int = EXACT_LIMIT) -> PassageIndex:
    passages = [Passage(name, f"text {seed}") for name, seeds in texts.items() for seed in seeds]
    seeds = [seed for several in texts.values() for seed in several]
    vectors = {one.key("bag"): vector(seed) for one, seed in zip(passages, seeds, strict=True)}
    return PassageIndex.build(1, FakeEmbedder(), passages, vectors, exact_limit)


def drawn(count: int, seed: int = 0) -> Texts:
    draw = np.random.default_rng(seed)
    return {f"c/{number}": draw.integers(0, 10**6, draw.integers(1, 8)).tolist() for number in range(count)}


def related(known: PassageIndex, base: Relations | None = None) -> Relations:
    made = base.carry_over(known) if base is not None else Relations.empty(known)
    for _ in made.update():
        pass
    return made


def view(known: PassageIndex, names: Iterable[str] | None = None) -> IndexView:
    return IndexView.build(IndexWords.build(known), list(known.numbers) if names is None else list(names))


def expanded(shown: IndexView, picked: Sequence[str], relations: Relations | None, **more: Any) -> dict[str, float]:
    settings = ExpansionRule(**{"depth": 2, "threshold": 0.5, **more})
    picks = expand_picks(shown, [Pick(name, 1.0) for name in picked], settings, relations)
    assert len({pick.resource for pick in picks}) == len(picks)
    return {pick.resource: pick.score for pick in picks}


def alike(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether two expansions found the same; the last bits of a product depend on its shape, so not to the last."""
    return one == pytest.approx(other, abs=2e-5)


def test_neighbours_are_those_of_all_passages_but_the_later_ones_of_a_long_resource() -> None:
    known = indexed({"c/long": list(range(QUERIES + 3)), "c/first": [0], "c/last": [QUERIES + 2], "c/other": [99]})
    near = compute_cosines(known, np.array([0, 2]), np.arange(4))
    matrix = np.stack([vector(seed).astype(np.float32) for seed in [*range(QUERIES + 3), 0, QUERIES + 2, 99]])
    long = matrix[: QUERIES + 3]
    assert np.allclose(near[0, 1:], (long[:QUERIES] @ matrix[-3:].T).max(0), atol=1e-3)
    assert np.allclose(
        near[1], [(long @ matrix[-2]).max(), matrix[-3] @ matrix[-2], 1, matrix[-1] @ matrix[-2]], atol=1e-3
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 120), st.floats(0.2, 0.95), st.integers(0, 12), st.data())
def test_an_expansion_finds_the_same_with_relations_and_without(
    seed: int, count: int, threshold: float, top_n: int, data: st.DataObject
) -> None:
    known = indexed(drawn(count, seed))
    names = list(known.numbers)
    seen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    shown = view(known, sorted(seen, key=names.index))
    picked = data.draw(st.lists(st.sampled_from(seen), min_size=1, max_size=4, unique=True))
    asked = {"threshold": threshold, "top_n": top_n}
    assert alike(expanded(shown, picked, related(known), **asked), expanded(shown, picked, None, **asked))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.data())
def test_after_edits_the_relations_are_those_of_a_fresh_build(seed: int, data: st.DataObject) -> None:
    texts = drawn(60, seed)
    base = related(indexed(texts))
    for _ in range(2):
        for name in data.draw(st.lists(st.sampled_from(sorted(texts)), max_size=5, unique=True)):
            texts[name] = [seed + len(name) + one for one in texts[name]]  # edited
        for name in data.draw(st.lists(st.sampled_from(sorted(texts)), max_size=5, unique=True)):
            del texts[name]
        texts |= {f"n/{name}": seeds for name, seeds in drawn(3, seed + len(texts)).items()}
        known = indexed(dict(data.draw(st.permutations(list(texts.items())))))
        base = related(known, base)
        fresh = related(known)
        shown = view(known)
        for name in list(known.numbers)[:5]:
            assert alike(expanded(shown, [name], base), expanded(shown, [name], fresh))
        assert (base.floors >= fresh.floors - 2e-5).all()


def test_an_edit_compares_only_what_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = drawn(200)
    base = related(indexed(texts))
    counted: list[int] = []
    plain = compute_cosines

    def counting(known: PassageIndex, origins: NDArray[np.intp], targets: NDArray[np.intp]) -> NDArray[np.float32]:
        counted.append(len(origins) * len(targets))
        return plain(known, origins, targets)

    monkeypatch.setattr(relations_module, "compute_cosines", counting)
    related(indexed(texts | {"c/7": [1, 2]}), base)
    assert sum(counted) == 200 + 199


def test_what_was_not_kept_is_compared_after_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """More neighbours are near than are kept, and of those that were kept none may be seen."""
    texts = {"c/origin": [0], **{f"c/{number}": [0] for number in range(3 * KEPT)}}
    known = indexed(texts)
    relations = related(known)
    kept = {list(known.numbers)[number] for number in relations.numbers[0]}
    seen = ["c/origin", *(name for name in texts if name not in kept and name != "c/origin")]
    compares: list[int] = []

    def recording(shown: IndexView, origin: int) -> Neighbourhood:
        compares.append(origin)
        return compare_all(shown, origin)

    monkeypatch.setattr(expansion_module, "compare_all", recording)
    assert len(expanded(view(known, seen), ["c/origin"], relations, depth=1, top_n=3)) == 3
    assert compares == [0]
    assert len(expanded(view(known), ["c/origin"], relations, depth=1, top_n=3)) == 3
    assert compares == [0]


def test_relations_of_another_index_are_not_used() -> None:
    former, newer = indexed(drawn(20, 1)), indexed(drawn(20, 2))
    relations = related(former)
    assert alike(expanded(view(newer), ["c/3"], relations), expanded(view(newer), ["c/3"], None))


def test_large_and_small_indexes_relate_alike() -> None:
    assert EXACT_LIMIT > 1000
    texts = drawn(60)
    exact = related(indexed(texts))
    coded = related(indexed(texts, exact_limit=10))
    assert np.allclose(exact.cosines, coded.cosines, atol=1e-5)


async def test_a_small_or_unfinished_index_is_not_related() -> None:
    relating = RelationsBuilder(large=1000)
    await relating.build(indexed(drawn(20)), lambda: True)
    assert relating.current is None


async def test_what_is_no_longer_wanted_is_given_up_and_not_compared_again() -> None:
    texts, relating, left = drawn(100), RelationsBuilder(large=1, batch=20_000), iter([True, True, False])
    await relating.build(indexed(texts), lambda: next(left))
    assert relating.current is None
    known = indexed(texts | {"c/new": [5]})
    done = int((relating._base.floors < 1).sum()) if relating._base else 0
    assert 0 < done < 100
    await relating.build(known, lambda: True)
    assert relating.current is not None
    assert relating.current.index is known
    shown = view(known)
    for name in ("c/0", "c/50", "c/99", "c/new"):
        assert alike(expanded(shown, [name], relating.current), expanded(shown, [name], None))


async def test_an_engine_relates_in_the_background_and_finds_the_same() -> None:
    few = [resource(f"c/{number}", f"alpha beta gamma word{number} word{number % 3}") for number in range(12)]
    async with open_search(few, expansion={"depth": 1, "threshold": 0.5}) as search:
        search.engine._relations = RelationsBuilder(large=1)
        before = await search.find("alpha word1", preset="conservative", include_score=0.3)
        running = asyncio.create_task(search.engine.update_relations())
        for _ in range(500):
            if search.engine._relations.current is not None:
                break
            await asyncio.sleep(0.01)
        running.cancel()
        assert search.engine._relations.current is not None
        after = await search.find("alpha word1", preset="conservative", include_score=0.3)
    assert any(pick.via == "expansion" for pick in before.picks)
    assert [(pick.resource, pick.why) for pick in after.picks] == [(pick.resource, pick.why) for pick in before.picks]
