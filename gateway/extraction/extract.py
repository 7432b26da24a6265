"""Extracts the text of documents. Plain text is decoded here; everything that needs a parser goes to a sandbox."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from gateway.domain.lru import LruCache
from gateway.extraction import formats
from gateway.extraction.formats import REFUSED, DocumentFormat
from gateway.settings import DocumentSettings
from gateway.work_threads import count_process_time

ROOT = Path(__file__).parents[2]
CACHE_ENTRIES = 1024
NICENESS = 19  # requests that are being answered go first
# Before it imports anything: at the usual priority, imports alone would take more from others than most documents.
LOWER = f"import os, sys\nos.nice({NICENESS})\n"
# Whatever else wakes up has the CPU at once. Where others keep the machine busy, such a document is not read in time.
IDLE = "try: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nexcept (AttributeError, OSError): pass\n"
START = "from gateway.extraction.sandbox import main\nsys.exit(main(sys.argv[1:]))"
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.05  # seconds between two looks whether a sandbox has ended
KILLED_SECONDS = 10.0  # after which nobody waits for one that was killed: in the idle class it ends when it gets a CPU


class ExtractionTimeout(ValueError):
    """A document was not read in time; perhaps only because the machine is busy."""


def extract_text(path: Path, limits: DocumentSettings) -> str:
    """The text of a file; ValueError says in a sentence why there is none."""
    return _extract_file(path, _read_file(path, limits), limits)


def extract_html(content: bytes, limits: DocumentSettings, charset: str | None = None) -> str:
    """The visible text of a page that somebody else wrote."""
    return _parse(DocumentFormat.HTML, content, limits, charset)


def extract_content(
    content: bytes,
    document_format: DocumentFormat,
    limits: DocumentSettings,
    charset: str | None = None,
    *,
    idle: bool = False,
) -> str:
    """The text of a document in memory; ValueError says in a sentence why there is none.

    With `idle`, it is parsed only while nobody else needs the CPU.
    """
    if document_format is not DocumentFormat.TEXT:
        return _parse(document_format, content, limits, charset, idle=idle)
    try:
        return formats.decode_text(content, charset)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not {charset or 'UTF-8'} text (byte {error.start})") from error


class DocumentCache:
    """Extracts once per content, so that a reload parses only what has changed."""

    def __init__(self, limits: DocumentSettings, *, max_entries: int = CACHE_ENTRIES) -> None:
        self._limits = limits
        self._texts: LruCache[str, str] = LruCache(entries=max_entries)
        # Held while a document is parsed: one sandbox at a time bounds the memory that a reload takes.
        self._lock = threading.Lock()

    def extract(self, path: Path) -> str:
        """As `extract_text`; called from any thread."""
        content = _read_file(path, self._limits)
        key = f"{formats.detect_format(path.name, content)}:{hashlib.sha256(content).hexdigest()}"
        with self._lock:
            text = self._texts.get(key)
            if text is None:
                text = _extract_file(path, content, self._limits)
                self._texts.put(key, text)
            return text


def _read_file(path: Path, limits: DocumentSettings) -> bytes:
    try:
        if not path.is_file():  # reading a device or a pipe might never end
            raise ValueError(f"{path.name}: there is no such file")
        with path.open("rb") as file:
            content = file.read(limits.max_bytes + 1)
    except OSError as error:
        raise ValueError(f"{path.name}: it cannot be read: {error.strerror}") from error
    if len(content) > limits.max_bytes:
        raise ValueError(f"{path.name}: it is larger than documents.max_bytes ({limits.max_bytes})")
    return content


def _extract_file(path: Path, content: bytes, limits: DocumentSettings) -> str:
    try:
        return extract_content(content, formats.detect_format(path.name, content), limits)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _parse(
    document_format: DocumentFormat,
    content: bytes,
    limits: DocumentSettings,
    charset: str | None = None,
    *,
    idle: bool = False,
) -> str:
    try:
        process = _run_sandbox(_build_command(document_format, limits, charset, idle), content, limits)
    except OSError as error:
        raise ValueError(f"the parser cannot be started: {error.strerror}") from error
    if process.returncode in (0, REFUSED):
        text = process.stdout.decode("utf-8", "replace")
        if process.returncode == 0:
            return text
        raise ValueError(text)
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise ValueError(f"it took more than {limits.cpu_seconds} seconds of CPU time to read")
    raise ValueError(f"it is damaged or not a {document_format.upper()} document")


def _run_sandbox(command: list[str], content: bytes, limits: DocumentSettings) -> subprocess.CompletedProcess[bytes]:
    # Files rather than pipes: RLIMIT_FSIZE then caps the output, and no bytes have to be pumped.
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as output:
        source.write(content)
        source.seek(0)
        process = subprocess.Popen(
            command, stdin=source, stdout=output, stderr=subprocess.DEVNULL, env=_build_environment(), cwd="/"
        )
        try:
            _wait_for_end(process, limits)
        except KeyboardInterrupt:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, output.read(limits.max_bytes))


def _wait_for_end(process: subprocess.Popen[bytes], limits: DocumentSettings) -> None:
    """Return when a sandbox has ended; its CPU time is the workspace's. Raises ExtractionTimeout."""
    if _reap(process, limits.seconds):
        return
    # Not Popen.kill: that looks first whether the process has ended, and nobody would know what it has used.
    os.kill(process.pid, signal.SIGKILL)
    _reap(process, KILLED_SECONDS)  # else Python does when it starts another process
    raise ExtractionTimeout(f"it took longer than {limits.seconds:g} seconds to read")


def _reap(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether a process ends in time; what Popen.wait does, but wait4 also tells what it has used."""
    until, pause = time.monotonic() + seconds, FIRST_PAUSE
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            count_process_time(used.ru_utime + used.ru_stime)
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _build_command(
    document_format: DocumentFormat, limits: DocumentSettings, charset: str | None, idle: bool
) -> list[str]:
    ceilings = [str(limits.cpu_seconds), str(limits.memory_mb), str(limits.max_bytes)]
    declared = [charset] if charset else []
    start = LOWER + IDLE + START if idle else LOWER + START
    # -S: the module path is in the environment; nothing else has to be looked for.
    return [sys.executable, "-S", "-s", "-P", "-B", "-c", start, document_format, *ceilings, *declared]


def _build_environment() -> dict[str, str]:
    """Only the module path: no secret reaches the sandbox, and a source tree works without being installed."""
    places = [*(place for place in sys.path if place), str(ROOT)]
    return {"PYTHONPATH": ":".join(dict.fromkeys(places))}
