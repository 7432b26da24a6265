"""Where the data of the labelled sets comes from.

folder in SOURCES   what and where                                                                  licence
banking77/          train.csv, test.csv, categories.json of PolyAI's banking77                      CC BY 4.0
clinc/              data/data_full.json of github.com/clinc/oos-eval at 828f809                     CC BY 3.0
hwu/                trainset/, testset/ of KFold_1 under CrossValidation in
                    github.com/xliuhw/NLU-Evaluation-Data at f6071b4                                CC BY 4.0
bfcl/               bfcl_eval/data of the Berkeley leaderboard, github.com/ShishirPatil/gorilla
                    at 6ea5797 (BFCL_v4_*.json, possible_answer/)                                   Apache 2.0
toolbench/          solvable_queries/test_instruction of github.com/THUNLP-MT/StableToolBench
                    at aa4ed9f                                                                      Apache 2.0
wikiqa/             WikiQA-dev.tsv, WikiQA-test-gold.tsv (data/raw of github.com/yizhongw/WikiQA-Selection)
                                                                                                    MSR data licence
selqa/              ass/selqa-ass-dev.json of github.com/emorynlp/selqa at fef3d6a                  Apache 2.0
pubmedqa/           data/ori_pqal.json of github.com/pubmedqa/pubmedqa at 1cbae8e                   MIT
cmrc/               squad-style-data/cmrc2018_trial.json of github.com/ymcui/cmrc2018 at c0eb1b6    CC BY-SA 4.0
drcd/               DRCD_dev.json of github.com/DRCKnowledgeTeam/DRCD at b944790                    CC BY-SA 3.0
tldr/               pages/common and pages.{de,es,fr,ru,zh} of github.com/tldr-pages/tldr
                    at 08e345f                                                                      CC BY 4.0
"""

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from calibration.functions import functions
from calibration.labelled import LabelledSet, intents
from calibration.prose import cmrc, drcd, pubmedqa, selqa, tldr, wikiqa
from calibration.tools import bfcl, toolbench

FEWEST = 10  # training questions of an intent, of which some become examples


def banking(folder: Path) -> Iterator[LabelledSet]:
    # Its test questions are left to scripts/eval-banking.
    rows = _csv(folder / "train.csv")
    yield intents("banking77", rows[::2], rows[1::2])


def clinc(folder: Path) -> Iterator[LabelledSet]:
    data = json.loads((folder / "data_full.json").read_text())
    yield intents("clinc150", data["train"], data["test"])


def hwu(folder: Path) -> Iterator[LabelledSet]:
    """What people say to an assistant at home."""
    train, test = _answers(folder / "trainset"), _answers(folder / "testset")
    known = [intent for _, intent in train]
    common = {intent for intent in set(known) if known.count(intent) >= FEWEST}
    yield intents("hwu64", *([row for row in rows if row[1] in common] for rows in (train, test)))


READERS: dict[str, Callable[[Path], Iterator[LabelledSet]]] = {
    "banking77": banking,
    "clinc": clinc,
    "hwu": hwu,
    "bfcl": bfcl,
    "toolbench": toolbench,
    "wikiqa": wikiqa,
    "selqa": selqa,
    "pubmedqa": pubmedqa,
    "cmrc": cmrc,
    "drcd": drcd,
    "tldr": tldr,
    "functions": functions,
}


def read_all(sources: Path) -> list[LabelledSet]:
    """Every set, in the same order each time; raises FileNotFoundError for a source that is not there."""
    return [labelled for folder, read in READERS.items() for labelled in read(sources / folder)]


def _csv(path: Path) -> list[tuple[str, str]]:
    with path.open(newline="") as file:
        return [(row["text"], row["category"]) for row in csv.DictReader(file)]


def _answers(folder: Path) -> list[tuple[str, str]]:
    """Question and intent, which is the name of the file."""
    rows = [
        (row[5].strip(), path.stem)
        for path in sorted(folder.rglob("*.csv"))
        for row in csv.reader(path.read_text(errors="replace").splitlines()[1:], delimiter=";")
        if len(row) > 5
    ]
    return [row for row in rows if row[0]]
