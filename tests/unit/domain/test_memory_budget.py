"""One bound for what a process caches, and no workspace pushes out another's."""

from random import Random

from gateway.domain.memory_budget import (
    ENTRY_BYTES,
    IDLE_SECONDS,
    CachePartition,
    MemoryBudget,
    SharedValue,
    find_level,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fill(partition: CachePartition, count: int, weight: int = 600, name: str = "k") -> None:
    for number in range(count):
        partition.put((name, number), number, weight - ENTRY_BYTES)


def test_values_come_back_by_key() -> None:
    partition = MemoryBudget(10_000).open("a")
    partition.put("k", "value", 10)
    assert (partition.get("k"), partition.get("other"), len(partition)) == ("value", None, 1)
    partition.put("k", "newer", 20)
    assert (partition.get("k"), partition.weight) == ("newer", 20 + ENTRY_BYTES)


def test_the_least_recently_used_makes_room() -> None:
    budget = MemoryBudget(6_400)
    partition = budget.open("a")
    fill(partition, 10)
    assert partition.get(("k", 0)) == 0
    partition.put("last", "one", 600 - ENTRY_BYTES)
    assert partition.get(("k", 0)) == 0, "it was used a moment ago"
    assert partition.get(("k", 1)) is None
    assert budget.measure() <= 6_400


def test_what_weighs_more_than_the_bound_is_not_kept_and_pushes_nothing_out() -> None:
    partition = MemoryBudget(10_000).open("a")
    fill(partition, 5)
    partition.put("huge", "value", 10_000)
    partition.put("shared", "value", 1, SharedValue("s", "huge", 10_000))
    assert (len(partition), partition.get("huge"), partition.get_shared("s")) == (5, None, None)


def test_nothing_is_kept_without_memory() -> None:
    partition = MemoryBudget(0).open("a")
    partition.put("k", "value", 0)
    assert partition.get("k") is None


def test_a_flood_of_one_workspace_leaves_the_entries_of_others() -> None:
    budget = MemoryBudget(64_000)
    honest, hostile = budget.open("honest"), budget.open("hostile")
    fill(honest, 40)
    fill(hostile, 10_000)
    assert len(honest) == 40, "less than half of the memory: nothing of it may go"
    assert budget.measure() <= 64_000
    assert hostile.weight >= 64_000 - honest.weight - 64_000 / 8, "what is free may be used"


def test_a_workspace_with_many_snapshots_has_one_share() -> None:
    budget = MemoryBudget(64_000)
    honest = budget.open("honest")
    many = [budget.open("hostile") for _ in range(50)]
    fill(honest, 40)
    for partition in many:
        fill(partition, 100)
    assert len(honest) == 40


def test_everyone_gets_the_same_where_all_want_more_than_there_is() -> None:
    budget = MemoryBudget(80_000)
    partitions = [budget.open(f"w{number}") for number in range(8)]
    draw = Random(1)
    for number in range(20_000):
        draw.choice(partitions).put(number, number, 600 - ENTRY_BYTES)
    weights = [partition.weight for partition in partitions]
    assert min(weights) > 80_000 / 8 * 0.6
    assert sum(weights) == budget.measure() <= 80_000


def test_what_was_idle_for_long_makes_room_first() -> None:
    clock = Clock()
    budget = MemoryBudget(64_000, clock)
    idle, busy = budget.open("idle"), budget.open("busy")
    fill(idle, 40)
    clock.now += IDLE_SECONDS + 1
    fill(busy, 100)
    assert (len(idle), len(busy)) == (0, 100)


def test_what_entries_share_weighs_once_and_goes_with_the_last_of_them() -> None:
    partition = MemoryBudget(100_000).open("a")
    for number in range(10):
        partition.put(number, number, 0, SharedValue("s", "text", 5_000))
    shared = partition.get_shared("s")
    assert shared is not None
    assert (shared.users, partition.weight) == (10, 5_000 + 10 * ENTRY_BYTES)
    partition.put(3, "again", 0, shared)
    assert (shared.users, partition.weight) == (10, 5_000 + 10 * ENTRY_BYTES)
    partition.shrink(5_000 + ENTRY_BYTES)
    assert partition.get_shared("s") is shared
    partition.clear()
    assert (partition.get_shared("s"), partition.weight, len(partition)) == (None, 0, 0)


def test_a_partition_that_dies_frees_its_memory() -> None:
    budget = MemoryBudget(64_000)
    gone, kept = budget.open("gone"), budget.open("kept")
    fill(gone, 50)
    del gone
    fill(kept, 100)
    assert len(kept) == 100
    assert budget.measure() == kept.weight


def test_the_weight_is_the_sum_of_what_is_kept_whatever_happens() -> None:
    budget, draw = MemoryBudget(40_000), Random(7)
    partitions = [budget.open(name) for name in "aab"]
    for _ in range(3_000):
        partition = draw.choice(partitions)
        part = SharedValue(draw.randrange(5), None, draw.randrange(2_000)) if draw.random() < 0.5 else None
        partition.put(draw.randrange(80), None, draw.randrange(2_000), part)
        for one in partitions:
            entries = list(one._entries.values())
            shared = {entry.shared.key: entry.shared for entry in entries if entry.shared is not None}
            assert one._shared == shared
            assert one.weight == sum(entry.weight for entry in entries) + sum(one.weight for one in shared.values())
        assert budget.measure() <= 40_000


def test_the_level_takes_from_those_who_have_most() -> None:
    assert find_level([10, 20, 90], 60) == 30
    assert find_level([10, 20, 90], 1_000) == 90
    assert find_level([50, 50], 60) == 30
    assert find_level([], 60) == 0
