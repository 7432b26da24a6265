"""What one caller sees of an index: nothing that is hidden has any influence on a score."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.domain.resource import Mode, Resource
from gateway.semantic.index import passage_index as passage_index_module
from gateway.semantic.index.lexical import LexicalView, extract_terms
from gateway.semantic.index.passage_index import IndexWords, PassageIndex
from gateway.semantic.index.passages import split_resources
from gateway.semantic.search.view import IndexView
from tests.support.search_harness import FakeEmbedder, open_search, resource, vector


def indexed(*resources: Resource, without: Sequence[str] = ()) -> PassageIndex:
    """An index of these resources; `without` names those that have no vectors yet."""
    passages = split_resources(resources)
    ready = [passage for passage in passages if passage.resource not in without]
    vectors = {passage.key("bag"): vector(passage.text).astype(np.float16) for passage in ready}
    return PassageIndex.build(1, FakeEmbedder(), passages, vectors)


def view(known: PassageIndex, *names: str) -> IndexView:
    return IndexView.build(IndexWords.build(known), names)


async def test_columns_are_the_visible_resources_that_have_a_vector() -> None:
    known = indexed(resource("a/1", "one"), resource("b/2", "two"), resource("a/3", "three"), without=["a/3"])
    assert view(known, "a/3", "a/1", "unknown/4").resources == ("a/1",)
    assert view(known, "b/2", "a/1").resources == ("a/1", "b/2")
    assert view(known).resources == ()


async def test_the_best_passage_or_example_speaks_for_its_resource() -> None:
    known = indexed(
        resource("a/1", f"{'x' * 495}\n\nzebra stripes"), resource("a/2", "other", examples=["zebra stripes"])
    )
    shown = view(known, "a/1", "a/2")
    evidence = shown.collect_evidence(["zebra stripes"], vector("zebra stripes")[None])
    assert evidence.dense[0].tolist() == pytest.approx([1, 1], abs=0.01)
    assert evidence.examples.tolist() == [False, True]
    assert (evidence.central == evidence.dense).tolist() == [[True, False]]


async def test_modes_that_are_never_searched_are_not_seen() -> None:
    known = indexed(resource("a/1", "one", Mode.ALWAYS), resource("a/2", "two", Mode.MANUAL))
    assert view(known, "a/1", "a/2").resources == ()


WORDS = ("invoice", "refund", "password", "parcel", "holiday", "office", "billing", "mail")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
RESOURCES = st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=2)), min_size=1, max_size=6)


def made(context: str, drawn: Sequence[tuple[str, list[str]]]) -> list[Resource]:
    return [resource(f"{context}/{at}", text, examples=more) for at, (text, more) in enumerate(drawn)]


def scores(mine: Sequence[Resource], everything: Sequence[Resource], question: str) -> dict[str, float]:
    """What a caller who may see `mine` is told about each, whatever else the index holds."""

    async def asked() -> dict[str, float]:
        bag = FakeEmbedder()
        bag.width = 32  # what is wide takes long
        async with open_search(everything, bag, milliseconds=5000) as search:
            found = await search.find(question, among=[one.id for one in mine])
            assert found.reason is None
            return dict(found.scores) | {pick.resource: pick.score for pick in found.picks}

    return asyncio.run(asked())


@settings(max_examples=40)
@given(RESOURCES, RESOURCES, TEXTS)
@example([("invoice", []), ("refund", [])], [("invoice", [])] * 5, "invoice refund")
def test_what_others_hold_changes_no_score(
    mine: list[tuple[str, list[str]]], others: list[tuple[str, list[str]]], question: str
) -> None:
    own, hidden = made("mine", mine), made("others", others)
    alone = scores(own, own, question)
    # Products of other matrices differ in their last bits; scores are told with four digits.
    assert scores(own, [*hidden, *own], question) == pytest.approx(alone, abs=2e-4)
    assert scores(own, [*own, *hidden], question) == pytest.approx(alone, abs=2e-4)


def test_a_filter_that_is_applied_after_ranking_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: how rare a word is depends on everything there is."""
    own = made("mine", [("invoice", []), ("refund parcel", []), ("office mail", [])])
    hidden = made("others", [("invoice", [])] * 5)
    question = "invoice refund"

    def evidence(everything: Sequence[Resource]) -> list[float]:
        shown = view(indexed(*everything), *(one.id for one in own))
        found: list[float] = shown.collect_evidence([question], vector(question)[None]).lexical[0].tolist()
        return found

    assert evidence([*own, *hidden]) == pytest.approx(evidence(own))

    def restrict_after_ranking(self: IndexWords, resources: Sequence[str]) -> "UnrestrictedView":
        whole = self.lexical.restrict(np.arange(len(self.numbers)))
        return UnrestrictedView(whole, [self.numbers[name] for name in resources])

    class UnrestrictedView:
        def __init__(self, whole: LexicalView, columns: list[int]) -> None:
            self._whole, self._columns = whole, columns

        def match(self, query: Sequence[str]) -> object:
            match = self._whole.match(query)
            return type(match)(match.score[self._columns], match.coverage[self._columns], match.ceiling)

    monkeypatch.setattr(IndexWords, "restrict", restrict_after_ranking)
    assert evidence([*own, *hidden]) != pytest.approx(evidence(own))


DRAWN = st.lists(st.tuples(st.integers(0, 8), TEXTS), max_size=8, unique_by=lambda one: one[0])


@settings(max_examples=60)
@given(st.lists(DRAWN, min_size=1, max_size=5), TEXTS)
def test_words_that_were_read_before_match_as_if_they_were_read_again(
    generations: list[list[tuple[int, str]]], question: str
) -> None:
    former: IndexWords | None = None
    for drawn in generations:
        known = indexed(*(resource(f"a/{number}", text) for number, text in drawn))
        former, fresh = IndexWords.build(known, former), IndexWords.build(known)
        names = list(fresh.numbers)
        revised, whole = (words.restrict(names).match(extract_terms(question)) for words in (former, fresh))
        assert revised.score.tolist() == whole.score.tolist()
        assert revised.coverage.tolist() == whole.coverage.tolist()
        assert revised.ceiling == whole.ceiling


def test_words_of_what_is_gone_do_not_pile_up() -> None:
    words: IndexWords | None = None
    for number in range(50):
        words = IndexWords.build(indexed(resource("a/1", " ".join(f"word{number}x{n}" for n in range(10)))), words)
    assert words is not None
    assert len(words.lexical.vocabulary) <= 40


def test_only_what_changed_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def record(text: str) -> list[str]:
        read.append(text)
        return extract_terms(text)

    first = IndexWords.build(indexed(resource("a/1", "one"), resource("a/2", "two")))
    monkeypatch.setattr(passage_index_module, "extract_terms", record)
    IndexWords.build(indexed(resource("a/2", "two"), resource("a/1", "other"), resource("a/3", "three")), first)
    assert read == ["other", "three"]
