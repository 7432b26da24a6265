"""Processes under test and what they have used: CPU time, memory, their children."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path

STOP_SECONDS = 10


def read_cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time of whole processes, user and system, with threads that have ended.

    The counter behind utime + stime in /proc/<pid>/stat, which are cut to 10 ms; the processes' CPU clocks
    (clock_getcpuclockid(3)) give it in nanoseconds.
    """
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def read_resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))


def list_process_tree(pid: int) -> list[int]:
    """A process and everything that it started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(grandchild for child in children for grandchild in list_process_tree(int(child)))]


def build_command(name: str, *arguments: object) -> list[str]:
    """The command line that runs a module of this package."""
    return [sys.executable, "-m", f"scripts.benchmark.{name}", *map(str, arguments)]


@contextmanager
def run_process(command: list[str], environ: Mapping[str, str] | None = None) -> Generator[subprocess.Popen[str]]:
    """A process whose output can be read and which is gone when the block ends; its log goes to /dev/null."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line of a process's output; raises RuntimeError when it has ended instead."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{' '.join(map(str, process.args))} ended before it was ready")  # type: ignore[arg-type]
    return line


async def wait_until_stdin_closes() -> None:
    await asyncio.to_thread(sys.stdin.buffer.read)
