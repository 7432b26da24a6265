"""`scripts/receipts` measures what it says; the full run is for people."""

import re

import pytest

from scripts.receipt_queries import __main__ as script


def test_a_small_run_measures_every_query(capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--count", "3000"]) == 0
    shown = capsys.readouterr().out
    found = dict(re.findall(r"^(.+?) +(\d+) receipts, first", shown, re.MULTILINE))
    assert list(found) == list(script.QUERIES)
    assert (found["newest first"], found["agent"], found["resource, an agent that never used it"]) == (
        "100",
        "100",
        "0",
    )


def test_a_page_that_is_too_slow_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "PAGE_MS", 0.0)
    assert script.main(["--count", "100"]) == 1
