"""JSON lines on stderr, without secrets."""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

import orjson

from gateway.redaction import Redactor, drop_first_word, drop_last_word
from gateway.settings import LogSettings

CAPACITY = 10_000  # queued lines; beyond that the oldest are dropped and counted
MAX_VALUE = 200  # characters
MAX_MESSAGE = 16_000  # characters, of a message or a traceback


class JsonFormatter(logging.Formatter):
    """One JSON object per record, without secrets and of bounded length."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = self._clean(self.formatException(record.exc_info))
        return encode_line(line).decode()

    def _clean(self, text: str) -> str:
        if len(text) <= MAX_MESSAGE:
            return self._redactor.redact(text)
        # The end says what happened. No half of a word may be left at the cuts: it could be half of a secret.
        head = self._redactor.redact(drop_last_word(text[:MAX_MESSAGE]))[: MAX_MESSAGE // 2]
        tail = self._redactor.redact(drop_first_word(text[-MAX_MESSAGE:]))[-MAX_MESSAGE // 2 :]
        return f"{head} … {tail}"


def cut(text: str | None) -> str | None:
    """A value of a log line, which clients can make as long as they like."""
    return text if text is None or len(text) <= MAX_VALUE else text[:MAX_VALUE] + "…"


@contextmanager
def log_as_json(settings: LogSettings, redactor: Redactor) -> Iterator[None]:
    """Send every logger of the process, uvicorn's too, through one handler; restores the former ones afterwards."""
    handlers, level = logging.root.handlers[:], logging.root.level
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(redactor))
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


class RequestLog:
    """One line per request, queued and written in batches."""

    def __init__(self, write: Callable[[bytes], None] = write_stderr, capacity: int = CAPACITY) -> None:
        self._write, self._capacity = write, capacity
        self._lines: deque[bytes] = deque(maxlen=capacity)
        self.lost = 0  # lines that were dropped since the start

    def queue(self, lines: Sequence[bytes]) -> None:
        """Queue encoded lines; they must hold no secret and no text of a conversation."""
        if len(self._lines) + len(lines) <= self._capacity:  # a thread that writes can only make more room
            self._lines.extend(lines)
            return
        for line in lines:
            if len(self._lines) == self._capacity:
                self.lost += 1
            self._lines.append(line)

    async def write(self) -> None:
        """Write what is queued, in a thread: the reader of stderr may be slow, and the loop must not wait for it."""
        if self._lines:
            await asyncio.to_thread(self.flush)

    def flush(self) -> None:
        """Write all queued lines at once."""
        lines: list[bytes] = []
        with suppress(IndexError):  # the last flush may meet one that still runs in its thread
            while True:
                lines.append(self._lines.popleft())
        if lines:
            self._write(b"\n".join([*lines, b""]))


def encode_line(line: dict[str, Any]) -> bytes:
    """A line of the log without its line end."""
    try:
        return orjson.dumps(line, default=str)
    except TypeError:
        # Lone surrogates have no encoding; a line that shows them as "?" is better than none.
        return orjson.dumps({key: str(value).encode("utf-8", "replace").decode() for key, value in line.items()})
