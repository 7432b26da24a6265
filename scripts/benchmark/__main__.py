"""`python -m scripts.benchmark`: measure, print, and say whether the targets are met."""

import argparse
import json
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from scripts.benchmark import context, control, dialects, peers_run, semantic, soak, steps, subjects
from scripts.benchmark.cells import CELLS, CONCURRENT
from scripts.benchmark.measure import MeasurementPlan, measure, run_load_generator
from scripts.benchmark.report import build_document, compute_verdicts, render_text
from scripts.benchmark.semantic_figures import Figure

Result = TypeVar("Result")


def main(arguments: Sequence[str] | None = None) -> int:
    given = build_parser().parse_args(arguments)
    for name, run in OTHER_TABLES.items():
        if getattr(given, name):
            return run(given)
    if given.peers or given.features:
        return (peers_run.run if given.peers else peers_run.run_features)(given, show_progress)
    plan = build_plan(given)
    if not plan.cells:
        print(f"No line has {given.only!r} in its name.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ExitStack() as stack:
        directory = Path(temporary)
        upstream = stack.enter_context(subjects.run_upstream())
        starts = [subjects.measure_start(upstream, directory / "gateway") for _ in range(given.starts)]
        servers = [
            stack.enter_context(subjects.run_floor(upstream)),
            stack.enter_context(subjects.run_gateway(upstream, directory / "gateway")),
        ]
        if given.before:
            before = subjects.run_gateway(
                upstream, directory / "before", name=subjects.BEFORE, checkout=given.before.resolve()
            )
            servers.append(stack.enter_context(before))
        for server in servers:
            for kind in server.doors:
                subjects.probe(server, kind)
        table = show_progress(measure(stack.enter_context(run_load_generator()), servers, plan))
    if any(measured.failures for measured in table):
        return 1  # why was said while it was measured
    print(render_text(table, starts))
    if given.json:
        given.json.write_text(json.dumps(build_document(table, starts), indent=2, ensure_ascii=False) + "\n")
    missed = [verdict.name for verdict in compute_verdicts(table, starts) if not verdict.passed]
    return 1 if given.check and missed else 0


def run_semantic(given: argparse.Namespace) -> int:
    """The table of semantic search; passes and starts do not apply."""
    figures = []
    for part, some in semantic.measure_parts(semantic.choose_size(given.quick, given.scale), given.only):
        print(f"{part} measured", file=sys.stderr, flush=True)
        figures += some
    if not figures:
        print(f"No part has {given.only!r} in its name.", file=sys.stderr)
        return 2
    print(semantic.render_text(figures))
    return finish(figures, given)


def run_control(given: argparse.Namespace) -> int:
    """The table of policy changes."""
    figures = [figure for _, some in control.measure_parts(given.quick, given.scale) for figure in some]
    print(control.render_text(figures))
    return finish(figures, given)


def run_context(given: argparse.Namespace) -> int:
    """The table of requests about content."""
    figures = []
    for part, some in context.measure_parts(given.quick, given.scale):
        print(f"{part} measured", file=sys.stderr, flush=True)
        figures += some
    print(context.render_text(figures))
    return finish(figures, given)


def run_soak(given: argparse.Namespace) -> int:
    """The table of a long run."""
    figures = soak.measure(given.scale or (0.1 if given.quick else 1.0))
    print(soak.render_text(figures))
    return finish(figures, given)


def run_dialects(given: argparse.Namespace) -> int:
    """The table of dialects."""
    usual = build_plan(given)
    plan = dialects.build_plan(given.only, usual.passes, usual.scale, given.clients)
    if not plan.cells:
        print(f"No line has {given.only!r} in its name.", file=sys.stderr)
        return 2
    table = show_progress(dialects.run(plan, given.before))
    if any(measured.failures for measured in table):
        return 1
    figures = dialects.list_figures(table) + (dialects.list_changes(table) if given.before else [])
    print(dialects.render_text(figures))
    return finish(figures, given)


def run_steps(given: argparse.Namespace) -> int:
    """The table of steps; passes do not apply."""
    scale = given.scale or (0.3 if given.quick else 1.0)
    plan = steps.StepPlan(given.only, max(CONCURRENT, round(steps.REQUESTS * scale)), given.before)
    if plan.is_empty:
        print(f"No line has {given.only!r} in its name.", file=sys.stderr)
        return 2
    try:
        compared = show_progress(steps.run(plan))
    except (RuntimeError, TimeoutError) as error:
        print(str(error) or "Requests took too long.", file=sys.stderr)
        return 1
    print(steps.render_text(compared))
    if given.functions:
        print("", *map(steps.render_functions, compared), sep="\n\n")
    return finish([one.to_figure() for one in compared], given)


def finish(figures: Sequence[Figure], given: argparse.Namespace) -> int:
    if given.json:
        given.json.write_text(json.dumps(list(map(asdict, figures)), indent=2, ensure_ascii=False) + "\n")
    return 1 if given.check and not all(figure.passed for figure in figures) else 0


OTHER_TABLES = {
    "semantic": run_semantic,
    "control": run_control,
    "context": run_context,
    "soak": run_soak,
    "dialects": run_dialects,
    "steps": run_steps,
}


def build_parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="scripts/bench", description="CPU per request, next to bare relays.")
    root.add_argument("--quick", action="store_true", help="two short passes, for a first look")
    root.add_argument("--semantic", action="store_true", help="measure semantic search instead")
    root.add_argument("--context", action="store_true", help="measure requests about content instead")
    root.add_argument("--control", action="store_true", help="measure policy changes instead")
    root.add_argument("--peers", action="store_true", help="beside nginx, TensorZero, Portkey and litellm instead")
    root.add_argument("--features", action="store_true", help="measure what each feature adds instead")
    root.add_argument("--dialects", action="store_true", help="compare the dialects instead")
    root.add_argument("--steps", action="store_true", help="count opcodes per request instead: dialects and features")
    root.add_argument("--functions", action="store_true", help="with --steps: list where two differ, by function")
    root.add_argument("--soak", action="store_true", help="look for leaks and late loops in 300,000 requests instead")
    root.add_argument("--subjects", default="", metavar="NAMES", help="with --peers: only these, separated by commas")
    root.add_argument("--before", type=Path, metavar="DIR", help="compare with another checkout that was set up")
    root.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    root.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    root.add_argument("--only", default="", metavar="TEXT", help="only the lines (or parts) with this in their name")
    root.add_argument("--passes", type=int, metavar="N", help="interleaved passes (5, of features 15)")
    root.add_argument(
        "--scale", type=float, metavar="X", help="share of the usual requests per run (1, with --quick 0.3)"
    )
    root.add_argument("--clients", type=int, default=CONCURRENT, metavar="N", help="with --dialects: at once (32)")
    root.add_argument("--starts", type=int, default=3, metavar="N", help="cold starts (3)")
    return root


def build_plan(given: argparse.Namespace) -> MeasurementPlan:
    cells = tuple(cell for cell in CELLS if given.only in cell.name)
    return MeasurementPlan(
        cells, given.passes or (2 if given.quick else 5), given.scale or (0.3 if given.quick else 1.0)
    )


def show_progress(measuring: Generator[str, None, Result]) -> Result:
    """The result of a measurement whose progress is shown."""
    while True:
        try:
            print(next(measuring), file=sys.stderr, flush=True)
        except StopIteration as end:
            result: Result = end.value
            return result


if __name__ == "__main__":
    sys.exit(main())
