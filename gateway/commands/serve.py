"""`gateway serve` and `gateway demo`: start the gateway, in one process or in several workers."""

from __future__ import annotations

import argparse
import gc
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from gateway.commands.common import CONFIG, POLICIES_HELP, Subparsers, load_command_settings, run_async
from gateway.errors import Fault, Faults

if TYPE_CHECKING:
    from gateway.settings import Settings

MAX_WORKERS = 64
DEMO = "demo"


def add_parser(subparsers: Subparsers) -> None:
    serve = subparsers.add_parser("serve", help="start the gateway")
    serve.add_argument("--config", type=Path, default=CONFIG, help="configuration file; default: config.yaml")
    demo = subparsers.add_parser("demo", help="serve the example policies with the built-in demo model")
    demo.set_defaults(config=None)
    for parser in (serve, demo):
        parser.add_argument("--host", help="address to listen on")
        parser.add_argument("--port", type=int, help="port to listen on; 0: the system picks one")
        parser.set_defaults(run=run)
    serve.add_argument("--policies", type=Path, help=POLICIES_HELP)
    demo.add_argument("--policies", type=Path, help="policy directory; default: the example policies")
    serve.add_argument(
        "--workers", type=parse_worker_count, default=1, metavar="N", help="number of worker processes; default: 1"
    )
    demo.set_defaults(workers=1)


def parse_worker_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_WORKERS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MAX_WORKERS}")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    gc.disable()  # until the gateway serves: a tenth of the start would go into looking for garbage
    try:
        return run_gateway(arguments)
    finally:
        gc.enable()


def run_gateway(arguments: argparse.Namespace) -> int:
    from gateway.edge.logs import log_as_json
    from gateway.redaction import build_redactor

    if arguments.config == CONFIG and not CONFIG.exists():
        message = "there is no such file; name another with --config, or use `gateway demo`, which needs none"
        raise Faults([Fault(str(CONFIG), 1, "(file)", message)])
    settings = load_command_settings(arguments)
    with log_as_json(settings.log, build_redactor(settings)):
        if arguments.workers > 1:
            return run_workers(settings, arguments)
        from gateway.worker import serve_alone

        return run_async(serve_alone(settings, partial(announce, settings)))


def run_workers(settings: Settings, arguments: argparse.Namespace) -> int:
    import asyncio

    from gateway.supervisor import Supervisor

    if settings.store == "memory:":
        message = "several workers cannot share a memory: store; use sqlite:/// or redis://"
        raise Faults([Fault(str(arguments.config), 1, "store", message)])
    return asyncio.run(Supervisor(settings, arguments.workers, partial(announce, settings)).run())


def announce(settings: Settings, host: str, port: int, keyed: bool | None) -> None:
    """Print where the gateway listens and how to try it; `keyed`: whether that takes a key, None: nobody knows."""
    from gateway.settings import is_loopback

    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    print(f"Context Gateway listens on {address}", flush=True)
    if not keyed and is_loopback(settings.listen.host):
        unless = "" if keyed is False else " unless the store has one"
        print(f"No API keys are configured: only this machine can connect, without a key{unless}.")
    if settings.console:
        print(f"Console: {address}/console", flush=True)
    example = format_example(address, choose_example_model(settings), needs_key=bool(keyed))
    key = "with a key of yours in $KEY" if keyed else ""
    print(f"Try it{', ' if key else ''}{key}:\n\n{example}\n", flush=True)


def choose_example_model(settings: Settings) -> str:
    """The default model if its upstream has a key, else the demo model."""
    from gateway.domain.name_pattern import matches_pattern

    model = settings.defaults.model or DEMO
    route = next((route for route in settings.routes if matches_pattern(route.model, model)), None)
    return model if route is not None and settings.upstreams[route.upstream].enabled else DEMO


def format_example(address: str, model: str, *, needs_key: bool = False) -> str:
    """A `curl` command that works as it stands with the example policies, once $KEY is set if it needs one."""
    question = {"role": "user", "content": "Which tone should our product pages have?"}
    body = orjson.dumps({"model": model, "messages": [question]}).decode()
    key = ' -H "Authorization: Bearer $KEY"' if needs_key else ""
    return f"curl -s {address}/v1/chat/completions{key} -H 'content-type: application/json' -d '{body}'"
