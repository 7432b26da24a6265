"""What was made once is kept within bounds."""

from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.lru import HitCounter, LruCache


def test_the_least_recently_used_is_dropped_first() -> None:
    cache = LruCache[str, int](entries=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]


def test_heavy_values_leave_room_for_few() -> None:
    cache = LruCache[str, str](weight=10)
    for key in "abc":
        cache.put(key, key, weight=4)
    assert [cache.get(key) for key in "abc"] == [None, "b", "c"]


def test_what_alone_is_too_heavy_is_not_kept_and_drops_nothing_else() -> None:
    cache = LruCache[str, int](weight=10)
    cache.put("a", 1)
    cache.put("b", 2, weight=11)
    assert (cache.get("a"), cache.get("b")) == (1, None)


def test_a_cleared_cache_has_all_of_its_room_again() -> None:
    cache = LruCache[str, int](weight=10)
    cache.put("a", 1, weight=9)
    cache.clear()
    assert (cache.get("a"), len(cache)) == (None, 0)
    cache.put("b", 2, weight=5)
    cache.put("c", 3, weight=5)
    assert (cache.get("b"), cache.get("c")) == (2, 3)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 8))))
def test_the_bounds_hold_whatever_is_put(puts: list[tuple[int, int]]) -> None:
    cache, weights = LruCache[int, int](entries=3, weight=12), dict[int, int]()
    for key, weight in puts:
        cache.put(key, key, weight)
        weights[key] = weight
        assert cache.get(key) == key
        kept = [key for key in range(6) if cache.get(key) is not None]
        assert len(cache) == len(kept) <= 3
        assert sum(weights[key] for key in kept) <= 12


def test_what_another_thread_drops_meanwhile_is_still_found() -> None:
    class Dropping(OrderedDict[str, tuple[int, int]]):
        def move_to_end(self, key: str, last: bool = True) -> None:
            del self[key]
            super().move_to_end(key, last)

    cache = LruCache[str, int](entries=3)
    cache._kept = Dropping({"a": (1, 1)})
    assert (cache.get("a"), cache.get("a")) == (1, None)


def test_lookups_are_counted_by_outcome() -> None:
    lookups = HitCounter()
    for hit in (True, False, True):
        lookups.count(hit)
    assert lookups.by_outcome == {("hit",): 2, ("miss",): 1}
