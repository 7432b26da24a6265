"""A large request holds a bounded multiple of its size in memory, in every dialect and with any number of items.

The upstream is another process and the client writes bytes that were there before, so that whatever tracemalloc counts
belongs to the gateway. What it counts does not depend on the machine.
"""

import gc
import http.client
import tracemalloc
from collections.abc import Iterator

import orjson
import pytest

from scripts.benchmark import subjects
from scripts.benchmark.dialects import build_settings
from tests.support.gateway import Client, Thread, running_gateway

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
LARGEST = 5 * 1024 * 1024  # bytes
MANY = 10_000  # items
STEPS = (1, 2, 4)
NATIVE, CLAUDE, PLAIN = "bench", "messages-bench", "plain-bench"  # models of upstreams that speak different dialects
# Bodies that are held at once at most: as it came in pieces and whole, and half of the outgoing one while it grows.
MULTIPLE = 3.0
TRANSLATED_MULTIPLE = 7.0  # which is read field by field, and written again
GROWTH = 1.15  # of the multiple from the smallest to the largest body: what is fixed weighs less in the largest


@pytest.fixture(scope="module")
def gateway(thread: Thread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with subjects.run_upstream() as port:
        directory = tmp_path_factory.mktemp("memory")
        settings = build_settings(port)
        settings["upstreams"]["plain"] = {"kind": "openai", "base_url": f"http://127.0.0.1:{port}/v1"}
        settings["routes"].insert(0, {"model": PLAIN, "upstream": "plain"})
        with running_gateway(thread, directory, f"http://127.0.0.1:{port}/v1", **settings) as client:
            yield client


def build_body(dialect: str, model: str, size: int, items: int) -> bytes:
    """A request of about so many bytes, which so many messages share evenly."""
    word = "A sentence that says something, in plain words. "
    text = (word * (size // items // len(word) + 1))[: size // items - 40]
    said = [{"role": "user" if at % 2 else "assistant", "content": text} for at in range(items - 1, -1, -1)]
    said[-1]["role"] = "user"
    if dialect == "responses":
        return orjson.dumps({"model": model, "input": said})
    return orjson.dumps({"model": model, "max_tokens": 9, "messages": said})


def measure_peak(gateway: Client, path: str, body: bytes, agent: str) -> int:
    """The most that the gateway held at once while it served a request, beyond what it held before."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
    connection.connect()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    headers = {"content-type": "application/json", "x-context-agent": agent}
    connection.request("POST", path, memoryview(body), headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200
    return tracemalloc.get_traced_memory()[1] - before


@pytest.mark.parametrize(
    ("dialect", "model", "items", "agent", "limit"),
    [
        ("chat", NATIVE, MANY, "editor", MULTIPLE),
        ("responses", NATIVE, MANY, "bare", MULTIPLE),  # relayed as it is
        ("responses", NATIVE, MANY, "editor", MULTIPLE),  # with texts and tools
        ("responses", NATIVE, 1, "editor", MULTIPLE),
        ("messages", CLAUDE, MANY, "editor", MULTIPLE),
        ("messages", CLAUDE, 1, "editor", MULTIPLE),
        ("responses", PLAIN, MANY, "editor", TRANSLATED_MULTIPLE),
        ("messages", PLAIN, MANY, "editor", TRANSLATED_MULTIPLE),
    ],
)
def test_memory_is_a_bounded_multiple_of_the_body(
    gateway: Client, dialect: str, model: str, items: int, agent: str, limit: float
) -> None:
    path, most = PATHS[dialect], STEPS[-1]
    shares = [(LARGEST * step // most, max(1, items * step // most)) for step in STEPS]
    bodies = [build_body(dialect, model, size, count) for size, count in shares]
    measure_peak(gateway, path, build_body(dialect, model, 2000, 1), agent)  # what is loaded or built once
    tracemalloc.start()
    try:
        multiples = [measure_peak(gateway, path, body, agent) / len(body) for body in bodies]
    finally:
        tracemalloc.stop()
    assert max(multiples) <= limit
    assert multiples[-1] <= GROWTH * multiples[0]
