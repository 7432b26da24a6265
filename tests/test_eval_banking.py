"""The measurement on banking77 runs through the pipeline of a request, and can fail."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.evaluation.figures import Figures
from gateway.semantic.model.files import MANIFEST, get_built_folder
from scripts.banking_eval.__main__ import compute_mean, compute_verdicts
from scripts.banking_eval.banking import Banking
from scripts.benchmark.report import Verdict

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "banking77"
TRAIN = "text,category\n" + "".join(
    f"Question {n} about {i}?,{i}\n" for i in ("card_lost?", "Top_up") for n in range(6)
)

needs_model = pytest.mark.skipif(
    not (get_built_folder() / MANIFEST).is_file(), reason="the embedding model is not there: run scripts/model"
)


def measure(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.banking_eval", *arguments]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environ, check=False)


@needs_model
@pytest.mark.skipif(not (DATA / "test.csv").is_file(), reason=f"banking77 is not there: {DATA}")
def test_a_sample_of_the_questions_does_about_as_well_as_all_of_them() -> None:
    done = measure("--quick", "60", "--draws", "1", "--json")
    shown: dict[str, Any] = json.loads(done.stdout)
    figures = shown["mean"]
    assert shown["draws"] == [figures]
    # Far from the targets, which sixty questions cannot tell: chance would reach 0.013.
    assert figures["r_at_1"] > 0.65
    assert figures["precision"] > 0.65
    assert figures["false_injections"] < 0.1


def test_data_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    done = measure("--data", str(tmp_path))
    assert (done.returncode, done.stderr) == (2, "")
    assert f"banking77 is missing ({tmp_path}/train.csv)" in done.stdout


@needs_model
def test_a_preset_that_injects_always_fails(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(TRAIN)
    (tmp_path / "test.csv").write_text("text,category\nDo you know about Top_up?,Top_up\n")
    done = measure("--data", str(tmp_path), "--preset", "aggressive", "--draws", "1")
    assert done.returncode == 1
    assert "false injections  1.000  ≤ 0.02  FAIL" in done.stdout


def test_each_intent_is_a_resource_with_five_examples() -> None:
    rows = [(f"Question {number}", intent) for intent in ("card_lost?", "Top_up") for number in range(9)]
    banking = Banking(rows, [("Where is it?", "card_lost?")])
    resources = banking.build_policies(1)["contexts"]["banking"]["resources"]
    assert {alias: len(set(one["examples"])) for alias, one in resources.items()} == {"top-up": 5, "card-lost": 5}
    assert banking.build_policies(1) == banking.build_policies(1) != banking.build_policies(2)
    (case,) = banking.build_cases(1, None)
    assert case.expect == {"banking/card-lost"}
    assert len(banking.select_intents(1, 1).build_policies(1)["contexts"]["banking"]["resources"]) == 1


@pytest.mark.parametrize(("sign", "passed"), [("≥", True), ("≤", False)])
def test_a_missed_target_fails(sign: str, passed: bool) -> None:
    assert Verdict("recall", 0.8, sign, 0.75).passed is passed


def test_the_mean_of_the_draws_is_judged() -> None:
    mean = compute_mean([Figures(0.9, 0.8, 0.0, 0.85), Figures(0.7, 0.8, None, 0.83)])
    assert mean.to_dict() == {"precision": 0.8, "recall": 0.8, "false_injections": 0.0, "r_at_1": 0.84}
    assert [verdict.name for verdict in compute_verdicts(mean) if not verdict.passed] == ["precision"]
