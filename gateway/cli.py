"""The `gateway` command: serve, demo, check, resolve, index, eval, export, import, keys."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import uvloop

from gateway.app import Gateway, check_policies
from gateway.commands.arguments import bundle_parsers, keys_parsers
from gateway.domain.exchange import Exchange
from gateway.domain.principal import Principal
from gateway.edge.auth import NO_KEYS
from gateway.edge.logs import json_logging
from gateway.errors import Fault, Faults, GatewayError, StoreError
from gateway.settings import Settings, SettingsOverrides, is_loopback, load_settings
from gateway.supervisor import Supervisor
from gateway.worker import serve_alone

# Commands import what they run when they run: whoever serves chats does not wait for what manages policies.
OK, FAULT = 0, 1  # argparse exits with 2 by itself
CONFIG = Path("config.yaml")
MOST_WORKERS = 64
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
    serve_.add_argument("--workers", type=workers, default=1, metavar="N", help="processes that share the address")
    demo.set_defaults(workers=1)

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
    index_.add_argument("--all", action="store_true", help="on-demand resources too where nothing is semantic")
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

    export_, import_ = bundle_parsers(commands, likely_config())
    export_.set_defaults(run=export_bundle)
    import_.set_defaults(run=import_bundle)

    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--config", type=Path, default=likely_config())
    shared.add_argument("--json", action="store_true")
    for action, command in keys_parsers(commands, shared).items():
        command.set_defaults(run={"create": create_key, "list": list_keys, "revoke": revoke_key}[action])
    return root


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def workers(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1 to {MOST_WORKERS}")
    return int(text)


def likely_config() -> Path | None:
    """What `serve` would read here; None, the built-in demo, where there is no such file."""
    return CONFIG if CONFIG.is_file() else None


def settings_for(given: argparse.Namespace) -> Settings:
    said = vars(given)
    return load_settings(
        given.config, overrides=SettingsOverrides(said.get("host"), said.get("port"), said.get("policies"))
    )


def serve(given: argparse.Namespace) -> int:
    settings = settings_for(given)
    tell = partial(announce, settings)
    with json_logging(settings.log):
        if given.workers == 1:
            return uvloop.run(serve_alone(settings, tell))
        if settings.store == "memory:":
            message = "memory: is shared by nobody; several workers need a sqlite:/// or redis:// store"
            raise Faults([Fault(str(given.config), 1, "store", message)])
        return asyncio.run(Supervisor(settings, given.workers, tell).run())


def announce(settings: Settings, host: str, port: int) -> None:
    """Tell a person where the gateway is and how to try it."""
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    print(f"Context Gateway listens on {address}", flush=True)
    if not settings.auth.keys and is_loopback(settings.listen.host):
        print("No API keys are configured: only this machine can reach it; stored keys count, too.", flush=True)
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
    if not settings.auth.keys and not is_loopback(settings.listen.host):
        # Whether there is a stored key cannot be known here.
        print(f"note: listen.host {NO_KEYS}", file=sys.stderr)
    return OK


def resolve(given: argparse.Namespace) -> int:
    return uvloop.run(show(settings_for(given), given))


async def show(settings: Settings, given: argparse.Namespace) -> int:
    from gateway.commands.index import Shown, patient, searchable
    from gateway.preview import as_text, preview

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
    from gateway.commands.index import build_index

    print(uvloop.run(build_index(settings_for(given), sys.stderr, given.all)).as_text())
    return OK


def evaluation(given: argparse.Namespace) -> int:
    from gateway.commands.evaluate import EvaluationOptions, evaluate, shown_as_text
    from gateway.evaluation.cases import Targets

    targets = Targets(precision=given.min_precision, recall=given.min_recall, false_injections=given.max_false)
    shown = uvloop.run(evaluate(settings_for(given), EvaluationOptions(given.cases, targets, given.model, given.fit)))
    print(orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode() if given.json else shown_as_text(shown))
    return OK if shown["ok"] else FAULT


def create_key(given: argparse.Namespace) -> int:
    from gateway.commands import keys

    made = uvloop.run(keys.create(settings_for(given), keys.wish_of(given), given.workspace))
    print(orjson.dumps(made.held.data | {"key": made.secret}).decode() if given.json else keys.made_as_text(made))
    return OK


def list_keys(given: argparse.Namespace) -> int:
    from gateway.commands import keys

    held = uvloop.run(keys.listed(settings_for(given), given.workspace))
    print(orjson.dumps([one.data for one in held]).decode() if given.json else keys.table(held))
    return OK


def revoke_key(given: argparse.Namespace) -> int:
    from gateway.commands import keys

    uvloop.run(keys.revoke(settings_for(given), given.id))
    print(orjson.dumps({"revoked": given.id}).decode() if given.json else f"{given.id} is revoked.")
    return OK


def export_bundle(given: argparse.Namespace) -> int:
    from gateway.commands import bundle

    stored = given.source == "stored"
    text = uvloop.run(bundle.export(settings_for(given), given.workspace, form=given.format, stored=stored))
    print(text, end="")
    return OK


def import_bundle(given: argparse.Namespace) -> int:
    from gateway.commands import bundle
    from gateway.control.imports import ImportOptions

    wish = ImportOptions(given.replace, given.dry_run)
    steps = uvloop.run(bundle.take_over(settings_for(given), given.workspace, given.file, wish))
    if given.json:
        print(orjson.dumps(bundle.steps_as_data(steps, dry_run=wish.dry_run), option=orjson.OPT_INDENT_2).decode())
    else:
        print(bundle.steps_as_text(steps, dry_run=wish.dry_run))
    return OK


def report(faults: list[Fault], given: argparse.Namespace) -> None:
    if getattr(given, "json", False):
        listed = [{"file": f.file, "line": f.line, "path": f.path, "message": f.message} for f in faults]
        print(orjson.dumps({"ok": False, "faults": listed}).decode())
        return
    for fault in faults:
        print(fault, file=sys.stderr if given.run is serve else sys.stdout)
