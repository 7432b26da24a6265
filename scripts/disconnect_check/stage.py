"""A whole gateway in this process, with its background work, in front of the two servers of the cases."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gateway.app import Gateway
from gateway.domain.receipt import Receipt, ReceiptFilter
from gateway.edge.server import build_server
from gateway.settings import Settings
from scripts.disconnect_check.case import Case
from scripts.disconnect_check.servers import Embeddings, Model

PACKAGE = str(Path(__file__).resolve().parent.parent.parent / "gateway")
READY_SECONDS = 60.0
LONG_TEXT = "\n\n".join(f"Chapter {number} of the book. " + "word " * 90 for number in range(40))


def make_text(content: str, mode: str) -> dict[str, Any]:
    return {"type": "text", "mode": mode, "description": "For the cases", "data": {"content": content}}


POLICIES: dict[str, Any] = {
    "contexts": {
        "help": {
            "resources": {
                "rule": make_text("Be brief.", "always"),
                "note": make_text("A short note.", "on_demand"),
                "book": make_text(LONG_TEXT, "on_demand"),
            }
        },
        "search": {"resources": {"found": make_text("What a search may find.", "semantic")}},
    },
    "agents": {"plain": {"contexts": ["help"]}, "searching": {"contexts": ["help", "search"]}},
}


@dataclass(frozen=True, slots=True)
class Usage:
    """What the gateway holds while no client is there."""

    tasks: tuple[str, ...]  # their coroutines
    descriptors: int  # of this process, without those of connections that are kept open on purpose


@dataclass(slots=True)
class Stage:
    """Where everything listens, and what can be seen of it."""

    gateway: Gateway
    model: Model
    embeddings: Embeddings
    port: int

    def measure(self) -> Usage:
        kept = 2 * (self.model.open_count + self.embeddings.open_count)  # both ends are in this process
        return Usage(list_gateway_tasks(), len(os.listdir("/proc/self/fd")) - kept)

    async def list_receipts(self) -> list[Receipt]:
        found: list[Receipt] = []
        after = None
        while True:
            page = await self.gateway.receipts.list_page("default", ReceiptFilter(), after, 500, whole=False)
            found += page.receipts
            if (after := page.next) is None:
                return found


def list_gateway_tasks() -> tuple[str, ...]:
    """The coroutines of the gateway's tasks."""
    running = [task.get_coro() for task in asyncio.all_tasks()]
    codes = [code for one in running if (code := getattr(one, "cr_code", None)) is not None]
    return tuple(sorted(code.co_qualname for code in codes if code.co_filename.startswith(PACKAGE)))


def make_settings(directory: Path, model: int, embeddings: int) -> Settings:
    policies = directory / "policies"
    policies.mkdir()
    (policies / "all.yaml").write_text(yaml.safe_dump(POLICIES, sort_keys=False))
    return Settings.model_validate(
        {
            "policies": str(policies),
            "store": f"sqlite:///{directory}/gateway.db",
            "upstreams": {"model": {"kind": "openai", "base_url": f"http://127.0.0.1:{model}/v1", "retries": 0}},
            "routes": [{"model": "*", "upstream": "model"}],
            "semantic": {
                "embedder": {"kind": "openai", "base_url": f"http://127.0.0.1:{embeddings}/v1", "model": "m"},
                "milliseconds": 6000,
            },
            "limits": {"drain_seconds": 1},
            "log": {"exchanges": False, "level": "error"},
        }
    )


@asynccontextmanager
async def open_stage(directory: Path, cases: Mapping[int, Case]) -> AsyncGenerator[Stage]:
    """Everything started, and what can be searched indexed."""
    model, embeddings = Model(cases), Embeddings(cases)
    await model.start()
    await embeddings.start()
    settings = make_settings(directory, model.port, embeddings.port)
    gateway = await Gateway.open(settings)
    server = build_server(gateway.build_app(draining=lambda: False), settings)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    async with gateway.running():
        serving = asyncio.create_task(server.serve([listener]))
        try:
            async with asyncio.timeout(READY_SECONDS):
                assert gateway.semantic is not None
                await gateway.semantic.wait_until_indexed()
                while not server.started:  # noqa: ASYNC110  (uvicorn offers no event to wait for)
                    await asyncio.sleep(0.01)
            yield Stage(gateway, model, embeddings, listener.getsockname()[1])
        finally:
            server.should_exit = True
            await serving
            await model.stop()
            await embeddings.stop()
