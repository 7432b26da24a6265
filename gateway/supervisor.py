"""Several workers behind one address: started, watched, restarted, and drained together."""

import asyncio
import fcntl
import gc
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from gateway.edge.worker_metrics import WorkerMetricsFiles
from gateway.late_modules import load_late_modules
from gateway.settings import ListenSettings, Settings
from gateway.worker import FAULT, OK, Announce, WorkerConfig
from gateway.worker_process import WorkerProcess

RESTART_SECONDS, MAX_RESTART_SECONDS = 0.2, 10.0  # before a dead worker is replaced; doubles while they die early
STABLE_SECONDS = 10.0  # a worker that lived so long did not die early
BACKLOG = 2048  # as uvicorn has it
GRACE_SECONDS = 5.0  # beyond the drain, for closing stores

log = logging.getLogger(__name__)


class Supervisor:
    """Keeps `wanted` workers running until a signal ends them all."""

    def __init__(self, settings: Settings, wanted: int, announce: Announce) -> None:
        self._settings, self._wanted, self._announce = settings, wanted, announce
        self._numbers = count(1)
        self._workers: set[WorkerProcess] = set()
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Serve; returns an exit code. Raises OSError if the address is not available."""
        with ExitStack() as stack:
            self._directory = stack.enter_context(create_private_directory())
            self._metrics_files = WorkerMetricsFiles(self._directory)
            self._sockets = [stack.enter_context(listener) for listener in open_listeners(self._settings.listen)]
            self._handle_signals()
            load_late_modules()
            gc.freeze()  # a collection in a worker would write to every page that it shares with us
            gc.enable()
            # The first starts alone: its errors are reported once, and only one process creates a new store.
            first = self._start_worker()
            if not await first.wait_until_ready():
                await self._wait_for_exit(first)
                return OK if self._stopping.is_set() else FAULT
            host, port, *_ = self._sockets[0].getsockname()
            self._announce(host, port, True if self._settings.auth.keys else None)
            await self._run_workers(first)
        return OK

    async def _run_workers(self, first: WorkerProcess) -> None:
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._keep_running(first))]
            keepers += [group.create_task(self._keep_running(None)) for _ in range(self._wanted - 1)]
            await self._stopping.wait()
            # Ours too: the kernel would go on queueing connections that nobody accepts any more.
            for listener in self._sockets:
                listener.close()
            for worker in self._workers:
                worker.drain()
            await asyncio.wait(keepers, timeout=self._settings.limits.drain_seconds + GRACE_SECONDS)
            self._send_signal(signal.SIGKILL)

    async def _keep_running(self, worker: WorkerProcess | None) -> None:
        """Have one worker at any time, until the supervisor stops."""
        delay, clock = RESTART_SECONDS, asyncio.get_running_loop().time
        while not self._stopping.is_set():
            since = clock()
            worker = worker or self._start_worker()
            if not worker.ready:
                await worker.wait_until_ready()
            status = await self._wait_for_exit(worker)
            if self._stopping.is_set():
                return
            delay = RESTART_SECONDS if clock() - since > STABLE_SECONDS else min(delay * 2, MAX_RESTART_SECONDS)
            log.error("worker %d exited with status %d; restarting in %.1f s", worker.number, status, delay)
            worker = None
            await self._wait_before_restart(delay)

    def _start_worker(self) -> WorkerProcess:
        config = WorkerConfig(next(self._numbers), self._settings, self._sockets, self._directory)
        worker = WorkerProcess.start(config, self._workers)
        self._workers.add(worker)
        log.info("worker %d started as process %d", worker.number, worker.pid)
        if self._stopping.is_set():
            worker.drain()
        return worker

    async def _wait_for_exit(self, worker: WorkerProcess) -> int:
        """Wait until it exits and keep its metrics; returns its exit status."""
        status = await worker.wait_until_exited()
        self._workers.discard(worker)
        try:
            self._metrics_files.retire(worker.number)  # not in a thread: this process forks
        except (OSError, ValueError) as error:
            log.warning("the metrics of worker %d are lost: %s", worker.number, error)
        return status

    async def _wait_before_restart(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._send_signal, signal.SIGHUP)
        loop.add_signal_handler(signal.SIGCHLD, self._check_exited)

    def _check_exited(self) -> None:
        for worker in self._workers:
            worker.check_exited()

    def _stop(self, number: signal.Signals) -> None:
        if self._stopping.is_set() and number == signal.SIGINT:
            self._send_signal(signal.SIGKILL)  # Ctrl+C twice: do not wait for the drain
        self._stopping.set()
        for worker in self._workers:
            if not worker.ready:
                worker.drain()

    def _send_signal(self, number: signal.Signals) -> None:
        # A worker that is not ready has no handler for SIGHUP yet, and reads the policies anyway.
        for worker in self._workers:
            if worker.ready or number == signal.SIGKILL:
                worker.send_signal(number)


def open_listeners(listen: ListenSettings) -> Iterator[socket.socket]:
    """A listening socket for every address of the host name; raises OSError."""
    found = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    port = listen.port
    for family, _, _, _, address in dict.fromkeys(found):
        listener = socket.create_server((address[0], port), family=family, backlog=BACKLOG)
        port = listener.getsockname()[1]  # one port for all, also where the system picked it
        yield listener


@contextmanager
def create_private_directory() -> Iterator[Path]:
    """A directory for its owner only that lives as long as the block."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as name:
        descriptor = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # systemd-tmpfiles does not delete what is locked
            yield Path(name)
        finally:
            os.close(descriptor)
