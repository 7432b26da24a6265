"""Clients that leave cost nothing: the short form of `scripts/disconnects`, and proof that it would notice."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.domain.receipt import Receipt
from scripts.disconnect_check.case import HAS_UPSTREAM, Case, Phase
from scripts.disconnect_check.report import Verdict, report_phase
from scripts.disconnect_check.stage import Usage

ROOT = Path(__file__).resolve().parent.parent
QUIET = Usage(("Jobs.run",), 20)


def disconnect(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scripts.disconnect_check", *arguments]
    environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environ, check=False)


def test_clients_that_leave_at_any_phase_cost_nothing() -> None:
    done = disconnect("--quick")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "120 disconnects: +0 tasks, +0 descriptors, 0 faults" in done.stdout
    for phase in Phase:
        assert re.search(
            rf"^{phase} +1[78] left: 1[78] {'ok' if phase is Phase.FINISH else 'aborted'};", done.stdout, re.M
        )


def test_a_gateway_that_does_not_notice_is_caught() -> None:
    done = disconnect("--count", "7", "--patience", "0.5", "--ignore-leaving")
    assert done.returncode == 1
    assert "the upstream was not closed" in done.stdout


def make_case(phase: Phase, delay: float = 0.1) -> Case:
    case = Case(1, phase, streams=True, resets=False)
    case.left_at, case.closed_at = 10.0, 10.0 + delay
    return case


def make_receipt(phase: Phase, status: str = "aborted") -> Receipt:
    return Receipt("0" * 26, "default", status, None if phase is Phase.BODY else "case-1")


@pytest.mark.parametrize("phase", Phase)
def test_every_case_needs_exactly_one_receipt_with_the_right_status(phase: Phase) -> None:
    case, receipt = make_case(phase), make_receipt(phase)
    assert report_phase(phase, [case], [receipt]).faults == ()
    assert report_phase(phase, [case], []).faults
    assert report_phase(phase, [case], [receipt, receipt]).faults
    assert report_phase(phase, [case], [make_receipt(phase, "started")]).faults
    assert bool(report_phase(phase, [case], [make_receipt(phase, "ok")]).faults) is (phase is not Phase.FINISH)


@pytest.mark.parametrize("phase", Phase)
def test_an_upstream_that_goes_on_is_a_fault(phase: Phase) -> None:
    late, called = make_case(phase, delay=1.5), make_case(phase)
    called.calls = 3
    receipts = [make_receipt(phase)]
    assert bool(report_phase(phase, [late], receipts).faults) is (phase in HAS_UPSTREAM)
    assert report_phase(phase, [called], receipts).faults


@pytest.mark.parametrize(
    "changed",
    [
        {"after": Usage(("Jobs.run", "BoundedProtocol._answer"), 20)},
        {"after": Usage(("Jobs.run",), 21)},
        {"in_flight": 1},
        {"lost": 1},
        {"strays": 1},
    ],
)
def test_whatever_is_left_behind_is_a_fault(changed: dict[str, object]) -> None:
    verdict = Verdict([], QUIET, QUIET, 0, 0)
    assert verdict.list_faults() == []
    assert replace(verdict, **changed).list_faults()  # type: ignore[arg-type]
