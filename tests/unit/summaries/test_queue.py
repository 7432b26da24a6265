"""The queue of summaries: one entry per text and size, bounded, and shared by workspaces."""

import pytest

from gateway.domain.summary import SummaryOrder
from gateway.summaries.queue import LONGEST_DELAY, QueuedSummary, SummaryQueue, compute_delay


def entry(key: str, workspace: str = "one", due: float = 0.0) -> QueuedSummary:
    return QueuedSummary(key, workspace, SummaryOrder("text", 64), b"", due)


def take(queue: SummaryQueue, now: float = 0.0) -> list[str]:
    return [one.key for one in queue.take_due(now)]


def test_a_key_is_queued_and_taken_once() -> None:
    queue = SummaryQueue()
    assert queue.add(entry("a"))
    assert queue.add(entry("a"))
    assert (take(queue), take(queue), len(queue)) == (["a"], [], 1)


def test_an_entry_waits_for_its_time() -> None:
    queue, later = SummaryQueue(), entry("a")
    queue.add(later)
    take(queue)
    queue.postpone(later, 10.0)
    assert (take(queue, 9.0), queue.find_next(), take(queue, 10.0)) == ([], 10.0, ["a"])


def test_what_ran_when_the_job_ended_is_taken_again() -> None:
    queue = SummaryQueue()
    queue.add(entry("a"))
    take(queue)
    queue.restart()
    assert take(queue) == ["a"]


def test_a_workspace_has_a_bound_of_its_own() -> None:
    queue = SummaryQueue(each=2)
    assert [queue.add(entry(key)) for key in "abc"] == [True, True, False]
    assert queue.add(entry("d", "two"))
    assert queue.shed == 1


def test_the_workspace_with_the_most_makes_room_for_others() -> None:
    queue = SummaryQueue(most=3, each=3)
    for key in "abc":
        queue.add(entry(key))
    assert queue.add(entry("d", "two"))
    assert take(queue) == ["a", "b", "d"]
    assert not queue.add(entry("e"))


def test_who_was_refused_asks_again_as_soon_as_there_is_room() -> None:
    queue, first = SummaryQueue(each=1), entry("a")
    queue.add(first)
    queue.add(entry("b"))
    assert queue.take_refused() == set()
    queue.remove(first)
    assert (queue.take_refused(), queue.take_refused()) == ({"one"}, set())


@pytest.mark.parametrize(("failures", "seconds"), [(1, 30.0), (2, 60.0), (3, 120.0), (50, LONGEST_DELAY)])
def test_the_delay_doubles_up_to_an_hour(failures: int, seconds: float) -> None:
    assert compute_delay(30.0, failures) == seconds
