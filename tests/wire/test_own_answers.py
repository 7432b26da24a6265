"""Answers stay with their asker: what an upstream says unasked reaches nobody, and bodies of GET go nowhere."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.support.gateway import Client, Thread, running_gateway
from tests.support.upstream import requests_on, wait_for

STRAY = b"an answer that nobody asked for"


class TalkativeUpstream:
    """Answers every request with its own question, then says something else on the idle connection."""

    def __init__(self) -> None:
        self.connections = 0
        self.pause = 0.0  # before the unasked reply
        self.strays = 0

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            async for seen in requests_on(reader):
                writer.write(build_reply(seen.json["messages"][-1]["content"].encode()))
                await writer.drain()
                await asyncio.sleep(self.pause)
                writer.write(build_reply(STRAY))
                await writer.drain()
                self.strays += 1
        except ConnectionError:
            pass
        finally:
            writer.close()


def build_reply(text: bytes) -> bytes:
    body = orjson.dumps({"choices": [{"index": 0, "message": {"content": text.decode()}, "finish_reason": "stop"}]})
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body


@pytest.fixture
def talkative() -> TalkativeUpstream:
    return TalkativeUpstream()


@pytest.fixture
def asked(thread: Thread, talkative: TalkativeUpstream, tmp_path: Path) -> Iterator[Client]:
    port = thread.run(talkative.start())
    with running_gateway(thread, tmp_path, f"http://127.0.0.1:{port}/v1") as client:
        yield client
    thread.run(talkative.stop())


@pytest.mark.parametrize("pause", [0.0, 0.005], ids=["with the answer", "while idle"])
async def test_an_unasked_reply_never_reaches_the_next_caller(
    asked: Client, talkative: TalkativeUpstream, pause: float
) -> None:
    talkative.pause = pause
    for number in range(30):
        answered = await asked.chat(f"question {number}")
        assert answered.text == f"question {number}"
        # What comes after the next question was sent looks like its answer; what came before never may.
        wait_for(lambda expected=number + 1: talkative.strays == expected)  # type: ignore[misc]
    assert talkative.connections == 30, "a connection on which something came unasked is never used again"
