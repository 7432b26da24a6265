"""Several workers behind one address: started, watched, started anew, and drained together."""

import asyncio
import fcntl
import logging
import os
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from gateway.edge.worker_metrics import WorkerMetricsFiles
from gateway.settings import ListenSettings, Settings
from gateway.worker import FAULT, OK, READY, WorkerConfig

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds before a dead worker is replaced; doubles while they die young
YOUNG_SECONDS = 10.0
BACKLOG = 2048  # as uvicorn has it
GRACE_SECONDS = 5.0  # beyond the drain, for closing stores

# With our own search path, since a folder `gateway` in the working directory may be something else.
RUN = "from gateway.worker import main; sys.exit(main())"

Told = Callable[[str, int], None]

log = logging.getLogger(__name__)


class Worker:
    """One process."""

    def __init__(self, number: int, process: Process) -> None:
        self.number, self.process = number, process
        self.ready = False

    async def started(self) -> bool:
        """Whether it came so far as to answer requests."""
        assert self.process.stdout is not None
        self.ready = await self.process.stdout.readline() == READY
        return self.ready

    def drain(self) -> None:
        """Let it finish what runs; one that never served has nothing to finish."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        if not self.ready:
            self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            self.process.send_signal(number)


class Supervisor:
    """Keeps `wanted` workers running until a signal ends them all."""

    def __init__(self, settings: Settings, wanted: int, told: Told) -> None:
        self._settings, self._wanted, self._told = settings, wanted, told
        self._numbers = count(1)
        self._workers: set[Worker] = set()
        self._stopping = asyncio.Event()

    async def run(self) -> int:
        """Serve; an exit status. Raises OSError when the address cannot be had."""
        with ExitStack() as stack:
            directory = stack.enter_context(private_directory())
            self._sockets = [stack.enter_context(listener) for listener in listen(self._settings.listen)]
            self._directory, self._shelf = directory, WorkerMetricsFiles(directory)
            self._heed_signals()
            # The first goes alone: what it complains about is told once, and a new store has one maker.
            first = await self._start()
            if not await first.started():
                await self._buried(first)
                return OK if self._stopping.is_set() else FAULT
            self._told(*self._sockets[0].getsockname()[:2])
            await self._keep_all(first)
        return OK

    async def _keep_all(self, first: Worker) -> None:
        async with asyncio.TaskGroup() as group:
            keepers = [group.create_task(self._keep(first))]
            keepers += [group.create_task(self._keep(None)) for _ in range(self._wanted - 1)]
            await self._stopping.wait()
            # Ours too: the kernel would go on queueing connections that nobody accepts any more.
            for listener in self._sockets:
                listener.close()
            for worker in self._workers:
                worker.drain()
            await asyncio.wait(keepers, timeout=self._settings.limits.drain_seconds + GRACE_SECONDS)
            self._send(signal.SIGKILL)

    async def _keep(self, worker: Worker | None) -> None:
        """Have one worker at any time, until the end."""
        pause, clock = FIRST_PAUSE, asyncio.get_running_loop().time
        while not self._stopping.is_set():
            since = clock()
            worker = worker or await self._start()
            if not worker.ready:
                await worker.started()
            status = await self._buried(worker)
            if self._stopping.is_set():
                return
            pause = FIRST_PAUSE if clock() - since > YOUNG_SECONDS else min(pause * 2, LONGEST_PAUSE)
            log.error("worker %d ended with status %d; another is started in %.1f s", worker.number, status, pause)
            worker = None
            await self._paused(pause)

    async def _start(self) -> Worker:
        number, descriptors = next(self._numbers), [listener.fileno() for listener in self._sockets]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", f"import sys; sys.path[:] = {sys.path!r}; {RUN}"),
            stdin=PIPE,
            stdout=PIPE,
            pass_fds=descriptors,
            process_group=0,  # Ctrl+C reaches the supervisor alone, which then lets the workers drain
        )
        worker = Worker(number, process)
        self._workers.add(worker)
        told = WorkerConfig(number=number, settings=self._settings, sockets=descriptors, shelf=self._directory)
        assert process.stdin is not None
        process.stdin.write(told.model_dump_json().encode() + b"\n")
        log.info("worker %d started as process %d", number, process.pid)
        if self._stopping.is_set():
            worker.drain()
        return worker

    async def _buried(self, worker: Worker) -> int:
        """Wait for its end and keep what it counted; its exit status."""
        status = await worker.process.wait()
        self._workers.discard(worker)
        try:
            await asyncio.to_thread(self._shelf.retire, worker.number)
        except (OSError, ValueError) as error:
            log.warning("what worker %d had counted is lost: %s", worker.number, error)
        return status

    async def _paused(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop, number)
        loop.add_signal_handler(signal.SIGHUP, self._send, signal.SIGHUP)

    def _asked_to_stop(self, number: signal.Signals) -> None:
        if self._stopping.is_set() and number == signal.SIGINT:
            self._send(signal.SIGKILL)  # asked twice: a person who does not want to wait
        self._stopping.set()
        for worker in self._workers:
            if not worker.ready:
                worker.drain()

    def _send(self, number: signal.Signals) -> None:
        # A worker that is not ready has no handler for SIGHUP yet, and reads the policies anyway.
        for worker in self._workers:
            if worker.ready or number == signal.SIGKILL:
                worker.send(number)


def listen(where: ListenSettings) -> Iterator[socket.socket]:
    """Every address that the host name means, listening; raises OSError."""
    found = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    port = where.port
    for family, _, _, _, address in dict.fromkeys(found):
        listener = socket.create_server((address[0], port), family=family, backlog=BACKLOG)
        port = listener.getsockname()[1]  # one port for all, also where the system picked it
        yield listener


@contextmanager
def private_directory() -> Iterator[Path]:
    """A directory for its owner only that lives as long as the block."""
    with tempfile.TemporaryDirectory(prefix="gateway-") as name:
        descriptor = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # systemd-tmpfiles leaves alone what is locked
            yield Path(name)
        finally:
            os.close(descriptor)
