"""The metrics of several workers: each saves its own to a file, so that any of them can show the totals."""

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

SAVE_SECONDS = 1.0  # between two saves of a worker
REMEMBERED_WORKERS = 1000  # retired workers whose file somebody may still be reading
SUMMED_GAUGES = (
    "in_flight",
    "receipts_waiting",
    "responses_waiting",
    "workers",
)  # of other gauges the highest value counts

Labels = tuple[str, ...]
Samples = dict[str, list[tuple[Labels, float]]]  # metric → label values and number; JSON has no tuples as keys

log = logging.getLogger(__name__)


class WorkerMetrics(msgspec.Struct, frozen=True):
    """The numbers of one process, or the totals of several."""

    counts: Samples = msgspec.field(default_factory=dict)
    buckets: dict[str, list[int]] = {}  # route → answers per bound of BUCKET_SECONDS and beyond
    seconds: dict[str, float] = msgspec.field(default_factory=dict)  # route → time spent
    gauges: Samples = msgspec.field(default_factory=dict)


def encode_metrics(metrics: WorkerMetrics) -> bytes:
    return msgspec.json.encode(metrics)


def decode_metrics(raw: bytes) -> WorkerMetrics:
    """Raises ValueError for anything that `encode_metrics` did not write."""
    return msgspec.json.decode(raw, type=WorkerMetrics)


def merge_metrics(parts: Iterable[WorkerMetrics]) -> WorkerMetrics:
    """The totals of several processes."""
    counts: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    gauges: defaultdict[str, dict[Labels, float]] = defaultdict(dict)
    buckets: dict[str, list[int]] = {}
    seconds: defaultdict[str, float] = defaultdict(float)
    for part in parts:
        for name, labels, value in _list_samples(part.counts):
            counts[name][labels] = counts[name].get(labels, 0) + value
        for name, labels, value in _list_samples(part.gauges):
            former = gauges[name].get(labels, 0)
            gauges[name][labels] = former + value if name in SUMMED_GAUGES else max(former, value)
        for route, row in part.buckets.items():
            buckets[route] = [one + more for one, more in zip(buckets.get(route, [0] * len(row)), row, strict=True)]
            seconds[route] += part.seconds.get(route, 0.0)
    return WorkerMetrics(
        {name: list(values.items()) for name, values in counts.items()},
        buckets,
        dict(seconds),
        {name: list(values.items()) for name, values in gauges.items()},
    )


def _list_samples(samples: Samples) -> Iterator[tuple[str, Labels, float]]:
    return ((name, labels, value) for name, values in samples.items() for labels, value in values)


class RetiredWorkers(msgspec.Struct, frozen=True):
    """The counts of workers that have exited."""

    workers: list[int] = msgspec.field(default_factory=list)
    metrics: WorkerMetrics = msgspec.field(default_factory=WorkerMetrics)


class WorkerMetricsFiles:
    """A directory with one file per worker and one for those that have exited.

    Each worker writes its own file; the supervisor merges it into the other one when the worker has exited.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def save(self, worker: int, metrics: WorkerMetrics) -> None:
        self._write(f"{worker}.json", encode_metrics(metrics))

    async def save_periodically(
        self, worker: int, collect: Callable[[], WorkerMetrics], stopped: asyncio.Event
    ) -> None:
        """Save a worker's metrics every second, and once more when it has stopped."""
        last = False
        while not last:
            last = stopped.is_set()
            try:
                await asyncio.to_thread(self.save, worker, collect())
            except OSError as error:  # a full disk, say: /metrics is late, and nothing else
                log.warning("metrics could not be saved: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(SAVE_SECONDS):
                    await stopped.wait()

    def retire(self, worker: int) -> None:
        """Keep the counts of a worker that has exited, and drop its gauges."""
        try:
            last = decode_metrics((self._directory / f"{worker}.json").read_bytes())
        except FileNotFoundError:
            return  # it exited before its first save
        former = self._read_retired()
        numbers = [*former.workers[-REMEMBERED_WORKERS:], worker]
        kept = RetiredWorkers(numbers, merge_metrics([former.metrics, replace(last, gauges={})]))
        self._write("retired.json", msgspec.json.encode(kept))
        (self._directory / f"{worker}.json").unlink()

    def read_totals(self) -> WorkerMetrics:
        """The totals of all workers, including those that have exited."""
        # In this order: a worker that retires in between is in the second or in both, never in neither.
        live = dict(self._read_live())
        retired = self._read_retired()
        running = [metrics for worker, metrics in live.items() if worker not in retired.workers]
        return merge_metrics([retired.metrics, *running])

    def _read_live(self) -> Iterator[tuple[int, WorkerMetrics]]:
        for path in self._directory.iterdir():
            if path.suffix == ".json" and path.stem.isdecimal():
                try:
                    yield int(path.stem), decode_metrics(path.read_bytes())
                except FileNotFoundError:
                    continue

    def _read_retired(self) -> RetiredWorkers:
        try:
            return msgspec.json.decode((self._directory / "retired.json").read_bytes(), type=RetiredWorkers)
        except FileNotFoundError:
            return RetiredWorkers()

    def _write(self, name: str, content: bytes) -> None:
        # By rename, so that readers see complete files and a kill in the middle leaves the previous one.
        new = self._directory / f"{name}.new"
        new.write_bytes(content)
        os.replace(new, self._directory / name)
