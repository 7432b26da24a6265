"""A hostile tenant takes its own share and nobody else's; a run that cannot miss its limits would be worth nothing."""

import random
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from gateway.semantic.search.sentences import split_query
from scripts.chaos_run.control import CpuRates, CpuTimes
from scripts.chaos_run.honest import HonestTenant, Sample, Window
from scripts.chaos_run.hostile import ATTACKS, HostileTenant
from scripts.chaos_run.report import Figures, Round, Verdict
from tests.support.limits import with_limits

ROOT = Path(__file__).resolve().parent.parent


def make_figures(milliseconds: float, degraded: int, count: int = 1000) -> Figures:
    return Figures.compute([make_window(milliseconds, degraded, count)])


def make_window(milliseconds: float, degraded: int = 0, count: int = 100) -> Window:
    return Window([Sample(milliseconds / 1000, True, number < degraded) for number in range(count)], [0.001])


@pytest.mark.parametrize(
    ("milliseconds", "degraded", "holds"), [(20, 0, True), (40, 10, True), (41, 0, False), (20, 11, False)]
)
def test_the_verdict_depends_on_both_limits(milliseconds: float, degraded: int, holds: bool) -> None:
    verdict = Verdict(make_figures(20, 0), make_figures(milliseconds, degraded), make_figures(10, 0))
    assert verdict.slower_than_control == pytest.approx(milliseconds / 10)
    assert verdict.holds is holds
    assert ("ok" if holds else "MISSED") in verdict.to_text()


def test_figures_count_what_failed_and_take_the_slowest_of_a_hundred() -> None:
    samples = [Sample(number / 1000, number != 7, number == 7) for number in range(100)]
    windows = [Window(samples[:50], [0.001, 0.002]), Window(samples[50:], [0.007])]
    assert Figures.compute(windows) == Figures(100, 1, 0.01, 50.0, 95.0, 99.0, 7.0)
    with pytest.raises(ValueError, match="no samples"):
        Figures.compute([])


def test_a_round_that_stands_out_shows_in_the_spread() -> None:
    usual = Round(make_window(10), make_window(20), make_window(15))
    steady = Verdict.judge([usual] * 10)
    assert (steady.slower, steady.spread) == (2.0, (2.0, 2.0))
    unlucky = Verdict.judge([*[usual] * 9, usual._replace(attacked=make_window(90))])
    assert (unlucky.slower, unlucky.spread) == (9.0, (2.0, 9.0))


def test_rounds_that_other_programs_disturbed_are_told_apart() -> None:
    usual = Round(make_window(10), make_window(15), make_window(12), others=0.1)
    disturbed = Round(make_window(10), make_window(90), make_window(80), others=1.5)
    verdict = Verdict.judge([usual, usual, disturbed])
    assert (verdict.slower, verdict.slower_if_quiet, verdict.holds) == (9.0, 1.5, False)
    assert "used 0.57 cores; p99 1.50 times in the 2 of 3 rounds" in verdict.to_text()
    assert "rounds" not in Verdict.judge([usual, usual]).to_text()


def test_every_attack_can_be_made_by_itself() -> None:
    tenant = HostileTenant("", "", random.Random(1), None)  # type: ignore[arg-type]
    assert {name: len(tenant.list_attacks([name])) for name in ATTACKS} == ATTACKS
    assert len(tenant.list_attacks([])) == sum(ATTACKS.values())


def test_new_questions_are_as_much_work_in_a_long_run_as_in_a_short_one() -> None:
    honest = HonestTenant("", random.Random(1))
    questions = [honest._make_question() for _ in range(20_000)]
    sentences = [len(split_query(one).sentences) for one in questions if "customer" in one]
    assert set(sentences[:100]) == set(sentences[-100:]) == {3}


def run_chaos(directory: Path, seconds: float) -> dict[str, object]:
    report = directory / "chaos.json"
    command = [sys.executable, "-m", "scripts.chaos_run", "--seconds", str(seconds), "--json", str(report)]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environ, check=False)
    assert report.exists(), done.stderr
    said: dict[str, object] = orjson.loads(report.read_bytes())
    return said


def test_a_short_attack_leaves_every_honest_request_answered(tmp_path: Path) -> None:
    said = run_chaos(tmp_path, 6)
    attacked = said["attacked"]
    assert isinstance(attacked, dict)
    assert (attacked["failed"], attacked["requests"] > 5) == (0, True)
    control = said["control"]
    assert isinstance(control, dict)
    assert control["failed"] == 0


@with_limits(loaded=0.02, quiet=0.1)
def test_the_control_burns_the_share_of_a_core_that_it_is_told(limits: float) -> None:
    command = [sys.executable, "-m", "scripts.chaos_run.burner", "0.2", "0"]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            before = CpuTimes.read([process.pid])
            time.sleep(1.5)
            rates = before.compute_rates(CpuTimes.read([process.pid]))
        finally:
            process.terminate()  # or the end of the block would wait for it forever
    assert limits < rates.served < 0.35  # of a machine that others use, too, it may get less than it is told


def test_only_what_an_attack_adds_is_burnt() -> None:
    assert CpuRates(1.5, 0.4).subtract(CpuRates(0.2, 0.5)) == CpuRates(1.3, 0.0)


@pytest.mark.timing
def test_a_hostile_tenant_costs_an_honest_one_neither_time_nor_context(tmp_path: Path) -> None:
    assert run_chaos(tmp_path, 24)["holds"], (tmp_path / "chaos.json").read_text()
