"""JSON lines without secrets."""

import io
import logging
import sys
from typing import Any

import orjson
import pytest

from gateway.edge.logs import MAX_MESSAGE, MAX_VALUE, JsonFormatter, RequestLog, cut, log_as_json
from gateway.redaction import Redactor
from gateway.settings import LogSettings

FORMATTER = JsonFormatter(Redactor())


def record(message: str, *args: object, exc_info: Any = None) -> logging.LogRecord:
    return logging.LogRecord("gateway.x", logging.WARNING, "x.py", 1, message, args, exc_info)


def test_a_record_is_one_line_of_json():
    line = orjson.loads(FORMATTER.format(record("two\nlines of %s", "text")))
    assert (line["level"], line["logger"], line["message"]) == ("warning", "gateway.x", "two\nlines of text")
    assert line["time"].endswith("+00:00")


def test_a_traceback_is_part_of_its_line_and_is_redacted_too():
    try:
        raise ValueError("key sk-abcdef123456 is wrong")
    except ValueError:
        text = FORMATTER.format(record("failed", exc_info=sys.exc_info()))
    assert "\n" not in text
    assert "ValueError" in orjson.loads(text)["exception"]
    assert "abcdef123456" not in text


def test_a_value_is_cut():
    assert (cut(None), cut("m" * MAX_VALUE)) == (None, "m" * MAX_VALUE)
    assert cut("m" * 10_000) == "m" * MAX_VALUE + "…"


@pytest.mark.parametrize("filling", ["x", "word ", "\n", "é"])
def test_a_message_is_cut_and_its_end_is_kept(filling):
    message = orjson.loads(FORMATTER.format(record(f"begins {filling * 100_000} ends")))["message"]
    assert len(message) <= MAX_MESSAGE + 3
    assert message.startswith("begins")
    assert message.endswith("ends")
    assert "…" in message


@pytest.mark.parametrize("shift", range(20))
def test_no_part_of_a_secret_is_left_at_a_cut(shift):
    secret = "s3cr3t-of-upstream"
    formatter = JsonFormatter(Redactor([secret]))
    text = "-" * (MAX_MESSAGE - shift) + secret + " " * MAX_MESSAGE
    assert "s3" not in formatter.format(record(text))
    assert "am" not in formatter.format(record(" " * MAX_MESSAGE + secret + "-" * (MAX_MESSAGE - shift)))


def test_a_message_with_a_lone_surrogate_is_still_logged():
    assert orjson.loads(FORMATTER.format(record("bad %s", "\ud800")))["message"] == "bad ?"


def test_uvicorn_logs_through_the_same_formatter(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with log_as_json(LogSettings(level="info"), Redactor()), log_as_json(LogSettings(level="info"), Redactor()):
        logging.getLogger("uvicorn.error").info("Started")
        logging.getLogger("gateway").debug("too fine")
    (line,) = stderr.getvalue().splitlines()
    assert orjson.loads(line)["logger"] == "uvicorn.error"


def test_the_process_logs_as_before_afterwards():
    handlers, level = logging.root.handlers[:], logging.root.level
    with log_as_json(LogSettings(level="debug"), Redactor()):
        assert logging.root.level == logging.DEBUG
        assert logging.root.handlers != handlers
    assert (logging.root.handlers, logging.root.level) == (handlers, level)


def test_lines_are_written_in_one_piece():
    written: list[bytes] = []
    log = RequestLog(written.append)
    log.queue([b'{"n":1}', b'{"n":2}'])
    log.flush()
    log.flush()
    assert written == [b'{"n":1}\n{"n":2}\n']


def test_beyond_its_capacity_the_oldest_lines_are_dropped_and_counted():
    written: list[bytes] = []
    log = RequestLog(written.append, capacity=2)
    log.queue([b"%d" % number for number in range(5)])
    log.flush()
    assert written == [b"3\n4\n"]
    assert log.lost == 3
    log.queue([b"5"])
    log.queue([b"6"])
    assert log.lost == 3
    log.queue([b"7"])
    log.flush()
    assert written[1:] == [b"6\n7\n"]
    assert log.lost == 4
