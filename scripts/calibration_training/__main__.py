"""Reads the sets, shows how each does when its family is held out, fits on all and writes the coefficients."""

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from scripts.calibration_training.fit import compute_outcome, fit
from scripts.calibration_training.labelled import LabelledSet
from scripts.calibration_training.sources import read_all
from scripts.calibration_training.table import Table, VectorCache, draw_handful, tabulate, thin_out

QUESTIONS = 500  # of a set; half as many for its thinned form
STRANGERS = 200
THINNED = 0.6
TINY = (1, 2, 4, 10)  # items
ATTEMPTS = 4
TINY_WEIGHT = 1.0  # of all handfuls of a set together


def main() -> None:
    options = _parse_options()
    sets = read_all(options.sources)
    vectors = VectorCache(options.cache)
    full = [_build_table(labelled, sets, vectors, QUESTIONS) for labelled in sets]
    thin = [_build_table(thin_out(labelled, THINNED), sets, vectors, QUESTIONS // 2) for labelled in sets]
    few = [table for labelled in sets for table in _build_tiny_tables(labelled, sets, vectors)]
    _print_report(full, thin, few)
    stored = {"version": 2, "sets": [table.name for table in full], **fit([*full, *thin, *few]).to_json()}
    options.out.write_text(json.dumps(stored, indent=1) + "\n")


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--out", type=Path, default=Path("gateway/semantic/search/calibration_v2.json"))
    parser.add_argument("--cache", type=Path, default=Path("data/calibration"))
    return parser.parse_args()


def _build_table(labelled: LabelledSet, sets: Sequence[LabelledSet], vectors: VectorCache, most: int) -> Table:
    rng = random.Random(labelled.name)
    others = [other for other in sets if other.family != labelled.family]
    strangers = [question.text for other in others for question in other.questions[:60]]
    return tabulate(labelled, labelled.questions[:most], rng.sample(strangers, min(STRANGERS, len(strangers))), vectors)


def _build_tiny_tables(labelled: LabelledSet, sets: Sequence[LabelledSet], vectors: VectorCache) -> list[Table]:
    handfuls = [draw_handful(labelled, size, attempt) for size in TINY for attempt in range(ATTEMPTS)]
    tables = [_build_table(few, sets, vectors, QUESTIONS) for few in handfuls]
    return [replace(table, weight=TINY_WEIGHT / len(tables), certain=True) for table in tables]


def _print_report(full: Sequence[Table], thin: Sequence[Table], few: Sequence[Table]) -> None:
    print(f"{'held out':14} hybrid R@1 │ R@1   at .7: precision recall false │ at .5: precision recall false")
    rows = []
    families = dict.fromkeys(table.family for table in full)
    every = [*full, *thin, *few]
    without = {family: fit([table for table in every if table.family != family]) for family in families}
    for table in full:
        held_out = without[table.family]
        sure, likely = compute_outcome(table, held_out, 0.7), compute_outcome(table, held_out, 0.5)
        rows.append([table.first, sure.first, sure.precision, sure.recall, sure.false_injections])
        print(
            f"{table.name:14} {table.first:.3f} │ {sure.first:.3f} {sure.precision:.3f} {sure.recall:.3f} "
            f"{sure.false_injections:.3f} │ {likely.precision:.3f} {likely.recall:.3f} {likely.false_injections:.3f}"
        )
    print("mean", np.round(np.mean(rows, 0), 3).tolist())
    handfuls = [(one.right.shape[1], compute_outcome(one, without[one.family], 0.5)) for one in few]
    for size in TINY:
        got = [(one.precision, one.recall, one.false_injections) for width, one in handfuls if width == size]
        print(f"{size:2} items at .5: precision, recall, false", np.round(np.nanmean(got, 0), 3).tolist())


if __name__ == "__main__":
    main()
