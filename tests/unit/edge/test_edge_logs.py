"""JSON lines without secrets."""

import asyncio
import io
import logging
import sys
from contextlib import suppress
from typing import Any

import orjson
import pytest

from gateway.edge.logs import ExchangeLog, JsonFormatter, log_as_json, redact
from gateway.settings import LogSettings


def record(message: str, *args: object, exc_info: Any = None) -> logging.LogRecord:
    return logging.LogRecord("gateway.x", logging.WARNING, "x.py", 1, message, args, exc_info)


def test_a_record_is_one_line_of_json():
    line = orjson.loads(JsonFormatter().format(record("two\nlines of %s", "text")))
    assert (line["level"], line["logger"], line["message"]) == ("warning", "gateway.x", "two\nlines of text")
    assert line["time"].endswith("+00:00")


def test_a_traceback_is_part_of_its_line_and_is_redacted_too():
    try:
        raise ValueError("key sk-abcdef123456 is wrong")
    except ValueError:
        text = JsonFormatter().format(record("failed", exc_info=sys.exc_info()))
    assert "\n" not in text
    assert "ValueError" in orjson.loads(text)["exception"]
    assert "abcdef123456" not in text


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer s3cr3t-value",
        "bearer s3cr3t-value, then",
        "sk-s3cr3t-value",
        "sk-proj-s3cr3t-value_1",
        "x-context-key: s3cr3t-value",
        '{"api_key": "s3cr3t-value"}',
        "api_key='s3cr3t-value'",
        "authorization=s3cr3t-value",
    ],
)
def test_what_looks_like_a_credential_is_redacted(text):
    assert "s3cr3t" not in redact(text)
    assert "[redacted]" in redact(text)


def test_ordinary_text_stays_as_it_is():
    text = "The task-runner asked for risk-assessment of key a.yaml:3 without a bearer"
    assert redact(text) == text


def test_a_message_with_a_lone_surrogate_is_still_logged():
    assert orjson.loads(JsonFormatter().format(record("bad %s", "\ud800")))["message"] == "bad ?"


def test_uvicorn_logs_through_the_same_formatter(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with log_as_json(LogSettings(level="info")), log_as_json(LogSettings(level="info")):
        logging.getLogger("uvicorn.error").info("Started")
        logging.getLogger("gateway").debug("too fine")
    (line,) = stderr.getvalue().splitlines()
    assert orjson.loads(line)["logger"] == "uvicorn.error"


def test_the_process_logs_as_before_afterwards():
    handlers, level = logging.root.handlers[:], logging.root.level
    with log_as_json(LogSettings(level="debug")):
        assert logging.root.level == logging.DEBUG
        assert logging.root.handlers != handlers
    assert (logging.root.handlers, logging.root.level) == (handlers, level)


def test_exchanges_are_written_in_one_piece():
    written: list[bytes] = []
    log = ExchangeLog(written.append)
    log.record({"status": 200, "model": "m"})
    log.record({"status": 400})
    log.flush()
    log.flush()
    assert written == [b'{"status":200,"model":"m"}\n{"status":400}\n']


def test_beyond_its_capacity_the_oldest_lines_are_dropped_and_counted():
    written: list[bytes] = []
    log = ExchangeLog(written.append, capacity=2)
    for number in range(5):
        log.record({"n": number})
    log.flush()
    assert written == [b'{"n":3}\n{"n":4}\n']
    assert log.dropped == 3


async def test_the_background_task_writes_by_itself_and_once_more_at_the_end():
    written: list[bytes] = []
    loop, first = asyncio.get_running_loop(), asyncio.Event()

    def write(data: bytes) -> None:
        written.append(data)
        loop.call_soon_threadsafe(first.set)

    log = ExchangeLog(write)
    task = asyncio.create_task(log.run())
    log.record({"n": 1})
    await asyncio.wait_for(first.wait(), 10)
    log.record({"n": 2})
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert b"".join(written) == b'{"n":1}\n{"n":2}\n'
