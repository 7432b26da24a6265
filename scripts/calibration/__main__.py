"""Reads the sets, shows how each does when its family is held out, fits on all and writes the coefficients."""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calibration.fit import fit, outcome
from calibration.sources import LabelledSet, read_all
from calibration.table import Table, Vectors, tabulate, thinned

QUESTIONS = 500  # of a set; half as many for its thinned form
STRANGERS = 200
THINNED = 0.6


def main() -> None:
    options = _options()
    sets = read_all(options.sources)
    vectors = Vectors(options.cache)
    full = [_table(labelled, sets, vectors, QUESTIONS) for labelled in sets]
    thin = [_table(thinned(labelled, THINNED), sets, vectors, QUESTIONS // 2) for labelled in sets]
    _report(full, thin)
    stored = {"version": 1, "sets": [table.name for table in full], **fit([*full, *thin]).to_json()}
    options.out.write_text(json.dumps(stored, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--out", type=Path, default=Path("gateway/semantic/calibration/v1.json"))
    parser.add_argument("--cache", type=Path, default=Path("data/calibration"))
    return parser.parse_args()


def _table(labelled: LabelledSet, sets: Sequence[LabelledSet], vectors: Vectors, most: int) -> Table:
    rng = random.Random(labelled.name)
    others = [other for other in sets if other.family != labelled.family]
    strangers = [question.text for other in others for question in other.questions[:60]]
    print(f"· {labelled.name}: {len(labelled.items)} items", flush=True)
    return tabulate(labelled, labelled.questions[:most], rng.sample(strangers, min(STRANGERS, len(strangers))), vectors)


def _report(full: Sequence[Table], thin: Sequence[Table]) -> None:
    print(f"{'held out':14} hybrid R@1 │ R@1   at .7: precision recall false │ at .5: precision recall false")
    rows = []
    for table in full:
        held_out = fit([other for other in (*full, *thin) if other.family != table.family])
        sure, likely = outcome(table, held_out, 0.7), outcome(table, held_out, 0.5)
        rows.append([table.first, sure.first, sure.precision, sure.recall, sure.false_injections])
        print(
            f"{table.name:14} {table.first:.3f} │ {sure.first:.3f} {sure.precision:.3f} {sure.recall:.3f} "
            f"{sure.false_injections:.3f} │ {likely.precision:.3f} {likely.recall:.3f} {likely.false_injections:.3f}"
        )
    print("mean", np.round(np.mean(rows, 0), 3).tolist())


main()
