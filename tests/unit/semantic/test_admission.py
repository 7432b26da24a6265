"""How many searches may be under way: who is turned away, and how the number is learned."""

import asyncio

import pytest

from gateway.semantic.admission import LEAST, LESS, MOST, PAUSE, Admission
from gateway.semantic.base import EmbedderUnavailable, Late


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def held(admission: Admission, count: int) -> list[asyncio.Task[None]]:
    """Searches that stay under way until they are cancelled."""

    async def search() -> None:
        async with admission.place(60):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(search()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def fail(admission: Admission, error: Exception) -> None:
    with pytest.raises(type(error)):
        async with admission.place(1):
            raise error


async def test_beyond_the_number_a_search_is_late_at_once_and_places_are_given_back() -> None:
    admission = Admission()
    tasks = await held(admission, MOST)
    with pytest.raises(Late, match="under way"):
        async with admission.place(60):
            pytest.fail("there was no place")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with admission.place(60):
        pass


async def test_a_search_that_takes_too_long_is_late() -> None:
    with pytest.raises(Late, match="longer than 10 ms"):
        async with Admission().place(0.01):
            await asyncio.sleep(5)


async def test_lateness_lessens_the_number_from_where_it_failed() -> None:
    admission = Admission(clock := Clock())
    tasks = await held(admission, 19)
    await fail(admission, Late("late"))
    assert admission.limit == 20 * LESS
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    clock.now += PAUSE
    await fail(admission, Late("late"))
    assert admission.limit == LEAST


async def test_what_is_late_together_counts_once() -> None:
    admission = Admission(clock := Clock())
    tasks = await held(admission, 10)
    for _ in range(3):
        await fail(admission, Late("late"))
        clock.now += PAUSE / 10
    assert admission.limit == 11 * LESS
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_what_comes_in_time_raises_the_number_again_and_other_errors_say_nothing() -> None:
    admission = Admission(Clock())
    await fail(admission, Late("late"))
    assert admission.limit == LEAST
    await fail(admission, EmbedderUnavailable("broken"))
    assert admission.limit == LEAST
    for _ in range(10_000):
        async with admission.place(1):
            pass
    assert admission.limit == MOST
