"""In which order documents get vectors."""

from gateway.semantic.index.document_queue import DocumentQueue, DocumentStage


def make(*ids: str, limit: int = 100) -> DocumentQueue:
    queue = DocumentQueue()
    queue.limit = limit
    queue.require(ids)
    return queue


def take(queue: DocumentQueue) -> tuple[DocumentStage, list[str]]:
    work = queue.take()
    assert work is not None
    queue.finish(work.ids)
    return work.stage, work.ids


def test_what_is_stored_is_looked_up_first_then_all_first_passages_are_embedded_then_the_others() -> None:
    queue = make("a", "b")
    assert take(queue) == (DocumentStage.LOOK_UP, ["a", "b"])
    queue.want(DocumentStage.REST, ["a"])
    queue.want(DocumentStage.HEAD, ["a", "b"])
    assert take(queue) == (DocumentStage.HEAD, ["a", "b"])
    assert take(queue) == (DocumentStage.REST, ["a"])
    assert queue.take() is None


def test_what_somebody_asked_for_goes_first() -> None:
    queue = make(*(f"d{number}" for number in range(20)))
    take(queue)
    queue.want(DocumentStage.HEAD, [f"d{number}" for number in range(20)])
    queue.want(DocumentStage.REST, ["d19"])
    queue.require(["later"])
    queue.prefer(["d19", "unknown"])
    assert take(queue) == (DocumentStage.HEAD, ["d19"])
    assert take(queue) == (DocumentStage.REST, ["d19"])
    assert take(queue) == (DocumentStage.LOOK_UP, ["later"])


def test_what_was_done_for_a_document_that_has_changed_meanwhile_does_not_count() -> None:
    queue = make("a", "b", "c")
    work = queue.take()
    assert work is not None
    queue.require(["b"])
    queue.remove(["c"])
    assert queue.finish(work.ids) == {"a"}
    assert take(queue) == (DocumentStage.LOOK_UP, ["b"])
    assert queue.take() is None


def test_work_that_failed_comes_again() -> None:
    queue = make("a")
    work = queue.take()
    assert work is not None
    queue.put_back(work)
    assert take(queue) == (DocumentStage.LOOK_UP, ["a"])


def test_no_more_documents_than_allowed_get_vectors() -> None:
    queue = make("a", "b", "c", limit=2)
    assert take(queue)[1] == ["a", "b"]
    queue.remove(["a"])
    queue.require(["c", "b", "d"])
    assert take(queue)[1] == ["c", "b"]
