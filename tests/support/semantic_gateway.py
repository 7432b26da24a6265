"""Gateways that search by meaning: their policies, their background work, and an embeddings endpoint that can fail."""

import asyncio
import hashlib
import re
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from gateway.semantic.search.scoring import FEATURES
from tests.support.contract_policies import names_in, system_text, text
from tests.support.gateway import Client, ClientReply, Thread
from tests.support.upstream import Upstream, requests_on, say
from tests.support.yaml_texts import to_yaml

WIDTH = 512
PASSWORD = "Reset a forgotten password on the account settings page."
INVOICE = "Download the monthly invoice from the billing page."
REFUND = "We refund a damaged parcel within thirty days."
# Passages of a long text; only one of them answers a question about stripes.
LONG = "\n\n".join(f"Section {number} of the animal book. " + f"lorem{number} " * 40 for number in range(30))
RESOURCES: dict[str, Any] = {
    "voice": text("Write plainly.", name="Voice"),
    "password": text(PASSWORD, name="Password", mode="semantic", description="What to do about passwords"),
    "invoice": text(INVOICE, name="Invoice", mode="semantic", description="Where invoices are"),
    "refund": text(REFUND, name="Refund", mode="semantic", description="How money comes back"),
    "animals": text(f"{LONG}\n\nZebras have black and white stripes.", name="Animals", mode="on_demand"),
}
POLICIES: dict[str, Any] = {
    "contexts": {"help": {"resources": RESOURCES}, "other": {"resources": {"kind": text("Be kind.", name="Kind")}}},
    "agents": {
        "helper": {"contexts": ["help"]},
        "eager": {"contexts": ["help"], "selection": {"preset": "aggressive"}},
        "strict": {"contexts": ["help"], "selection": {"include_score": 1.0, "min_score": 1.0}},
        "kind": {"contexts": ["other"]},
    },
}
ASKED = "How do I reset a forgotten password of my account?"


class Embeddings:
    """An OpenAI-compatible endpoint to which texts mean the words they hold; `fault` says how it fails."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.fault = ""
        self.holds: str | None = None  # texts with this word are not answered until it is None again
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def settings(self) -> dict[str, Any]:
        return {"kind": "openai", "base_url": f"http://127.0.0.1:{self.port}/v1", "model": "bag"}

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async for seen in requests_on(reader):
                status, body = await self._answer(seen.json["input"])
                writer.write(b"HTTP/1.1 %d x\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    def _stuck(self, texts: list[str]) -> bool:
        return self.fault == "hangs" or (self.holds is not None and any(self.holds in one for one in texts))

    async def _answer(self, texts: list[str]) -> tuple[int, bytes]:
        self.texts += texts
        while self._stuck(texts):  # noqa: ASYNC110, the tests are in another thread
            await asyncio.sleep(0.005)
        if self.fault == "fails":
            return 500, b"{}"
        vectors = [vector(one) for one in texts]
        if self.fault == "zeros":
            vectors = [[0.0] * WIDTH for _ in texts]
        if self.fault == "too few":
            vectors = vectors[1:]
        if self.fault == "shorter":
            vectors = [row[:5] for row in vectors]
        rows = [{"index": at, "embedding": row} for at, row in enumerate(vectors)]
        body = orjson.dumps({"data": rows})
        return 200, body.replace(b"0.0", b"NaN") if self.fault == "nan" else body


def vector(asked: str) -> list[float]:
    """A dimension per word."""
    counts = np.zeros(WIDTH)
    for word in set(re.findall(r"\w+", asked.lower())):
        counts[int.from_bytes(hashlib.sha256(word.encode()).digest()[:8]) % WIDTH] = 1
    found: list[float] = counts.tolist()
    return found


@contextmanager
def running_embeddings(thread: Thread) -> Iterator[Embeddings]:
    endpoint = Embeddings()
    thread.run(endpoint.start())
    try:
        yield endpoint
    finally:
        endpoint.fault, endpoint.holds = "", None
        thread.run(endpoint.stop())


def write_cosine_calibration(directory: Path) -> str:
    """A calibration by which the probability is one half at a cosine of .3, whatever else is known."""
    path = directory / "by-cosine.json"
    path.write_bytes(orjson.dumps({"features": FEATURES, "intercept": -9.0, "weights": {"dense": 30.0}}))
    return str(path)


@contextmanager
def run_indexing(client: Client) -> Iterator[None]:
    """The gateway's background work: the harness serves requests only."""
    assert client.app.semantic is not None
    running = asyncio.run_coroutine_threadsafe(client.app.semantic.run(), client.thread.loop)
    try:
        yield
    finally:
        running.cancel()
        with suppress(CancelledError):
            running.result(10)


def wait_until_indexed(client: Client) -> None:
    """Wait until the newest policies can be searched."""
    assert client.app.semantic is not None
    client.thread.run(asyncio.wait_for(client.app.semantic.wait_until_indexed(), 20))


def rewrite(client: Client, policies: dict[str, Any]) -> None:
    """Change the policies of a running gateway."""
    path = Path(client.app.settings.policies) / "all.yaml"
    path.write_text(to_yaml(policies))
    client.thread.run(client.app.reload())


async def ask_and_list_injected(
    client: Client, upstream: Upstream, asked: Any = ASKED, **said: Any
) -> tuple[ClientReply, list[str]]:
    """The answer to a question, and the names of what was placed for it."""
    upstream.will(say("Done."))
    answered = await client.chat(asked, **{"agent": "helper", **said})
    assert answered.status == 200, answered.raw
    return answered, names_in(upstream.requests[-1])


def catalogue(request: dict[str, Any]) -> list[str]:
    """The ids that an outgoing request offers, if it also has the tool to fetch them."""
    tools = [tool["function"]["name"] for tool in request.get("tools", ())]
    listed = re.findall(r"\(ID: ([^)]+)\)", system_text(request))
    return listed if "get_context_resource" in tools else []
