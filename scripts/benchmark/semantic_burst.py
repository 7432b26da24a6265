"""A gateway asked 32 distinct questions at once, beside one at a time; relays during that, beside two controls.

While another process burns the CPU, relays come alone, then with the same requests that find nothing to search.
Prints figures as JSON. The gateway is a process of its own with its defaults: what is late after 150 ms is shed.
"""

import asyncio
import itertools
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.benchmark import payloads, subjects
from scripts.benchmark.processes import build_command, read_line, run_process
from scripts.benchmark.semantic_figures import Figure, print_figures

TOGETHER = 32
RELAY_PAUSE = 0.005
PAUSE = 0.3  # between two bursts
TOPICS = ("password", "invoice", "refund", "parcel", "address", "discount", "voucher", "delivery", "warranty", "return")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request came to."""

    seconds: float
    searched: bool  # and not left to the tools for want of time
    placed: bool  # something was


class Caller:
    """One connection to a gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> "Caller":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, question: str, agent: str | None = None) -> Answer:
        body = payloads.encode_compact({"model": payloads.BURST, "messages": [{"role": "user", "content": question}]})
        about = f"x-context-agent: {agent}\r\n" if agent else ""
        head = f"POST {subjects.CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n{about}"
        began = time.perf_counter()
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answered = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"content-length: (\d+)", answered)
        if not answered.startswith(b"http/1.1 200") or length is None:
            raise RuntimeError(f"The gateway answered {answered[:200]!r}.")
        await self._reader.readexactly(int(length[1]))
        placed = b"x-context-injected: 0" not in answered
        return Answer(time.perf_counter() - began, b"x-context-degraded" not in answered, placed)

    def close(self) -> None:
        self._writer.close()


@contextmanager
def run_gateway(upstream: int, directory: Path) -> Generator[int]:
    """A gateway's port; one agent's resources are found by semantic search, those of the other are only offered."""
    config = subjects.write_config(upstream, directory)
    contexts = {
        "found": {"resources": build_resources("semantic")},
        "offered": {"resources": build_resources("on_demand")},
    }
    agents = {"helper": {"contexts": ["found"]}, "plain": {"contexts": ["offered"]}}
    policies = {"contexts": contexts, "agents": agents}
    (directory / "policies" / "bench.yaml").write_text(json.dumps(policies))
    with run_process([sys.executable, "-m", "gateway", "serve", "--config", str(config), "--port", "0"]) as process:
        yield int(read_line(process).strip().rsplit(":", 1)[1])


def build_resources(mode: str) -> dict[str, Any]:
    return {
        topic: {"type": "text", "mode": mode, "data": {"content": f"What customers ask about their {topic}."}}
        for topic in TOPICS
    }


async def wait_until_ready(port: int) -> None:
    """Wait until questions are searched: until then nothing is placed for them."""
    caller = await Caller.connect(port)
    for _ in range(300):
        if (await caller.ask("What do customers ask about their password?", "helper")).placed:
            break
        await asyncio.sleep(0.1)
    else:
        raise RuntimeError("The gateway places nothing.")
    caller.close()


class Asker:
    """Asks an agent questions that nobody has asked before."""

    def __init__(self, port: int, agent: str) -> None:
        self._port, self._agent = port, agent
        self._numbers = itertools.count()

    async def ask_next(self, caller: Caller) -> Answer:
        number = next(self._numbers)
        topic = TOPICS[number % len(TOPICS)]
        return await caller.ask(f"What do customers ask about the {topic} of order {number}?", self._agent)

    async def ask_constantly(self, callers: int, seconds: float) -> list[Answer]:
        """So many callers, each with its next question as soon as it has an answer."""

        async def one() -> list[Answer]:
            caller, end, answers = await Caller.connect(self._port), time.perf_counter() + seconds, []
            while time.perf_counter() < end:
                answers.append(await self.ask_next(caller))
            caller.close()
            return answers

        return [answer for some in await asyncio.gather(*(one() for _ in range(callers))) for answer in some]

    async def ask_in_bursts(self, seconds: float, relayed: list[float]) -> tuple[list[Answer], float]:
        """Bursts of 32 with a pause after each, and how long they took in all; relays go on during each."""
        callers = [await Caller.connect(self._port) for _ in range(TOGETHER)]
        answers: list[Answer] = []
        end, busy = time.perf_counter() + seconds, 0.0
        while time.perf_counter() < end:
            began = time.perf_counter()
            burst = asyncio.gather(*(self.ask_next(caller) for caller in callers))
            relays = asyncio.create_task(relay_constantly(self._port, seconds, relayed))
            answers += await burst
            busy += time.perf_counter() - began
            relays.cancel()
            await asyncio.gather(relays, return_exceptions=True)
            await asyncio.sleep(PAUSE)
        for caller in callers:
            caller.close()
        return answers, busy


async def relay_constantly(port: int, seconds: float, found: list[float]) -> None:
    """Milliseconds of relays that come one after the other."""
    caller, end = await Caller.connect(port), time.perf_counter() + seconds
    try:
        while time.perf_counter() < end:
            found.append((await caller.ask("Hello")).seconds * 1000)
            await asyncio.sleep(RELAY_PAUSE)
    finally:
        caller.close()


async def measure(port: int, seconds: float) -> list[Figure]:
    await wait_until_ready(port)
    asker, plain = Asker(port, "helper"), Asker(port, "plain")
    idle: list[float] = []
    during: list[float] = []
    control: list[float] = []
    unsearched: list[float] = []
    alone = await asker.ask_constantly(1, seconds)
    await relay_constantly(port, seconds / 2, idle)
    answers, busy = await asker.ask_in_bursts(seconds, during)
    with run_process(build_command("semantic_burn")) as process:
        await asyncio.to_thread(read_line, process)
        await relay_constantly(port, seconds, control)
        await plain.ask_in_bursts(seconds, unsearched)
    overload = await asker.ask_constantly(TOGETHER, seconds)
    one_by_one = sum(answer.searched for answer in alone) / seconds
    return [
        Figure("searches per second, bursts of 32", count_searched(answers) / busy, "/s", one_by_one, "one at a time"),
        Figure("bursts of 32, left to the tools for want of time", compute_shed_percent(answers), "%"),
        Figure("bursts of 32, slowest answer", compute_slowest_ms(answers), "ms"),
        Figure(
            "searches per second, 32 without a pause",
            count_searched(overload) / seconds,
            "/s",
            one_by_one,
            "one at a time",
        ),
        Figure("32 without a pause, left to the tools for want of time", compute_shed_percent(overload), "%"),
        Figure("32 without a pause, slowest answer", compute_slowest_ms(overload), "ms"),
        Figure("relay's p50 when nothing else happens", statistics.median(idle), "ms"),
        *(
            Figure("relay's p50 during bursts of 32", statistics.median(during), "ms", statistics.median(beside), name)
            for name, beside in (("control", control), ("control, same requests", unsearched))
        ),
    ]


def count_searched(answers: list[Answer]) -> int:
    return sum(answer.searched for answer in answers)


def compute_shed_percent(answers: list[Answer]) -> float:
    """Per cent."""
    return 100 * (1 - count_searched(answers) / len(answers))


def compute_slowest_ms(answers: list[Answer]) -> float:
    return max(answer.seconds for answer in answers) * 1000


def main(seconds: float) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as directory,
        subjects.run_upstream() as upstream,
        run_gateway(upstream, Path(directory)) as port,
    ):
        print_figures(asyncio.run(measure(port, seconds)))


if __name__ == "__main__":
    main(float(sys.argv[1]))
