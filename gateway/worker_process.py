"""A worker as its supervisor sees it: a fork of the supervisor, so that code is loaded and in memory once.

Only a process with one thread may fork: another thread could hold a lock that nobody releases in the copy. The stores,
the event loop and the threads of a worker are opened after the fork.
"""

import asyncio
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from typing import NoReturn

from gateway.worker import FAULT, READY, WorkerConfig, serve_as_worker

SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD})


class WorkerProcess:
    """A running worker."""

    def __init__(self, number: int, pid: int, channel: socket.socket) -> None:
        self.number, self.pid = number, pid
        self.ready = False
        self._channel = channel
        self._exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @classmethod
    def start(cls, config: WorkerConfig, others: Iterable["WorkerProcess"]) -> "WorkerProcess":
        """Fork a worker; `others` are those that run already, whose channels it must not hold open."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or the copy would write it once more
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        pid = os.fork()
        if pid == 0:
            run_in_fork(config, theirs, [ours, *(other._channel for other in others)], unblocked)
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        theirs.close()
        return cls(config.number, pid, ours)

    async def wait_until_ready(self) -> bool:
        """Whether it got as far as answering requests; False if it exited before."""
        self.ready = await asyncio.get_running_loop().sock_recv(self._channel, len(READY)) == READY
        return self.ready

    async def wait_until_exited(self) -> int:
        """Its exit status; negative for a signal."""
        status = await self._exited
        self._channel.close()
        return status

    def check_exited(self) -> None:
        """To be called when a child has exited, whichever it was."""
        if not self._exited.done():
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._exited.set_result(os.waitstatus_to_exitcode(status))

    def drain(self) -> None:
        """Let it finish its requests; one that never served has nothing to finish."""
        if not self._exited.done():
            self._channel.shutdown(socket.SHUT_WR)
        if not self.ready:
            self.send_signal(signal.SIGTERM)

    def send_signal(self, number: signal.Signals) -> None:
        if not self._exited.done():
            os.kill(self.pid, number)


def run_in_fork(
    config: WorkerConfig, channel: socket.socket, foreign: Iterable[socket.socket], unblocked: Iterable[int]
) -> NoReturn:
    """Serve in the copy and end it: what the supervisor would do when it ends is none of its business."""
    status = FAULT
    try:
        leave_supervisor(foreign, unblocked)
        status = serve_as_worker(config, channel)
    finally:
        if sys.exc_info()[0] is not None:
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def leave_supervisor(foreign: Iterable[socket.socket], unblocked: Iterable[int]) -> None:
    """Give up what came along with the fork: its signals, its channels, its terminal."""
    os.setpgid(0, 0)  # Ctrl+C reaches the supervisor alone, which then lets the workers drain
    signal.set_wakeup_fd(-1)
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
    for end in foreign:
        end.close()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno() if sys.stdin is not None else 0)
    os.close(nothing)
    os.dup2(2, 1)  # standard output has the address, which the supervisor prints
