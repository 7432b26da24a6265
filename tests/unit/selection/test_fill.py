"""A text that can be shrunk is counted as far as it matters, and what is placed of it is the same."""

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.domain.collector import Category, FoundItem
from gateway.domain.longest import find_longest_within
from gateway.domain.resource import Resource
from gateway.selection.fill import CategoryFill, fill
from gateway.selection.found import make_found_candidate
from gateway.selection.pricing import Pricing
from gateway.selection.truncate import LONG_TOKENS, LOOKED_AT


@dataclass(frozen=True)
class Lines:
    """A text that is shrunk to its first lines."""

    lines: tuple[str, ...]

    def shrink(self, count: Callable[[str], int], limit: int, whole: int = 0) -> FoundItem | None:
        size = find_longest_within(len(self.lines) - 1, lambda size: count(self.write(size)), limit, whole)
        return self.to_item(size) if size else None

    def write(self, size: int) -> str:
        return "\n".join(self.lines[:size])

    def to_item(self, size: int) -> FoundItem:
        return FoundItem("id", "lines", "yaml", "Title", self.write(size), 1.0, "", shrinkable=self)


def place(lines: tuple[str, ...], room: int, counted: list[str]) -> CategoryFill:
    def cost(resource: Resource, text: str) -> int:
        counted.append(text)
        return 4 + len(text.split())

    whole = Lines(lines).to_item(len(lines))
    return fill([make_found_candidate(whole, "test")], room, Category.KNOWLEDGE, Pricing(cost))


words = st.text("ab", min_size=1, max_size=9)
texts = st.lists(st.lists(words, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=40).map(tuple)


@given(texts, st.integers(50, 150))
def test_as_much_is_placed_as_if_everything_was_counted(lines: tuple[str, ...], room: int) -> None:
    sizes = [4 + len("\n".join(lines[: size + 1]).split()) for size in range(len(lines))]
    fits = sum(size <= room for size in sizes)
    placed = place(lines, room, []).placed
    assert [one.text for one in placed] == (["\n".join(lines[:fits])] if fits else [])
    assert all(one.truncated == (fits < len(lines)) for one in placed)


def test_what_is_far_too_long_is_not_counted_to_its_end() -> None:
    counted: list[str] = []
    filled = place(("word " * 10,) * 1000, 60, counted)
    assert filled.placed[0].tokens == 54
    assert max(map(len, counted)) < 2 * LONG_TOKENS * 60 + 60
    assert "about" in filled.warnings[0].message


def test_a_long_node_is_cut_without_being_counted_whole_and_a_warning_says_so() -> None:
    counted: list[int] = []

    def cost(resource: Resource, text: str) -> int:
        counted.append(len(text))
        return len(text.split())

    item = FoundItem("book", "node", "page", "Book", "Words of a book. " * LOOKED_AT, 1.0, "")
    filled = fill([make_found_candidate(item, "test")], 100, Category.FOCUS, Pricing(cost))
    assert filled.placed[0].truncated
    assert 50 < filled.placed[0].tokens <= 100
    assert max(counted) <= LOOKED_AT
    (warning,) = [one for one in filled.warnings if one.code == "content_too_large"]
    assert (warning.category, str(len(item.text)) in warning.message) == (Category.FOCUS, True)
    short = replace(item, text="Words of a book. " * 1000)
    codes = [
        one.code for one in fill([make_found_candidate(short, "test")], 100, Category.FOCUS, Pricing(cost)).warnings
    ]
    assert codes == ["over_budget"]


def test_a_long_text_is_cut_whether_it_was_counted_before_or_not() -> None:
    item = FoundItem("table", "node", "page", "Table", ("-" * 19 + " ") * (LOOKED_AT // 10), 1.0, "")
    candidate = make_found_candidate(item, "test")
    whole = len(item.text.split())

    def place_in(room: int, pricing: Pricing) -> tuple[str, bool]:
        (placed,) = fill([candidate], room, Category.FOCUS, pricing).placed
        return placed.text, placed.truncated

    cold, warm = (Pricing(lambda _, text: len(text.split())) for _ in range(2))
    assert place_in(len(item.text), warm) == (item.text, False)
    assert place_in(whole + 1, warm) == place_in(whole + 1, cold)
