"""The measurement on banking77 runs through the gateway's own walk of a request, and can fail."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.semantic.model.files import MANIFEST, built_folder

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data" / "banking77"
TRAIN = "text,category\n" + "".join(
    f"Question {n} about {i}?,{i}\n" for i in ("card_lost?", "Top_up") for n in range(6)
)

needs_model = pytest.mark.skipif(
    not (built_folder() / MANIFEST).is_file(), reason="the embedding model is not there: run scripts/model"
)


def measure(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evaluation", *arguments]
    environ = {"PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT}", "PATH": "/usr/bin:/bin"}
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
    assert f"banking77 is not there ({tmp_path}/train.csv)" in done.stdout


@needs_model
def test_a_preset_that_injects_always_fails(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(TRAIN)
    (tmp_path / "test.csv").write_text("text,category\nDo you know about Top_up?,Top_up\n")
    done = measure("--data", str(tmp_path), "--preset", "aggressive", "--draws", "1")
    assert done.returncode == 1
    assert "false injections  1.000  ≤ 0.02  FAIL" in done.stdout


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


@pytest.mark.usefixtures("importable")
def test_each_intent_is_a_resource_with_five_examples() -> None:
    from evaluation.banking import Banking

    rows = [(f"Question {number}", intent) for intent in ("card_lost?", "Top_up") for number in range(9)]
    banking = Banking(rows, [("Where is it?", "card_lost?")])
    resources = banking.policies(1)["contexts"]["banking"]["resources"]
    assert {alias: len(set(one["examples"])) for alias, one in resources.items()} == {"top-up": 5, "card-lost": 5}
    assert banking.policies(1) == banking.policies(1) != banking.policies(2)
    (case,) = banking.cases(1, None)
    assert case.expect == {"banking/card-lost"}
    assert len(banking.thinned(1, 1).policies(1)["contexts"]["banking"]["resources"]) == 1


@pytest.mark.usefixtures("importable")
@pytest.mark.parametrize(("sign", "passed"), [("≥", True), ("≤", False)])
def test_a_missed_target_fails(sign: str, passed: bool) -> None:
    from evaluation.__main__ import Verdict

    assert Verdict("recall", 0.8, sign, 0.75).passed is passed


@pytest.mark.usefixtures("importable")
def test_the_mean_of_the_draws_is_judged() -> None:
    from evaluation.__main__ import mean_of, verdicts

    from gateway.evaluation.figures import Figures

    mean = mean_of([Figures(0.9, 0.8, 0.0, 0.85), Figures(0.7, 0.8, None, 0.83)])
    assert mean == Figures(pytest.approx(0.8), pytest.approx(0.8), 0.0, pytest.approx(0.84))
    assert [verdict.name for verdict in verdicts(mean) if not verdict.passed] == ["precision"]
