"""What was made is at hand again, within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.domain.lru import HitCounter, LruCache


def test_the_least_recently_used_is_forgotten_first() -> None:
    memo = LruCache(entries=2)
    memo.put("a", 1)
    memo.put("b", 2)
    assert memo.get("a") == 1
    memo.put("c", 3)
    assert [memo.get(key) for key in "abc"] == [1, None, 3]


def test_heavy_values_leave_room_for_few() -> None:
    memo = LruCache(weight=10)
    for key in "abc":
        memo.put(key, key, weight=4)
    assert [memo.get(key) for key in "abc"] == [None, "b", "c"]


def test_what_alone_is_too_heavy_is_not_kept_and_drives_nobody_out() -> None:
    memo = LruCache(weight=10)
    memo.put("a", 1)
    memo.put("b", 2, weight=11)
    assert (memo.get("a"), memo.get("b")) == (1, None)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 8))))
def test_the_bounds_hold_whatever_is_put(puts: list[tuple[int, int]]) -> None:
    memo, weights = LruCache(entries=3, weight=12), dict[int, int]()
    for key, weight in puts:
        memo.put(key, key, weight)
        weights[key] = weight
        assert memo.get(key) == key
        kept = [key for key in range(6) if memo.get(key) is not None]
        assert len(memo) == len(kept) <= 3
        assert sum(weights[key] for key in kept) <= 12


def test_lookups_are_told_apart_by_their_outcome() -> None:
    lookups = HitCounter()
    for hit in (True, False, True):
        lookups.count(hit)
    assert lookups.by_outcome == {("hit",): 2, ("miss",): 1}
