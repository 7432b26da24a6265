"""The `gateway` command: serve, demo, check, resolve, index, eval."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import uvicorn
import uvloop

from gateway.app import Gateway, check_policies
from gateway.commands.evaluate import Wish, evaluate, shown_as_text
from gateway.commands.index import Shown, build_index, patient, searchable
from gateway.domain.exchange import Exchange
from gateway.domain.principal import Principal
from gateway.edge.logs import configure_logging
from gateway.edge.server import build_server
from gateway.errors import Fault, Faults, GatewayError, StoreError
from gateway.evaluation.cases import Targets
from gateway.preview import as_text, preview
from gateway.settings import Overrides, Settings, load_settings

OK, FAULT = 0, 1  # argparse exits with 2 by itself
CONFIG = Path("config.yaml")
HEADERS = (
    *("session", "agent", "profile", "prompt", "content", "task", "user"),
    *("language", "type", "budget", "include", "exclude", "inject"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 ok, 1 fault, 2 usage."""
    given = parser().parse_args(arguments)
    try:
        return int(given.run(given))
    except Faults as faults:
        report(faults.faults, given)
    except (StoreError, GatewayError, OSError) as error:
        print(f"gateway: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return OK
    return FAULT


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="gateway", description="An OpenAI-compatible proxy that adds context.")
    commands = root.add_subparsers(required=True, metavar="COMMAND")

    serve_ = commands.add_parser("serve", help="answer requests")
    serve_.add_argument("--config", type=Path, default=CONFIG)
    demo = commands.add_parser("demo", help="serve the example policies with the built-in demo model, without a config")
    demo.set_defaults(config=None)
    for command in (serve_, demo):
        command.add_argument("--host")
        command.add_argument("--port", type=int)
        command.add_argument("--policies", type=Path)
        command.set_defaults(run=serve)
    serve_.add_argument("--workers", type=int, choices=[1], default=1, help="one process, for now")

    check_ = commands.add_parser("check", help="validate configuration and policies")
    check_.add_argument("--config", type=Path, default=likely_config())
    check_.add_argument("--policies", type=Path)
    check_.add_argument("--json", action="store_true")
    check_.set_defaults(run=check)

    resolve_ = commands.add_parser("resolve", help="show the exact outgoing request and why each thing is in it")
    resolve_.add_argument("--config", type=Path, default=likely_config())
    resolve_.add_argument("--policies", type=Path)
    resolve_.add_argument("--model")
    for name in HEADERS:
        resolve_.add_argument(f"--{name}", help=f"as the header x-context-{name}")
    resolve_.add_argument("--json", action="store_true")
    resolve_.add_argument("question", metavar="QUESTION")
    resolve_.set_defaults(run=resolve)

    index_ = commands.add_parser("index", help="embed what the search by meaning has no vector of yet")
    index_.add_argument("--config", type=Path, default=likely_config())
    index_.add_argument("--policies", type=Path)
    index_.set_defaults(run=index)

    eval_ = commands.add_parser("eval", help="try questions and compare what is injected with what is expected")
    eval_.add_argument("--config", type=Path, default=likely_config())
    eval_.add_argument("--policies", type=Path)
    eval_.add_argument("--model")
    eval_.add_argument("--min-precision", type=share, metavar="X")
    eval_.add_argument("--min-recall", type=share, metavar="X")
    eval_.add_argument("--max-false", type=share, metavar="X")
    eval_.add_argument("--fit", type=Path, metavar="FILE", help="refit the calibration on the cases and write it there")
    eval_.add_argument("--json", action="store_true")
    eval_.add_argument("cases", type=Path, metavar="CASES")
    eval_.set_defaults(run=evaluation)
    return root


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def likely_config() -> Path | None:
    """What `serve` would read here; None, the built-in demo, where there is no such file."""
    return CONFIG if CONFIG.is_file() else None


def settings_for(given: argparse.Namespace) -> Settings:
    said = vars(given)
    return load_settings(given.config, overrides=Overrides(said.get("host"), said.get("port"), said.get("policies")))


def serve(given: argparse.Namespace) -> int:
    settings = settings_for(given)
    configure_logging(settings.log)
    return uvloop.run(answer_requests(settings))


async def answer_requests(settings: Settings) -> int:
    gateway = await Gateway.open(settings)
    server: uvicorn.Server | None = None
    app = gateway.router(draining=lambda: server is not None and server.should_exit)
    server = build_server(app, settings)
    # After its drain uvicorn raises the signal once more; by then it has done its work.
    signal.signal(signal.SIGTERM, lambda *_: None)
    async with gateway.running():
        announcing = asyncio.create_task(announce(server, settings))
        await server.serve()
        announcing.cancel()
    return OK if server.started else FAULT


async def announce(server: uvicorn.Server, settings: Settings) -> None:
    """Tell a person where the gateway is and how to try it."""
    while not server.started:  # noqa: ASYNC110  (uvicorn offers no event to wait for)
        await asyncio.sleep(0.02)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    print(f"Context Gateway listens on {address}", flush=True)
    if not settings.auth.keys:
        print("No API keys are configured: only this machine can reach it.", flush=True)
    print(f"Try it:\n\n{example(address, settings.defaults.model or 'demo')}\n", flush=True)


def example(address: str, model: str) -> str:
    """A line that works as it stands with the example policies."""
    question = {"role": "user", "content": "Which tone should our product pages have?"}
    body = orjson.dumps({"model": model, "messages": [question]}).decode()
    return f"curl -s {address}/v1/chat/completions -H 'content-type: application/json' -d '{body}'"


def check(given: argparse.Namespace) -> int:
    settings = settings_for(given)
    snapshot = check_policies(settings)
    counts = {
        "contexts": len(snapshot.contexts),
        "resources": len(snapshot.resources),
        "profiles": len(snapshot.profiles),
        "agents": len(snapshot.agents),
        "prompts": len(snapshot.prompts),
        "nodes": len(snapshot.nodes),
    }
    if given.json:
        print(orjson.dumps({"ok": True, "snapshot": snapshot.hash[:12], "faults": [], **counts}).decode())
    else:
        print(f"ok: {', '.join(f'{number} {noun}' for noun, number in counts.items())}")
    return OK


def resolve(given: argparse.Namespace) -> int:
    return uvloop.run(show(settings_for(given), given))


async def show(settings: Settings, given: argparse.Namespace) -> int:
    gateway = await Gateway.open(patient(settings))
    try:
        said = {name: value for name in HEADERS if (value := getattr(given, name)) is not None}
        headers = [(f"x-context-{name}".encode(), quote(value).encode()) for name, value in said.items()]
        message: dict[str, Any] = {"messages": [{"role": "user", "content": given.question}]}
        if given.model:
            message["model"] = given.model
        # Whoever can run this command can read the policies: it may look at them with any user's eyes.
        operator = Principal("operator", rights=frozenset({"act_as_user", "admin"}))
        exchange = Exchange("preview", operator, gateway.policies.current, headers)
        async with searchable(gateway, Shown(sys.stderr)):
            shown = await preview(gateway.pipeline, exchange, orjson.dumps(message))
    finally:
        await gateway.close()
    print(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode() if given.json else as_text(shown))
    return OK


def index(given: argparse.Namespace) -> int:
    print(uvloop.run(build_index(settings_for(given), sys.stderr)).as_text())
    return OK


def evaluation(given: argparse.Namespace) -> int:
    targets = Targets(precision=given.min_precision, recall=given.min_recall, false_injections=given.max_false)
    shown = uvloop.run(evaluate(settings_for(given), Wish(given.cases, targets, given.model, given.fit)))
    print(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode() if given.json else shown_as_text(shown))
    return OK if shown["ok"] else FAULT


def report(faults: list[Fault], given: argparse.Namespace) -> None:
    if getattr(given, "json", False):
        listed = [{"file": f.file, "line": f.line, "path": f.path, "message": f.message} for f in faults]
        print(orjson.dumps({"ok": False, "faults": listed}).decode())
        return
    for fault in faults:
        print(fault, file=sys.stderr if given.run is serve else sys.stdout)
