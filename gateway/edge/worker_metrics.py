"""The tallies of several workers, each in a file of one private directory, so that any of them can show the sum."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from gateway.edge.metrics import WorkerMetrics, decoded, encoded, together

SECONDS = 1.0  # between two writes of a worker
REMEMBERED = 1000  # retired workers whose file may still be in somebody's hands

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retired:
    """What workers that are gone had counted."""

    workers: list[int] = field(default_factory=list)
    tally: WorkerMetrics = field(default_factory=WorkerMetrics)


class WorkerMetricsFiles:
    """Written by each worker for itself and, once a worker is gone, by the supervisor; read by whoever is scraped."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, worker: int, tally: WorkerMetrics) -> None:
        """Write down what a worker has counted so far."""
        self._write(f"{worker}.json", encoded(tally))

    def retire(self, worker: int) -> None:
        """Keep the counts of a worker that is gone, and drop its gauges."""
        try:
            last = decoded((self._directory / f"{worker}.json").read_bytes())
        except FileNotFoundError:
            return  # it never came so far
        former = self._retired()
        kept = Retired([*former.workers[-REMEMBERED:], worker], together([former.tally, replace(last, gauges={})]))
        self._write("retired.json", msgspec.json.encode(kept))
        (self._directory / f"{worker}.json").unlink()

    def everyone(self) -> WorkerMetrics:
        """The numbers of all workers, those that are gone included."""
        # In this order: a worker that retires meanwhile is in the second, if not in both, and never in neither.
        live = dict(self._live())
        retired = self._retired()
        return together([retired.tally, *(tally for worker, tally in live.items() if worker not in retired.workers)])

    async def keep(self, worker: int, tally: Callable[[], WorkerMetrics], ended: asyncio.Event) -> None:
        """Write down a worker's numbers every second, and a last time when it has ended."""
        last = False
        while not last:
            last = ended.is_set()
            try:
                await asyncio.to_thread(self.put, worker, tally())
            except OSError as error:  # a full disk, say: the numbers are late, and nothing else
                log.warning("the numbers for /metrics could not be written: %s", error)
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS):
                    await ended.wait()

    def _live(self) -> Iterator[tuple[int, WorkerMetrics]]:
        for path in self._directory.iterdir():
            if path.suffix == ".json" and path.stem.isdecimal():
                try:
                    yield int(path.stem), decoded(path.read_bytes())
                except FileNotFoundError:
                    continue

    def _retired(self) -> Retired:
        try:
            return msgspec.json.decode((self._directory / "retired.json").read_bytes(), type=Retired)
        except FileNotFoundError:
            return Retired()

    def _write(self, name: str, content: bytes) -> None:
        # By rename, so that a reader sees a whole file and a kill in the middle leaves the former one.
        beside = self._directory / f"{name}.new"
        beside.write_bytes(content)
        os.replace(beside, self._directory / name)
