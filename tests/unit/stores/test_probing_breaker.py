"""When the breaker opens, and what closes it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

import pytest

from gateway.stores.breaker import ProbingBreaker


class Server:
    """Answers probes as it is told, and counts them."""

    def __init__(self) -> None:
        self.answers: deque[bool | Exception] = deque()
        self.probes = 0

    async def probe(self) -> bool:
        self.probes += 1
        answer = self.answers.popleft() if self.answers else False
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def breaker(server: Server) -> AsyncIterator[ProbingBreaker]:
    breaker = ProbingBreaker("the server", server.probe, threshold=3, probe_interval=0.001)
    yield breaker
    await breaker.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  (what is waited for is the breaker's own doing)
            await asyncio.sleep(0.001)


def miss(breaker: ProbingBreaker, times: int) -> None:
    for _ in range(times):
        breaker.record_miss()


async def test_it_opens_after_three_missing_answers_in_a_row(breaker: ProbingBreaker) -> None:
    miss(breaker, 2)
    assert (breaker.is_open, breaker.has_misses) == (False, True)
    breaker.record_answer()
    assert not breaker.has_misses
    miss(breaker, 2)
    assert not breaker.is_open
    miss(breaker, 1)
    assert breaker.is_open


async def test_it_stays_open_until_a_probe_is_answered(breaker: ProbingBreaker, server: Server) -> None:
    server.answers += [False, False, True]
    miss(breaker, 3)
    await until(lambda: not breaker.is_open)
    assert (server.probes, breaker.has_misses) == (3, False)


async def test_nothing_is_probed_while_it_is_closed(breaker: ProbingBreaker, server: Server) -> None:
    miss(breaker, 2)
    await asyncio.sleep(0.02)
    assert server.probes == 0


async def test_further_misses_start_no_second_probing(breaker: ProbingBreaker, server: Server) -> None:
    server.answers += [True]
    miss(breaker, 10)
    await until(lambda: not breaker.is_open)
    assert server.probes == 1


async def test_a_late_answer_of_a_call_closes_it_too(breaker: ProbingBreaker) -> None:
    miss(breaker, 3)
    breaker.record_answer()
    await until(lambda: not breaker.is_open)


async def test_it_opens_again_after_it_was_closed(breaker: ProbingBreaker, server: Server) -> None:
    server.answers += [True]
    miss(breaker, 3)
    await until(lambda: not breaker.is_open)
    miss(breaker, 3)
    assert breaker.is_open


async def test_a_probe_that_breaks_does_not_leave_it_open_for_ever(breaker: ProbingBreaker, server: Server) -> None:
    server.answers += [RuntimeError("a defect"), True]
    miss(breaker, 3)
    await until(lambda: not breaker.is_open)
    miss(breaker, 1)
    assert breaker.is_open
    await until(lambda: not breaker.is_open)


async def test_closing_ends_the_probing(breaker: ProbingBreaker, server: Server) -> None:
    miss(breaker, 3)
    await breaker.close()
    probes = server.probes
    await asyncio.sleep(0.02)
    assert server.probes == probes


async def test_an_outage_is_logged_once_at_each_end(
    breaker: ProbingBreaker, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.answers += [False, True]
    miss(breaker, 5)
    await until(lambda: not breaker.is_open)
    assert caplog.messages == ["the server does not answer; it is not used until it does", "the server answers again"]
