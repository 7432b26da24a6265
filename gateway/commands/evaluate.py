"""`gateway eval`: runs test questions against the policies, and refits the calibration on them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from gateway.commands.common import (
    FAULT,
    OK,
    Subparsers,
    add_common_options,
    add_workspace_option,
    load_command_settings,
    print_json,
    run_async,
)
from gateway.commands.indexing import ProgressBar, extend_search_deadline, run_indexer
from gateway.errors import ServiceUnavailable

if TYPE_CHECKING:
    from gateway.evaluation.cases import Case
    from gateway.evaluation.run import CaseRunner
    from gateway.semantic.service import SemanticService
    from gateway.settings import Settings


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("eval", help="compare what test questions inject with what they should inject")
    add_common_options(parser)
    parser.add_argument("--model", help="model that the requests name")
    parser.add_argument("--min-precision", type=parse_fraction, metavar="X", help="fail below this precision")
    parser.add_argument("--min-recall", type=parse_fraction, metavar="X", help="fail below this recall")
    parser.add_argument(
        "--max-false", type=parse_fraction, metavar="X", help="fail above this rate of false injections"
    )
    parser.add_argument(
        "--fit", type=Path, metavar="FILE", help="refit the calibration on the cases and write it to FILE"
    )
    parser.add_argument(
        "--propose", type=Path, metavar="FILE", help="write cases that stored receipts suggest to FILE, and stop"
    )
    add_workspace_option(parser, "with --propose: whose receipts")
    parser.add_argument("cases", type=Path, nargs="?", metavar="CASES", help="file with the test questions")
    parser.set_defaults(run=run, refuse=parser.error)


def parse_fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def run(arguments: argparse.Namespace) -> int:
    if arguments.propose is not None:
        return run_async(propose(load_command_settings(arguments), arguments))
    if arguments.cases is None:
        arguments.refuse("name a file with cases, or propose some with --propose FILE")
    report = run_async(evaluate(load_command_settings(arguments), arguments))
    if arguments.json:
        print_json(report, indent=True)
    else:
        print(format_evaluation(report))
    return OK if report["ok"] else FAULT


async def propose(settings: Settings, arguments: argparse.Namespace) -> int:
    """Write the cases that the receipts of a workspace suggest; says why there are none."""
    from contextlib import aclosing

    from gateway.commands.offline_policies import open_policies
    from gateway.commands.stored_receipts import open_stored_receipts
    from gateway.control.yaml_writer import format_yaml
    from gateway.domain.receipt import ReceiptFilter
    from gateway.evaluation.proposed_cases import propose_cases
    from gateway.receipts.views import read_pages

    async with open_policies(settings) as offline, open_stored_receipts(settings) as store:
        snapshot = offline.policies.get_snapshot(arguments.workspace)
        async with aclosing(read_pages(store, arguments.workspace, ReceiptFilter(status="ok"))) as pages:
            found = await propose_cases(pages, snapshot)
    if found.cases:
        await asyncio.to_thread(arguments.propose.write_text, format_yaml({"cases": found.cases}), encoding="utf-8")
    shown = {
        "written": str(arguments.propose) if found.cases else None,
        "cases": len(found.cases),
        "receipts": found.receipts,
        "without_text": found.without_text,
        "without_evidence": found.without_evidence,
    }
    if arguments.json:
        print_json(shown, indent=True)
    else:
        print(format_proposals(shown))
    return OK if found.cases else FAULT


def format_proposals(shown: dict[str, Any]) -> str:
    """What became of the receipts, for a person."""
    lines = [f"{shown['receipts']} answered requests, {shown['cases']} cases proposed"]
    if shown["without_text"]:
        lines.append(f"  {shown['without_text']} have no text: set receipts.text to store it")
    if shown["without_evidence"]:
        lines.append(
            f"  {shown['without_evidence']} do not tell what mattered: raise analytics.sample to compare more answers"
        )
    if shown["written"]:
        lines.append(f"written to {shown['written']}; check them before you use them")
    return "\n".join(lines)


async def evaluate(settings: Settings, arguments: argparse.Namespace) -> dict[str, Any]:
    """The report on the cases; raises Faults if they are invalid and ServiceUnavailable if search is not available."""
    from gateway.app import Gateway
    from gateway.evaluation.cases import Targets, load_cases
    from gateway.evaluation.report import build_report
    from gateway.evaluation.run import CaseRunner

    targets = Targets(
        precision=arguments.min_precision, recall=arguments.min_recall, false_injections=arguments.max_false
    )
    gateway = await Gateway.open(extend_search_deadline(settings))
    try:
        file = load_cases(arguments.cases, gateway.policies.current)
        async with run_indexer(gateway, ProgressBar(sys.stderr)) as service:
            runner = CaseRunner(gateway.pipeline, gateway.policies.current, arguments.model)
            shown = build_report(await runner.run(file), targets.override(file.targets))
            if arguments.fit is not None:
                shown["fit"] = await refit(runner, service, file.cases, arguments.fit)
                shown["ok"] = shown["ok"] and shown["fit"]["written"] is not None
    finally:
        await gateway.close()
    return shown


async def refit(runner: CaseRunner, service: SemanticService, cases: tuple[Case, ...], out: Path) -> dict[str, Any]:
    """Refit on the cases, with the shipped coefficients as the prior; written only if it helps on held-out cases."""
    from gateway.evaluation.refit import label_cases, refit_on_cases
    from gateway.evaluation.report import render_in_one_line
    from gateway.semantic.search.calibration import Calibration

    if service.indexer is None or service.indexer.current is None:
        raise ServiceUnavailable("There are no semantic resources to fit on.")
    prior = Calibration.load()
    fit = refit_on_cases(prior, await label_cases(runner, cases, service.indexer.current, prior))
    if fit.is_better:
        await asyncio.to_thread(write_calibration, out, {"fitted_on": len(cases), **fit.calibration.to_json()})
    return {
        "written": str(out) if fit.is_better else None,
        "loss": {"before": round(fit.loss_before, 4), "after": round(fit.loss_after, 4)},
        "before": render_in_one_line(fit.before),
        "after": render_in_one_line(fit.after),
    }


def write_calibration(out: Path, calibration: dict[str, Any]) -> None:
    out.write_bytes(orjson.dumps(calibration, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def format_evaluation(shown: dict[str, Any]) -> str:
    """The report for a person."""
    from gateway.evaluation.report import render_text

    lines = [render_text(shown)]
    if "fit" in shown:
        fit = shown["fit"]
        lines += ["", "refit, evaluated on held-out cases at a threshold of 0.5:"]
        lines += [f"  {when}: {fit[when]}, loss {fit['loss'][when]:.3f}" for when in ("before", "after")]
        lines.append(
            f"  written to {fit['written']}; set semantic.calibration to this file"
            if fit["written"]
            else "  not written, because it does not improve the results; more cases may help"
        )
    return "\n".join(lines)
