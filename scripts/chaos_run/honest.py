"""The honest tenant: a steady mix of questions, most of which it has asked before."""

import asyncio
import random
import time
from dataclasses import dataclass, field

import aiohttp

from scripts.chaos_run.stage import ACTIONS, HONEST, MODELS, TOPICS

RATE = 12.0  # requests per second
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
class HonestTenant:
    """Asks at a constant rate, whatever becomes of the answers."""

    address: str
    dice: random.Random
    asked: int = 0
    samples: list[Sample] = field(default_factory=list)

    async def ask_for(self, seconds: float) -> list[Sample]:
        """The samples of a while."""
        self.samples = []
        end = time.monotonic() + seconds
        timeout = aiohttp.ClientTimeout(total=LATE_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as requests:
            while time.monotonic() < end:
                requests.create_task(self._ask(session))
                await asyncio.sleep(self.dice.expovariate(RATE))
        return self.samples

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
        self.samples.append(Sample(seconds, ok, degraded))
