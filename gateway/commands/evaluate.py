"""`gateway eval`: tries cases on the gateway's own policies, and refits the calibration on them."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gateway.app import Gateway
from gateway.commands.index import Shown, indexed, patient
from gateway.errors import ServiceUnavailable
from gateway.evaluation.cases import Case, Targets, load_cases
from gateway.evaluation.report import as_text, in_a_line, report
from gateway.evaluation.run import Runner
from gateway.semantic.service import SemanticService
from gateway.settings import Settings


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What the command line says."""

    cases: Path
    targets: Targets
    model: str | None = None
    fit: Path | None = None  # where to write a refitted calibration


async def evaluate(settings: Settings, wish: EvaluationOptions) -> dict[str, Any]:
    """The report on the cases; raises Faults for what is wrong with them and Unavailable if nothing can be searched."""
    gateway = await Gateway.open(patient(settings))
    try:
        file = load_cases(wish.cases, gateway.policies.current)
        async with indexed(gateway, Shown(sys.stderr)) as service:
            runner = Runner(gateway.pipeline, gateway.policies.current, wish.model)
            shown = report(await runner.outcomes(file), wish.targets.over(file.targets))
            if wish.fit is not None:
                shown["fit"] = await fit(runner, service, file.cases, wish.fit)
                shown["ok"] = shown["ok"] and shown["fit"]["written"] is not None
    finally:
        await gateway.close()
    return shown


async def fit(runner: Runner, service: SemanticService, cases: tuple[Case, ...], out: Path) -> dict[str, Any]:
    """Refit on the cases, with the shipped coefficients as the prior; written only if it helps cases not fitted on."""
    from gateway.evaluation.refit import judge, refitted
    from gateway.semantic.search.calibration import Calibration

    if service.indexer is None or service.indexer.current is None:
        raise ServiceUnavailable("There are no semantic resources to fit on.")
    prior = Calibration.load()
    made = refitted(prior, await judge(runner, cases, service.indexer.current, prior))
    if made.helps:
        await asyncio.to_thread(write, out, {"fitted_on": len(cases), **made.calibration.to_json()})
    return {
        "written": str(out) if made.helps else None,
        "loss": {"before": round(made.loss_before, 4), "after": round(made.loss_after, 4)},
        "before": in_a_line(made.before),
        "after": in_a_line(made.after),
    }


def write(out: Path, stored: dict[str, Any]) -> None:
    out.write_bytes(orjson.dumps(stored, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def shown_as_text(shown: dict[str, Any]) -> str:
    """The report for a person."""
    lines = [as_text(shown)]
    if "fit" in shown:
        made = shown["fit"]
        lines += ["", "refit, judged on cases that it was not fitted on, at a threshold of 0.5:"]
        lines += [f"  {when}: {made[when]}, loss {made['loss'][when]:.3f}" for when in ("before", "after")]
        lines.append(
            f"  written to {made['written']}: name it as semantic.calibration in the configuration"
            if made["written"]
            else "  nothing was written: it would not help; more cases may"
        )
    return "\n".join(lines)
