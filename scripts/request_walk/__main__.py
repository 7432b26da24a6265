"""Trace one chat request through the files of gateway/ and count what it touches.

The request names an agent and a content node, gets always, semantic and on-demand resources, and streams a mixed turn:
one call of get_context_resource and one of a client's tool. A gateway is built in this process from files in a
temporary directory, its chat endpoint is called directly, and a model endpoint on loopback sends one event at a time.
The request is sent twice once the semantic index is ready: cold, while the snapshot remembers nothing of its scope and
its question, and warm.

files         files under gateway/ in which at least one function was entered or resumed, that is, had a "call" event of
              sys.setprofile
switches      consecutive "call" events of one thread in two different files under gateway/; libraries in between and
              returns do not count, and a job of a thread pool begins anew
header walks  iterations begun over the raw header list of the request; making a copy is one, using the copy is none

All threads count. Background work (whatever Gateway.running() starts: watching files, indexing …) does not.
"""

import argparse
import asyncio
import importlib
import json
import logging
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.request_walk import scenario
from scripts.request_walk.checkout import NoGateway, use_checkout
from scripts.request_walk.client import post
from scripts.request_walk.model_endpoint import ModelEndpoint
from scripts.request_walk.scenario import UnexpectedExchange
from scripts.request_walk.trace import IN_BACKGROUND, CallTracer, CountedHeaders, Walk

ROOT = Path(__file__).resolve().parent.parent.parent
PROBES, PROBE_SECONDS = 300, 0.1


@dataclass(frozen=True)
class Figures:
    """What was counted of the two requests."""

    cold: Walk
    warm: Walk

    def to_json(self) -> dict[str, dict[str, int]]:
        walks = {"cold": self.cold, "warm": self.warm}
        return {
            "files": {name: len(walk.calls) for name, walk in walks.items()},
            "switches": {name: walk.switches for name, walk in walks.items()},
            "header_walks": {name: walk.header_walks for name, walk in walks.items()},
        }


def main() -> int:
    given = build_parser().parse_args()
    tracer = CallTracer()
    tracer.install()  # before any thread of the gateway is started
    logging.getLogger("gateway.watchdog").disabled = True  # tracing itself slows the loop down
    with tempfile.TemporaryDirectory(prefix="walk-") as directory:
        try:
            package = use_checkout(given.tree.resolve(), Path(directory) / "installed")
            figures = asyncio.run(measure(tracer, package, Path(directory)))
        except (NoGateway, UnexpectedExchange) as error:
            sys.exit(str(error))
    print(format_figures(figures))
    if given.files:
        print(format_files(figures))
    if given.json is not None:
        given.json.write_text(json.dumps(figures.to_json(), indent=2) + "\n")
    return 0


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/walk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to measure (default: this one)")
    parser.add_argument("--files", action="store_true", help="also list the files with their calls")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to a file")
    return parser


async def measure(tracer: CallTracer, package: Path, directory: Path) -> Figures:
    async with ModelEndpoint() as model:
        config = scenario.write_config(directory, model.base_url)
        async with run_endpoint(config) as endpoint:
            await wait_for_index(endpoint)
            cold = await trace_request(tracer, package, endpoint, model)
            return Figures(cold, await trace_request(tracer, package, endpoint, model))


@asynccontextmanager
async def run_endpoint(config: Path) -> AsyncIterator[Any]:
    """The chat endpoint of a gateway at work; nothing else in this package knows a name of the gateway's code."""
    load_settings: Any = importlib.import_module("gateway.settings_loader").load_settings
    gateway: Any = await importlib.import_module("gateway.app").Gateway.open(load_settings(config))
    mark = IN_BACKGROUND.set(True)
    async with gateway.running():
        IN_BACKGROUND.reset(mark)
        yield gateway.build_app(draining=lambda: False).direct[0]


async def wait_for_index(endpoint: Any) -> None:
    """Ask for a semantic resource that the traced request does not see, until it is picked."""
    headers, body = scenario.build_headers(agent="probe"), scenario.build_body(scenario.PROBE_QUESTION)
    for _ in range(PROBES):
        reply = await post(endpoint, headers, body)
        if reply.headers.get("x-context-injected") == "1":
            return
        await asyncio.sleep(PROBE_SECONDS)
    raise UnexpectedExchange(
        f"No semantic resource was picked within {PROBES * PROBE_SECONDS:.0f} s. "
        f"Has scripts/model built the embedding model? The last reply: {reply.status} {reply.body!r}"
    )


async def trace_request(tracer: CallTracer, package: Path, endpoint: Any, model: ModelEndpoint) -> Walk:
    # A session of its own: what the model fetched in one is placed at once in the next request of it.
    session = f"walk-{len(model.requests)}"
    headers = CountedHeaders(scenario.build_headers(agent="helper", content="site/faq", session=session))
    body = scenario.build_body(scenario.QUESTION, stream=True, tools=[scenario.CLIENT_TOOL])
    with tracer.follow(package) as walk:
        reply = await post(endpoint, headers, body)
    scenario.check_exchange(reply, model.requests[-1])
    walk.header_walks = headers.walks
    return walk


def format_figures(figures: Figures) -> str:
    lines = [f"{'':44}{'cold':>8}{'warm':>8}"]
    for name, row in figures.to_json().items():
        lines.append(f"{name.replace('_', ' '):44}{row['cold']:8}{row['warm']:8}")
    return "\n".join(lines)


def format_files(figures: Figures) -> str:
    lines = [f"\n{'calls into':44}{'cold':>8}{'warm':>8}"]
    for file in sorted(figures.cold.calls | figures.warm.calls):
        lines.append(f"{file:44}{figures.cold.calls[file]:8}{figures.warm.calls[file]:8}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
