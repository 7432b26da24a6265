"""The metrics of several workers add up, including those of workers that have exited."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.edge.metrics import Metrics, render_metrics
from gateway.edge.worker_metrics import (
    WorkerMetrics,
    WorkerMetricsFiles,
    decode_metrics,
    encode_metrics,
    merge_metrics,
)


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def count_requests(requests: int, in_flight: int = 0, generation: int = 1) -> WorkerMetrics:
    metrics = Metrics()
    metrics.count_requests(["chat"] * requests, [200] * requests, [0.02] * requests)
    metrics.in_flight = in_flight
    metrics.watch_generation(lambda: generation)
    return metrics.collect()


def scrape(files: WorkerMetricsFiles) -> list[str]:
    return [line for line in render_metrics(files.read_totals()).decode().splitlines() if not line.startswith("#")]


def test_counters_and_requests_in_flight_are_added_and_of_generations_the_highest_counts(tmp_path: Path) -> None:
    files = WorkerMetricsFiles(tmp_path)
    files.save(1, count_requests(3, in_flight=1, generation=5))
    files.save(2, count_requests(4, in_flight=2, generation=4))
    lines = scrape(files)
    assert 'gateway_requests_total{route="chat",status="200"} 7.0' in lines
    assert 'gateway_request_seconds_bucket{le="0.025",route="chat"} 7.0' in lines
    assert {"gateway_in_flight 3.0", "gateway_workers 2.0", "gateway_policies_generation 5.0"} <= set(lines)


def test_a_worker_that_is_gone_keeps_its_counts_and_loses_its_gauges(tmp_path: Path) -> None:
    files = WorkerMetricsFiles(tmp_path)
    files.save(1, count_requests(3, in_flight=1))
    files.save(2, count_requests(4))
    files.retire(1)
    files.retire(7)  # one that never came so far as to write
    lines = scrape(files)
    assert 'gateway_requests_total{route="chat",status="200"} 7.0' in lines
    assert {"gateway_in_flight 0.0", "gateway_workers 1.0"} <= set(lines)
    files.retire(2)
    assert 'gateway_requests_total{route="chat",status="200"} 7.0' in scrape(files)


def test_a_worker_that_retires_while_somebody_reads_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = WorkerMetricsFiles(tmp_path)
    files.save(1, count_requests(3))
    read = WorkerMetricsFiles._read_retired

    def late(self: WorkerMetricsFiles) -> object:
        monkeypatch.setattr(WorkerMetricsFiles, "_read_retired", read)
        WorkerMetricsFiles(tmp_path).retire(1)
        return read(self)

    monkeypatch.setattr(WorkerMetricsFiles, "_read_retired", late)
    assert 'gateway_requests_total{route="chat",status="200"} 3.0' in scrape(files)


def test_a_write_that_was_cut_short_changes_nothing(tmp_path: Path) -> None:
    files = WorkerMetricsFiles(tmp_path)
    files.save(1, count_requests(3))
    (tmp_path / "1.json.new").write_bytes(b'{"counts": {')
    assert 'gateway_requests_total{route="chat",status="200"} 3.0' in scrape(files)


async def test_the_last_numbers_are_written_when_the_worker_ends(tmp_path: Path) -> None:
    files, stopped, metrics = WorkerMetricsFiles(tmp_path), asyncio.Event(), Metrics()
    saving = asyncio.create_task(files.save_periodically(1, metrics.collect, stopped))
    await asyncio.to_thread(wait_for, (tmp_path / "1.json").exists)
    metrics.count_requests(["chat"], [200], [0.02])
    stopped.set()
    await asyncio.wait_for(saving, 5)
    assert 'gateway_requests_total{route="chat",status="200"} 1.0' in scrape(files)


async def test_a_disk_that_takes_nothing_does_not_end_the_writing(tmp_path: Path) -> None:
    stopped = asyncio.Event()
    stopped.set()
    await WorkerMetricsFiles(tmp_path / "missing").save_periodically(1, Metrics().collect, stopped)


def test_what_is_written_is_what_is_read() -> None:
    metrics = count_requests(2, in_flight=1)
    assert decode_metrics(encode_metrics(metrics)) == metrics
    assert merge_metrics([metrics]).counts == {"requests": [(("chat", "200"), 2)]}


def test_a_gateway_among_others_shows_what_all_have_written(tmp_path: Path) -> None:
    files, metrics = WorkerMetricsFiles(tmp_path), Metrics()
    metrics.show_totals(files.read_totals)
    files.save(1, count_requests(3))
    assert 'gateway_requests_total{route="chat",status="200"} 3.0' in metrics.render().decode()
