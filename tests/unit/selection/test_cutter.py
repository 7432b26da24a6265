"""Texts that do not fit: cut, or replaced by a summary that is there."""

from gateway.domain.resource import Mode
from gateway.domain.selection import Selection
from gateway.domain.summary import SIZES, SummaryOrder, choose_size
from gateway.selection.collected import select
from gateway.selection.cutter import Cutter
from gateway.selection.pricing import Pricing
from gateway.selection.select import SelectionTerms, propose
from gateway.selection.truncate import MARK
from tests.unit.selection.test_select import candidate, chosen, word_cost

TEXT = " ".join(f"big{number}" for number in range(200))


class FakeTable:
    """Summaries in a dictionary."""

    def __init__(self, *known: tuple[SummaryOrder, str], most: int = 8192) -> None:
        self.known, self.most = dict(known), most

    def find(self, order: SummaryOrder) -> str | None:
        return self.known.get(order)


def cut(cutter: Cutter, budget: int = 100, mode: Mode = Mode.ALWAYS) -> Selection:
    terms = SelectionTerms(budget, True, Pricing(word_cost))
    proposal = propose([candidate("big", 200, mode, truncate="summarize", named=mode is not Mode.ALWAYS)])
    return select(proposal, terms, cutter=cutter)


def test_a_summary_that_is_there_takes_the_place_of_the_text() -> None:
    cutter = Cutter("", FakeTable((SummaryOrder(TEXT, 96), "what it says")))
    (placed,) = cut(cutter).stable
    assert (placed.text, placed.tokens, placed.truncated, placed.summarized) == ("what it says", 3, True, True)
    assert cutter.missing == []


def test_what_a_caller_names_is_summarized_too() -> None:
    (placed,) = cut(Cutter("", FakeTable((SummaryOrder(TEXT, 96), "short"))), mode=Mode.ON_DEMAND).volatile
    assert (placed.text, placed.summarized) == ("short", True)


def test_a_summary_from_the_store_counts_like_one_in_memory() -> None:
    (placed,) = cut(Cutter("", FakeTable(), {SummaryOrder(TEXT, 96): "stored"})).stable
    assert placed.text == "stored"


def test_a_missing_summary_is_noted_once_and_the_best_sentences_are_used() -> None:
    cutter = Cutter("", FakeTable())
    (placed,) = cut(cutter).stable
    (plain,) = chosen(candidate("big", 200, truncate="extractive"), budget=100).stable
    assert (placed.text, placed.truncated, placed.summarized) == (plain.text, True, False)
    assert cutter.missing == [SummaryOrder(TEXT, 96)]


def test_without_a_model_it_works_as_extractive() -> None:
    (placed,) = cut(Cutter()).stable
    (plain,) = chosen(candidate("big", 200, truncate="extractive"), budget=100).stable
    assert (placed.text, placed.summarized) == (plain.text, False)


def test_a_summary_that_is_too_long_is_cut() -> None:
    long = ". ".join(f"sentence {number} says something" for number in range(100))
    (placed,) = cut(Cutter("", FakeTable((SummaryOrder(TEXT, 96), long)))).stable
    assert placed.tokens <= 96
    assert placed.text.startswith("sentence")
    assert placed.text.endswith(MARK)
    assert placed.summarized


def test_what_fits_is_never_summarized() -> None:
    cutter = Cutter("", FakeTable((SummaryOrder(TEXT, 1024), "short")))
    (placed,) = cut(cutter, budget=2000).stable
    assert (placed.text, placed.truncated, cutter.missing) == (TEXT, False, [])


def test_a_summary_is_no_larger_than_configured() -> None:
    cutter = Cutter("", FakeTable(most=50))
    cut(cutter, budget=150)
    assert [order.tokens for order in cutter.missing] == [48]


def test_a_size_is_the_largest_that_fits() -> None:
    assert [choose_size(room, 8192) for room in (0, 31, 32, 95, 96, 9000)] == [0, 0, 32, 64, 96, 8192]
    assert choose_size(9000, 100) == 96
    assert list(SIZES) == sorted(SIZES)
