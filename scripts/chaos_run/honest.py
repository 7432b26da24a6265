"""The honest tenant: a steady mix of questions, most of which it has asked before."""

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field

import aiohttp

from scripts.chaos_run.stage import ACTIONS, HONEST, MODELS, TOPICS

RATE = 20.0  # requests per second
LAG_SECONDS = 0.1  # between two requests for the health, which show how late the event loop is
NEW_SHARE = 0.3  # of the questions, that nobody has asked before
STREAM_SHARE = 0.3
LATE_SECONDS = 30.0


@dataclass(slots=True)
class Sample:
    """What one request got."""

    seconds: float
    ok: bool
    degraded: bool


@dataclass(slots=True)
class Window:
    """What all requests of a while got."""

    samples: list[Sample] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)  # seconds that the smallest request took


@dataclass(slots=True)
class HonestTenant:
    """Asks at a constant rate, whatever becomes of the answers."""

    address: str
    dice: random.Random
    asked: int = 10_000  # so that numbers have five digits from the start: with three, questions are less work
    window: Window = field(default_factory=Window)

    async def ask_for(self, seconds: float) -> Window:
        """What a while gave."""
        self.window = Window()
        end = time.monotonic() + seconds
        timeout = aiohttp.ClientTimeout(total=LATE_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as requests:
            requests.create_task(self._measure_lag(session, end))
            while time.monotonic() < end:
                requests.create_task(self._ask(session))
                await asyncio.sleep(self.dice.expovariate(RATE))
        return self.window

    async def _measure_lag(self, session: aiohttp.ClientSession, end: float) -> None:
        while (began := time.monotonic()) < end:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(f"{self.address}/livez") as reply:
                    await reply.read()
            self.window.lags.append(time.monotonic() - began)
            await asyncio.sleep(LAG_SECONDS)

    def _make_question(self) -> str:
        self.asked += 1
        topic, action = self.dice.choice(TOPICS), self.dice.choice(ACTIONS)
        if self.dice.random() < NEW_SHARE:
            return f"My name is customer {self.asked}. How do I {action} {topic} that I bought on day {self.asked}?"
        return f"How do I {action} {topic}?"

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        body = {
            "model": MODELS[HONEST],
            "stream": self.dice.random() < STREAM_SHARE,
            "messages": [{"role": "user", "content": self._make_question()}],
        }
        headers = {"authorization": f"Bearer {HONEST}-chat", "x-context-agent": "support"}
        began, ok, degraded = time.monotonic(), False, True
        try:
            async with session.post(f"{self.address}/v1/chat/completions", json=body, headers=headers) as reply:
                async for _ in reply.content.iter_any():
                    break
                seconds = time.monotonic() - began  # to the first byte: the rest is the upstream's pace
                await reply.read()
                ok = reply.status == 200
                degraded = not ok or bool(reply.headers.get("x-context-degraded"))
        except (aiohttp.ClientError, TimeoutError):
            seconds = time.monotonic() - began
        self.window.samples.append(Sample(seconds, ok, degraded))
