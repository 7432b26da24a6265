"""Random interleavings of several tenants over one pool: every answer carries the mark of its own question.

A server that draws its conduct from a seed answers early, late, in pieces, half, twice or not at all, and sends replies
that nobody asked for; callers come at once, leave early, and send large bodies. Mutants of the connection show that the
test would notice an answer that went astray.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from gateway import errors
from gateway.domain.upstream import UpstreamRequest
from gateway.settings import TimeoutSettings
from gateway.upstreams import http_pool
from gateway.upstreams.http_connection import ConnectionState, HttpConnection
from gateway.upstreams.openai import OpenAIUpstream
from tests.unit.upstreams.scripted_server import Peer, talking

ROUNDS, TENANTS, QUESTIONS = 10, 6, 4
TIMEOUTS = TimeoutSettings(connect=2, first_byte=0.15, idle=0.15)
LATE_SECONDS = 0.3
STRAY = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"


def frame(mark: bytes, how: str) -> bytes:
    if how == "chunked":
        half = len(mark) // 2
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (mark[:half], mark[half:]))
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces + b"0\r\nX-T: 1\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(mark), mark)


class RandomServer:
    """Answers questions with their marks, most of the time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.seen: Counter[str] = Counter()
        self.idle: set[Peer] = set()  # answered, and waiting for the next request

    async def act(self, peer: Peer) -> None:
        try:
            while True:
                self.idle.add(peer)
                head = (await peer.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.idle.discard(peer)
                mark = head.split("user-agent: ")[1].split("\r\n")[0].encode()
                length = int(head.split("content-length: ")[1].split("\r\n")[0])
                await self._answer(peer, mark, length)
        finally:
            self.idle.discard(peer)

    async def _answer(self, peer: Peer, mark: bytes, length: int) -> None:
        conduct = self.chance.choice(list(CONDUCTS))
        self.seen[conduct] += 1
        if conduct != "early":
            await peer.reader.readexactly(length)
        reply = frame(mark, self.chance.choice(["length", "chunked"]))
        await CONDUCTS[conduct](self, peer, reply)
        if conduct == "early":
            await peer.reader.readexactly(length)

    def disturb(self) -> None:
        """No request is under way: send something over connections that are idle."""
        for peer in sorted(self.idle, key=lambda peer: peer.number):
            if self.chance.random() < 0.3 and not peer.writer.is_closing():
                self.seen["stray"] += 1
                peer.writer.write(self.chance.choice([STRAY, STRAY + STRAY, STRAY[:20], b"\r\n"]))

    async def answer(self, peer: Peer, reply: bytes) -> None:
        await peer.send(reply)

    async def pieces(self, peer: Peer, reply: bytes) -> None:
        while reply:
            size = self.chance.randint(1, 20)
            await peer.send(reply[:size])
            reply = reply[size:]
            await asyncio.sleep(0)

    async def interim(self, peer: Peer, reply: bytes) -> None:
        await peer.send(b"HTTP/1.1 103 Early Hints\r\nContent-Type: x\r\n\r\n")
        await asyncio.sleep(self.chance.choice([0, 0.002]))
        await peer.send(reply)

    async def twice(self, peer: Peer, reply: bytes) -> None:
        peer.writer.write(reply + self.chance.choice([reply, STRAY, STRAY[:9], b"\r\n", b"\r\n" + STRAY]))

    async def cut(self, peer: Peer, reply: bytes) -> None:
        await peer.send(reply[: self.chance.randrange(len(reply))])
        if self.chance.random() < 0.5:
            peer.reset()
        raise ConnectionError

    async def closing(self, peer: Peer, reply: bytes) -> None:
        await peer.send(reply.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"))
        raise ConnectionError

    async def late(self, peer: Peer, reply: bytes) -> None:
        at = self.chance.randrange(len(reply))
        await peer.send(reply[:at])
        await asyncio.sleep(LATE_SECONDS)
        with suppress(RuntimeError):  # uvloop's, when the client is gone
            await peer.send(reply[at:] + STRAY)


CONDUCTS: dict[str, Callable[[RandomServer, Peer, bytes], Any]] = {
    "answer": RandomServer.answer,
    "answer again": RandomServer.answer,  # as often as all this needs connections that live
    "answer still": RandomServer.answer,
    "early": RandomServer.answer,
    "pieces": RandomServer.pieces,
    "interim": RandomServer.interim,
    "twice": RandomServer.twice,
    "cut": RandomServer.cut,
    "closing": RandomServer.closing,
    "late": RandomServer.late,
}


class Tenants:
    """Callers who check that what they get is theirs."""

    def __init__(self, upstream: OpenAIUpstream, seed: int) -> None:
        self.upstream = upstream
        self.chance = random.Random(seed)
        self.outcomes: Counter[str] = Counter()
        self.astray: list[tuple[bytes, bytes]] = []

    async def run_round(self, number: int) -> None:
        await asyncio.gather(*(self._run_tenant(f"round-{number}/tenant-{name}") for name in range(TENANTS)))

    async def _run_tenant(self, name: str) -> None:
        for number in range(QUESTIONS):
            mark = f"{name}/question-{number}".encode()
            if self.chance.random() < 0.9:
                await self._ask(mark)
                continue
            call = asyncio.create_task(self._ask(mark))
            asyncio.get_running_loop().call_later(self.chance.random() * 0.01, call.cancel)
            with suppress(asyncio.CancelledError):
                await call
            self.outcomes["cancelled"] += call.cancelled()

    async def _ask(self, mark: bytes) -> None:
        padding = b" " * self.chance.choice([0, 10, 1000, 3_000_000])
        request = UpstreamRequest("/chat/completions", mark + padding, (("user-agent", mark.decode()),))
        try:
            reply = await self.upstream.send(request)
            try:
                body = await reply.read_all()
            finally:
                await reply.close()
        except errors.UpstreamError as error:
            self.outcomes[type(error).__name__] += 1
        else:
            self.outcomes["answered"] += 1
            if body != mark:
                self.astray.append((mark, body))


async def play(seed: int) -> tuple[Tenants, RandomServer, int]:
    """All rounds of one seed; returns the tenants, the server and how many connections there were."""
    server = RandomServer(seed)
    async with talking(server.act, timeouts=TIMEOUTS) as (upstream, listener):
        tenants = Tenants(upstream, seed)
        for number in range(ROUNDS):
            await tenants.run_round(number)
            server.disturb()
            for _ in range(server.chance.choice([0, 0, 3])):  # whether the loop sees it before the next question
                await asyncio.sleep(0.001)
        await asyncio.sleep(LATE_SECONDS)  # until the server has said its last
        return tenants, server, len(listener.peers)


@pytest.mark.parametrize("seed", range(6))
async def test_every_answer_carries_the_mark_of_its_question(seed: int) -> None:
    tenants, server, connections = await play(seed)
    assert tenants.astray == []
    assert sum(tenants.outcomes.values()) == ROUNDS * TENANTS * QUESTIONS
    assert tenants.outcomes["answered"] > 100
    asked = sum(count for conduct, count in server.seen.items() if conduct != "stray")
    assert connections < asked  # some were used again, or there would be nothing to see
    # Whether bytes come while a connection is idle depends on the machine; the mutants below show that they do.
    assert server.seen.keys() - {"stray"} == CONDUCTS.keys()
    assert tenants.outcomes.keys() >= {"UpstreamTimeout", "UpstreamTruncated", "UpstreamInvalid", "cancelled"}


class KeepsIdleBytes(HttpConnection):
    """A mutant: what comes while it is idle is taken for the beginning of the next reply."""

    stash = b""

    def is_quiet(self) -> bool:
        return self.state is ConnectionState.IDLE

    def send(self, *args: Any, **more: Any) -> None:
        super().send(*args, **more)
        if self.stash:
            stash, self.stash = self.stash, b""
            self.data_received(stash)

    def data_received(self, data: bytes) -> None:
        if self._sink is None:
            self.stash += data
        else:
            super().data_received(data)


class KeepsLeftover(KeepsIdleBytes):
    """A mutant: bytes after a reply are kept for the next one."""

    def data_received(self, data: bytes) -> None:
        for at in range(len(data)):
            super().data_received(data[at : at + 1])


class TrustsTheLoop(HttpConnection):
    """A mutant: does not look for bytes that the loop has not seen yet."""

    def is_quiet(self) -> bool:
        return self.state is ConnectionState.IDLE


async def count_astray() -> int:
    """How many answers go astray, until some do."""
    for seed in range(6):
        tenants, _, _ = await play(seed)
        if tenants.astray:
            return len(tenants.astray)
    return 0


@pytest.mark.parametrize("mutant", [KeepsIdleBytes, KeepsLeftover])
async def test_a_connection_that_is_used_in_spite_of_bytes_left_over_would_be_noticed(
    mutant: type[HttpConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_pool, "HttpConnection", mutant)
    assert await count_astray() > 0


@pytest.mark.asyncio(loop_factories=["asyncio"])  # uvloop reads sockets before it runs tasks
async def test_a_connection_that_trusts_the_loop_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_pool, "HttpConnection", TrustsTheLoop)
    assert await count_astray() > 0
