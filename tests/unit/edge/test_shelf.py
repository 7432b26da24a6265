"""The numbers of several workers add up, also of those that are gone."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.edge.metrics import Metrics, WorkerMetrics, decoded, encoded, exposition, together
from gateway.edge.worker_metrics import WorkerMetricsFiles


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def counted(requests: int, running: int = 0, generation: int = 1) -> WorkerMetrics:
    metrics = Metrics()
    for _ in range(requests):
        metrics.request("chat", 200, 0.02)
    metrics.running = running
    metrics.watch_generation(lambda: generation)
    return metrics.tally()


def shown(shelf: WorkerMetricsFiles) -> list[str]:
    return [line for line in exposition(shelf.everyone()).decode().splitlines() if not line.startswith("#")]


def test_counters_and_requests_in_flight_are_added_and_of_generations_the_highest_counts(tmp_path: Path) -> None:
    shelf = WorkerMetricsFiles(tmp_path)
    shelf.put(1, counted(3, running=1, generation=5))
    shelf.put(2, counted(4, running=2, generation=4))
    lines = shown(shelf)
    assert 'gateway_requests_total{route="chat",status="200"} 7.0' in lines
    assert 'gateway_request_seconds_bucket{le="0.025",route="chat"} 7.0' in lines
    assert {"gateway_in_flight 3.0", "gateway_workers 2.0", "gateway_policies_generation 5.0"} <= set(lines)


def test_a_worker_that_is_gone_keeps_its_counts_and_loses_its_gauges(tmp_path: Path) -> None:
    shelf = WorkerMetricsFiles(tmp_path)
    shelf.put(1, counted(3, running=1))
    shelf.put(2, counted(4))
    shelf.retire(1)
    shelf.retire(7)  # one that never came so far as to write
    lines = shown(shelf)
    assert 'gateway_requests_total{route="chat",status="200"} 7.0' in lines
    assert {"gateway_in_flight 0.0", "gateway_workers 1.0"} <= set(lines)
    shelf.retire(2)
    assert 'gateway_requests_total{route="chat",status="200"} 7.0' in shown(shelf)


def test_a_worker_that_retires_while_somebody_reads_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = WorkerMetricsFiles(tmp_path)
    shelf.put(1, counted(3))
    read = WorkerMetricsFiles._retired

    def late(self: WorkerMetricsFiles) -> object:
        monkeypatch.setattr(WorkerMetricsFiles, "_retired", read)
        WorkerMetricsFiles(tmp_path).retire(1)
        return read(self)

    monkeypatch.setattr(WorkerMetricsFiles, "_retired", late)
    assert 'gateway_requests_total{route="chat",status="200"} 3.0' in shown(shelf)


def test_a_write_that_was_cut_short_changes_nothing(tmp_path: Path) -> None:
    shelf = WorkerMetricsFiles(tmp_path)
    shelf.put(1, counted(3))
    (tmp_path / "1.json.new").write_bytes(b'{"counts": {')
    assert 'gateway_requests_total{route="chat",status="200"} 3.0' in shown(shelf)


async def test_the_last_numbers_are_written_when_the_worker_ends(tmp_path: Path) -> None:
    shelf, ended, metrics = WorkerMetricsFiles(tmp_path), asyncio.Event(), Metrics()
    keeping = asyncio.create_task(shelf.keep(1, metrics.tally, ended))
    await asyncio.to_thread(wait_for, (tmp_path / "1.json").exists)
    metrics.request("chat", 200, 0.02)
    ended.set()
    await asyncio.wait_for(keeping, 5)
    assert 'gateway_requests_total{route="chat",status="200"} 1.0' in shown(shelf)


async def test_a_disk_that_takes_nothing_does_not_end_the_writing(tmp_path: Path) -> None:
    ended = asyncio.Event()
    ended.set()
    await WorkerMetricsFiles(tmp_path / "missing").keep(1, Metrics().tally, ended)


def test_what_is_written_is_what_is_read() -> None:
    tally = counted(2, running=1)
    assert decoded(encoded(tally)) == tally
    assert together([tally]).counts == {"requests": [(("chat", "200"), 2)]}


def test_a_gateway_among_others_shows_what_all_have_written(tmp_path: Path) -> None:
    shelf, metrics = WorkerMetricsFiles(tmp_path), Metrics()
    metrics.share(shelf.everyone)
    shelf.put(1, counted(3))
    assert 'gateway_requests_total{route="chat",status="200"} 3.0' in metrics.exposition().decode()
