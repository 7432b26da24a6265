"""`python -m benchmark`: measure, print, and say whether the targets are met."""

import argparse
import json
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from benchmark import control, semantic, subjects
from benchmark.cells import CELLS
from benchmark.measure import Measured, Plan, load, measure
from benchmark.peers import peers
from benchmark.report import as_document, as_text, verdicts
from benchmark.semantic_figures import Figure

BUILD = Path(__file__).resolve().parents[2] / "build"  # ignored by git, like everything that can be made again


def main(arguments: Sequence[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    if given.semantic:
        return search_by_meaning(given)
    if given.control:
        return control_plane(given)
    plan = plan_of(given)
    if not plan.cells:
        print(f"No line's name holds {given.only!r}.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ExitStack() as stack:
        directory = Path(temporary)
        upstream = stack.enter_context(subjects.upstream())
        starts = [subjects.start_of(upstream, directory / "gateway") for _ in range(given.starts)]
        servers = [
            stack.enter_context(subjects.floor(upstream)),
            stack.enter_context(subjects.gateway(upstream, directory / "gateway")),
        ]
        for server in servers:
            for kind in server.doors:
                subjects.probe(server, kind)
        if given.peers:
            servers += stack.enter_context(peers(upstream, directory, BUILD))
        table = followed(measure(stack.enter_context(load()), servers, plan))
    print(as_text(table, starts))
    if given.json:
        given.json.write_text(json.dumps(as_document(table, starts), indent=2, ensure_ascii=False) + "\n")
    missed = [verdict.name for verdict in verdicts(table, starts) if not verdict.passed]
    return 1 if given.check and missed else 0


def search_by_meaning(given: argparse.Namespace) -> int:
    """The other table; passes and starts have no meaning for it."""
    figures = []
    for part, some in semantic.measured(semantic.sized(given.quick, given.scale), given.only):
        print(f"{part} measured", file=sys.stderr, flush=True)
        figures += some
    if not figures:
        print(f"No part's name holds {given.only!r}.", file=sys.stderr)
        return 2
    print(semantic.as_text(figures))
    return judged(figures, given)


def control_plane(given: argparse.Namespace) -> int:
    """What changes of the policies cost."""
    figures = [figure for _, some in control.measured(given.quick, given.scale) for figure in some]
    print(control.as_text(figures))
    return judged(figures, given)


def judged(figures: Sequence[Figure], given: argparse.Namespace) -> int:
    if given.json:
        given.json.write_text(json.dumps(list(map(asdict, figures)), indent=2, ensure_ascii=False) + "\n")
    return 1 if given.check and not all(figure.passed for figure in figures) else 0


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="scripts/bench", description="CPU per request, next to bare relays.")
    root.add_argument("--quick", action="store_true", help="two short passes, for a first look")
    root.add_argument("--semantic", action="store_true", help="measure the search by meaning instead")
    root.add_argument("--control", action="store_true", help="measure changes of the policies instead")
    root.add_argument("--peers", action="store_true", help="add litellm's proxy, and nginx if it is installed")
    root.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    root.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    root.add_argument("--only", default="", metavar="TEXT", help="only the lines (or parts) whose name holds this")
    root.add_argument("--passes", type=int, metavar="N", help="interleaved passes (5, with --quick 2)")
    root.add_argument(
        "--scale", type=float, metavar="X", help="share of the usual requests per run (1, with --quick 0.3)"
    )
    root.add_argument("--starts", type=int, default=3, metavar="N", help="cold starts (3)")
    return root


def plan_of(given: argparse.Namespace) -> Plan:
    cells = tuple(cell for cell in CELLS if given.only in cell.name)
    return Plan(cells, given.passes or (2 if given.quick else 5), given.scale or (0.3 if given.quick else 1.0))


def followed(measuring: Generator[str, None, list[Measured]]) -> list[Measured]:
    """The result of a measurement whose progress is shown."""
    while True:
        try:
            print(next(measuring), file=sys.stderr, flush=True)
        except StopIteration as end:
            table: list[Measured] = end.value
            return table


if __name__ == "__main__":
    sys.exit(main())
