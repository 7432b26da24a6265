"""Which documents get vectors first."""

from gateway.semantic.index.document_queue import MOST_PREFERRED, DocumentQueue, DocumentStage

LOOK_UP, HEAD, REST = DocumentStage


def make_queue(*ids: str) -> DocumentQueue:
    queue = DocumentQueue()
    queue.limit = 10_000
    queue.require(ids)
    return queue


def look_up(queue: DocumentQueue) -> None:
    """Find nothing stored for what is taken next."""
    work = queue.take()
    assert work is not None
    assert work.stage is LOOK_UP
    queue.finish(work.ids)
    queue.want(HEAD, work.ids)
    queue.want(REST, work.ids)


def take_next(queue: DocumentQueue) -> tuple[DocumentStage, str]:
    work = queue.take()
    assert work is not None
    return work.stage, work.ids[0]


def test_what_was_edited_is_looked_up_and_embedded_before_what_waits() -> None:
    queue = make_queue(*(f"n{number}" for number in range(100)))
    look_up(queue)
    queue.require(["n70"])
    look_up(queue)
    assert [take_next(queue), take_next(queue)] == [(HEAD, "n70"), (REST, "n70")]
    assert take_next(queue) == (HEAD, "n0")


def test_what_somebody_asked_for_goes_first_at_every_stage() -> None:
    queue = make_queue(*(f"n{number}" for number in range(1000)))
    queue.prefer(["n900"])
    look_up(queue)
    assert take_next(queue) == (HEAD, "n900")


def test_only_so_many_are_preferred() -> None:
    queue = make_queue(*(f"n{number}" for number in range(MOST_PREFERRED + 10)))
    queue.require([f"n{number}" for number in range(MOST_PREFERRED + 10)])
    assert len(queue._preferred) == MOST_PREFERRED


def test_what_is_gone_is_not_preferred_any_more() -> None:
    queue = make_queue("a", "b")
    queue.require(["b"])
    queue.remove(["b"])
    assert take_next(queue) == (LOOK_UP, "a")
    assert len(queue) == 0
