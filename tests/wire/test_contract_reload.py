"""The command itself: hot reload that swaps or keeps, and a drain that fails nobody."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import yaml

from tests.support.contract_policies import BODY, POLICIES, about, text
from tests.support.gateway_processes import read_first_line
from tests.support.upstream import Answer, Gate, Upstream, say

ROOT = Path(__file__).parents[2]
KIND = POLICIES["contexts"]["plain"]


class Served:
    """A gateway in a process of its own."""

    def __init__(self, directory: Path, base_url: str) -> None:
        self.policies = directory / "policies"
        self.policies.mkdir()
        self.write(POLICIES)
        config = {
            "listen": {"port": 0},
            "policies": "./policies",
            "store": "memory:",
            "secret": "a secret of the tests",
            "upstreams": {"scripted": {"kind": "openai", "base_url": base_url, "api_key": "k", "retries": 0}},
            "routes": [{"model": "*", "upstream": "scripted"}],
            "log": {"exchanges": False, "level": "error"},
        }
        (directory / "config.yaml").write_text(yaml.safe_dump(config))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gateway", "serve"],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.greeting = read_first_line(self.process)
        assert self.greeting, "the gateway did not start"
        self.url = self.greeting.split()[-1]

    def write(self, policies: dict[str, Any] | str) -> None:
        given = policies if isinstance(policies, str) else yaml.safe_dump(policies, sort_keys=False)
        (self.policies / "all.yaml").write_text(given)

    async def ready(self) -> tuple[int, dict[str, Any]]:
        async with aiohttp.ClientSession() as session, session.get(f"{self.url}/readyz") as response:
            return response.status, orjson.loads(await response.read())

    async def ready_when(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + 10
        while not holds((told := (await self.ready())[1])["policies"]):
            assert time.monotonic() < end, told
            await asyncio.sleep(0.05)
        return dict(told)

    async def chat(self, **said: str) -> aiohttp.ClientResponse:
        async with aiohttp.ClientSession() as session:
            url = f"{self.url}/v1/chat/completions"
            async with session.post(url, json=BODY, headers=about(**said)) as response:
                await response.read()
                return response


@contextmanager
def served(directory: Path, base_url: str) -> Iterator[Served]:
    serving = Served(directory, base_url)
    try:
        yield serving
    finally:
        serving.process.kill()
        serving.process.wait(10)
        assert serving.process.stdout is not None
        serving.process.stdout.close()


@pytest.fixture(scope="module")
def gateway_process(scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served"), scripted.base_url) as serving:
        yield serving


async def injected(serving: Served, upstream: Upstream, **said: str) -> str:
    upstream.will(say("Done."))
    assert (await serving.chat(**said)).status == 200
    return str(upstream.requests[-1]["messages"][0]["content"])


def changed(content: str) -> dict[str, Any]:
    plain = {"plain": {"resources": {"kind": text(content, name="Kind")}}}
    return POLICIES | {"contexts": POLICIES["contexts"] | plain}


@pytest.fixture
def fresh_process(scripted: Upstream, tmp_path: Path) -> Iterator[Served]:
    """One that has not loaded anything twice."""
    with served(tmp_path, scripted.base_url) as serving:
        yield serving


async def test_a_changed_file_is_picked_up_and_a_faulty_one_keeps_the_old_set(
    fresh_process: Served, upstream: Upstream
) -> None:
    serving = fresh_process
    assert "Be kind." in await injected(serving, upstream, agent="kind")
    before = (await serving.ready())[1]["policies"]
    assert (before["generation"], before["error"]) == (1, None)

    serving.write(changed("Be very kind."))
    told = await serving.ready_when(lambda policies: policies["generation"] == 2)
    assert told["policies"]["snapshot"] != before["snapshot"]
    assert "Be very kind." in await injected(serving, upstream, agent="kind")
    upstream.will(say("Done."))
    reply = await serving.chat()
    assert reply.headers["x-context-snapshot"] == told["policies"]["snapshot"]

    serving.write("contexts: {plain: {resorces: {}}}")
    told = await serving.ready_when(lambda policies: policies["error"] is not None)
    assert (told["status"], told["policies"]["generation"]) == ("ready", 2)
    assert "all.yaml:1: contexts.plain.resorces" in told["policies"]["error"]
    assert "Be very kind." in await injected(serving, upstream, agent="kind")

    serving.write("")  # opened, and not yet written
    told = await serving.ready_when(lambda policies: "is empty" in policies["error"])
    assert told["policies"]["generation"] == 2
    assert "Be very kind." in await injected(serving, upstream, agent="kind")

    serving.write(POLICIES)
    told = await serving.ready_when(lambda policies: policies["generation"] == 3)
    assert (told["policies"]["error"], told["policies"]["snapshot"]) == (None, before["snapshot"])


async def test_sighup_reloads_at_once(gateway_process: Served, upstream: Upstream) -> None:
    generation = (await gateway_process.ready())[1]["policies"]["generation"]
    gateway_process.process.send_signal(signal.SIGHUP)
    await gateway_process.ready_when(lambda policies: policies["generation"] == generation + 1)


async def test_sigterm_lets_what_runs_finish_and_exits_with_0(tmp_path: Path, upstream: Upstream) -> None:
    gate = Gate()
    upstream.will(Answer({"role": "assistant", "content": "Slow but whole"}, "stop", after_text=(gate,)))
    with served(tmp_path, upstream.base_url) as serving:
        async with aiohttp.ClientSession() as session:
            url = f"{serving.url}/v1/chat/completions"
            async with session.post(url, json=BODY | {"stream": True}) as response:
                await response.content.readany()
                serving.process.send_signal(signal.SIGTERM)
                await refused(serving)
                gate.open()
                rest = await response.read()
        assert rest.endswith(b"data: [DONE]\n\n")
        assert serving.process.wait(10) == 0


async def refused(serving: Served) -> None:
    """Wait until no new connection is accepted."""
    host, _, port = serving.url.removeprefix("http://").partition(":")
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection(host, int(port))
            writer.close()
        except ConnectionRefusedError:
            return
        except ConnectionResetError:
            pass  # it was just about to close
        await asyncio.sleep(0.02)
    raise AssertionError("it still accepts connections")


async def test_without_keys_it_says_that_only_this_machine_can_reach_it(gateway_process: Served) -> None:
    assert gateway_process.greeting.startswith("Context Gateway listens on http://127.0.0.1:")
    assert gateway_process.process.stdout is not None
    assert gateway_process.process.stdout.readline().startswith("No API keys are configured")
