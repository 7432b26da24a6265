"""Who searches at once, who waits, who goes next, and when it is too late to begin."""

import asyncio

import pytest

from gateway.queue_bounds import QueueBounds
from gateway.semantic.model.embedder import EmbedderUnavailable, SearchTimeout
from gateway.semantic.search.admission import START_SHARE, Admission


def make_admission(places: int) -> Admission:
    return Admission(QueueBounds(places, places, 1000, newest_first=True))


class Searches:
    """Searches that go on until they are told to end."""

    def __init__(self, places: int) -> None:
        self.admission = make_admission(places)
        self.begun: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str, within: float = 60) -> None:
        for name in names:
            self.ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._search(name, within))
            await asyncio.sleep(0)

    async def _search(self, name: str, within: float) -> None:
        async with self.admission.admit(name[0] if name[-1].isdigit() else "w", within):
            self.begun.append(name)
            await self.ends[name].wait()

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await self.tasks[name]
        await asyncio.sleep(0)

    async def outcome(self, name: str) -> BaseException | None:
        (outcome,) = await asyncio.gather(self.tasks[name], return_exceptions=True)
        return outcome


async def test_so_many_search_at_once_and_the_others_wait() -> None:
    searches = Searches(2)
    await searches.ask("a", "b", "c")
    assert searches.begun == ["a", "b"]
    await searches.end("a")
    assert searches.begun == ["a", "b", "c"]


async def test_the_newest_of_those_who_wait_goes_next() -> None:
    searches = Searches(1)
    await searches.ask("a", "b", "c", "d")
    for name in "adcb":
        await searches.end(name)
    assert searches.begun == ["a", "d", "c", "b"]


async def test_a_search_that_takes_too_long_is_late_and_its_place_is_free_again() -> None:
    searches = Searches(1)
    await searches.ask("a", within=0.01)
    assert "longer than 10 ms" in str(await searches.outcome("a"))
    await searches.ask("b")
    assert searches.begun == ["a", "b"]


async def test_who_waited_has_only_the_rest_of_its_time() -> None:
    admission, began = make_admission(1), asyncio.Event()

    async def first() -> None:
        async with admission.admit("w", 60):
            began.set()
            await asyncio.sleep(0.05)

    running = asyncio.create_task(first())
    await began.wait()
    async with admission.admit("w", 10) as left:
        assert 0 < left < 9.96
    await running


async def test_a_search_that_has_not_begun_in_time_is_late_and_never_begins() -> None:
    searches = Searches(1)
    await searches.ask("a")
    loop = asyncio.get_running_loop()
    asked = loop.time()
    await searches.ask("b", within=0.1)
    assert isinstance(await searches.outcome("b"), SearchTimeout)
    assert loop.time() - asked >= 0.1 * START_SHARE * 0.9
    await searches.end("a")
    assert searches.begun == ["a"]
    await searches.ask("c")
    assert searches.begun == ["a", "c"]


@pytest.mark.parametrize("error", [EmbedderUnavailable("broken"), SearchTimeout("late"), asyncio.CancelledError()])
async def test_whatever_ends_a_search_its_place_is_given_back(error: BaseException) -> None:
    admission = make_admission(1)
    for _ in range(3):
        with pytest.raises(type(error)):
            async with admission.admit("w", 60):
                raise error
    async with admission.admit("w", 60):
        pass


async def test_who_goes_away_while_waiting_takes_no_place_along() -> None:
    searches = Searches(1)
    await searches.ask("a", "b", "c")
    searches.tasks["c"].cancel()
    await asyncio.sleep(0)
    await searches.end("a")
    assert searches.begun == ["a", "b"]


async def test_a_place_that_was_given_to_somebody_who_just_went_away_goes_to_the_next() -> None:
    searches = Searches(1)
    async with searches.admission.admit("w", 60):
        await searches.ask("b", "c")
    searches.tasks["c"].cancel()  # it has been given the place, and does not know yet
    assert isinstance(await searches.outcome("c"), asyncio.CancelledError)
    await asyncio.sleep(0)
    assert searches.begun == ["b"]


async def test_a_burst_is_served_as_far_as_its_time_goes_and_nobody_is_late_after_beginning() -> None:
    admission, begun = make_admission(2), 0

    async def search() -> bool:
        nonlocal begun
        try:
            async with admission.admit("w", 0.5):
                begun += 1
                await asyncio.sleep(0.04)
        except SearchTimeout:
            return False
        return True

    served = sum(await asyncio.gather(*(search() for _ in range(100))))
    assert 4 <= served <= 26  # two every 40 ms at best; a busy machine does less
    assert begun - served <= 2


async def test_a_workspace_with_many_searches_keeps_no_other_from_beginning() -> None:
    searches = Searches(2)
    await searches.ask(*(f"a{number}" for number in range(12)), "b1")
    await searches.end("a0")
    assert searches.begun == ["a0", "a1", "b1"]
