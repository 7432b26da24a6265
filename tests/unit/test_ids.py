"""Ids sort by time, cannot be guessed, and are never made twice."""

import time

import pytest

from gateway import ids
from gateway.domain.receipt import is_receipt_id
from gateway.ids import IdSource, read_id_time


def test_ids_of_several_blocks_differ_and_have_the_form_of_a_receipt_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "BLOCK", 3)
    source = IdSource()
    made = [source.make() for _ in range(20)]
    assert len({one[14:] for one in made}) == 20
    assert all(map(is_receipt_id, made))


def test_ids_sort_by_the_time_at_which_they_were_made() -> None:
    source, before = IdSource(), time.time()
    first = source.make()
    time.sleep(0.001)
    second = source.make()
    assert first < second
    assert before - 0.001 <= read_id_time(first) <= time.time()
