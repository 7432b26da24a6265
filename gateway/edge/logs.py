"""JSON lines on stderr, without secrets."""

import asyncio
import logging
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import orjson

from gateway.settings import LogSettings

FLUSH_SECONDS = 0.1
CAPACITY = 10_000  # queued exchange lines; beyond that the oldest are dropped and counted

_SECRET = re.compile(
    r"(?P<kept>\bBearer\s+|\b(?:x-context-key|api[-_]?key|authorization)[\"']?\s*[:=]\s*[\"']?(?:Bearer\s+)?)[^\s\"',;]+"
    r"|\bsk-[A-Za-z0-9_-]{6,}",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """The text with everything that looks like a credential replaced by [redacted]."""
    return _SECRET.sub(lambda found: (found["kept"] or "") + "[redacted]", text)


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return _encode_line(line).decode()


@contextmanager
def log_as_json(settings: LogSettings) -> Iterator[None]:
    """Send every logger of the process, uvicorn's too, through one handler; restores the former ones afterwards."""
    handlers, level = logging.root.handlers[:], logging.root.level
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(settings.level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)


def write_stderr(data: bytes) -> None:
    """Write whole lines, bypassing the text layer."""
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


class ExchangeLog:
    """One line per chat request. Recording only appends to a queue; a background task writes it."""

    def __init__(self, write: Callable[[bytes], None] = write_stderr, capacity: int = CAPACITY) -> None:
        self._write = write
        self._lines: deque[dict[str, Any]] = deque(maxlen=capacity)
        self.dropped = 0  # lines lost since the start

    def record(self, line: dict[str, Any]) -> None:
        """Queue a line for the next flush; it must hold no secret and no text of a conversation."""
        if len(self._lines) == self._lines.maxlen:
            self.dropped += 1
        self._lines.append(line)

    async def run(self) -> None:
        """Flush periodically; once more when cancelled."""
        try:
            while True:
                await asyncio.sleep(FLUSH_SECONDS)
                if self._lines:
                    # In a thread: the reader of stderr may be slow, and the loop must not wait for it.
                    await asyncio.to_thread(self.flush)
        finally:
            self.flush()

    def flush(self) -> None:
        """Write all queued lines at once."""
        lines: list[dict[str, Any]] = []
        with suppress(IndexError):  # the last flush may meet one that still runs in its thread
            while True:
                lines.append(self._lines.popleft())
        if lines:
            self._write(b"".join(_encode_line(line) + b"\n" for line in lines))


def _encode_line(line: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(line, default=str)
    except TypeError:
        # Lone surrogates have no encoding; a line that shows them as "?" is better than none.
        return orjson.dumps({key: str(value).encode("utf-8", "replace").decode() for key, value in line.items()})
