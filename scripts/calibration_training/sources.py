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

from scripts.calibration_training.functions import read_functions
from scripts.calibration_training.labelled import LabelledSet, build_intent_set
from scripts.calibration_training.prose import read_cmrc, read_drcd, read_pubmedqa, read_selqa, read_tldr, read_wikiqa
from scripts.calibration_training.tools import read_bfcl, read_toolbench

FEWEST = 10  # training questions of an intent, of which some become examples


def read_banking(folder: Path) -> Iterator[LabelledSet]:
    # Its test questions are left to scripts/eval-banking.
    rows = _read_csv(folder / "train.csv")
    yield build_intent_set("banking77", rows[::2], rows[1::2])


def read_clinc(folder: Path) -> Iterator[LabelledSet]:
    data = json.loads((folder / "data_full.json").read_text())
    yield build_intent_set("clinc150", data["train"], data["test"])


def read_hwu(folder: Path) -> Iterator[LabelledSet]:
    """What people say to an assistant at home."""
    train, test = _read_answers(folder / "trainset"), _read_answers(folder / "testset")
    known = [intent for _, intent in train]
    common = {intent for intent in set(known) if known.count(intent) >= FEWEST}
    yield build_intent_set("hwu64", *([row for row in rows if row[1] in common] for rows in (train, test)))


READERS: dict[str, Callable[[Path], Iterator[LabelledSet]]] = {
    "banking77": read_banking,
    "clinc": read_clinc,
    "hwu": read_hwu,
    "bfcl": read_bfcl,
    "toolbench": read_toolbench,
    "wikiqa": read_wikiqa,
    "selqa": read_selqa,
    "pubmedqa": read_pubmedqa,
    "cmrc": read_cmrc,
    "drcd": read_drcd,
    "tldr": read_tldr,
    "functions": read_functions,
}


def read_all(sources: Path) -> list[LabelledSet]:
    """Every set, in the same order each time; raises FileNotFoundError for a source that is not there."""
    return [labelled for folder, read in READERS.items() for labelled in read(sources / folder)]


def _read_csv(path: Path) -> list[tuple[str, str]]:
    with path.open(newline="") as file:
        return [(row["text"], row["category"]) for row in csv.DictReader(file)]


def _read_answers(folder: Path) -> list[tuple[str, str]]:
    """Question and intent, which is the name of the file."""
    rows = [
        (row[5].strip(), path.stem)
        for path in sorted(folder.rglob("*.csv"))
        for row in csv.reader(path.read_text(errors="replace").splitlines()[1:], delimiter=";")
        if len(row) > 5
    ]
    return [row for row in rows if row[0]]
