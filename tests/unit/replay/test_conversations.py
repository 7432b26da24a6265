"""Conversations from files and receipts."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.errors import InvalidRequest
from gateway.replay.conversations import read_conversation, read_receipts

MESSAGES = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "yes"},
    {"role": "user", "content": "two"},
]
REQUESTS = [{"messages": MESSAGES[:2]}, {"messages": MESSAGES}]


def write_lines(*entries: Any) -> bytes:
    return b"\n".join(map(orjson.dumps, entries))


@pytest.mark.parametrize(
    "raw",
    [
        orjson.dumps(MESSAGES),
        orjson.dumps({"messages": MESSAGES}),
        write_lines(*MESSAGES),
        write_lines(*REQUESTS),
        orjson.dumps(REQUESTS),
    ],
    ids=["array", "object", "lines", "lines of requests", "array of requests"],
)
def test_every_form_gives_the_same_requests(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(raw)
    assert read_conversation(path) == REQUESTS


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "fewer than two requests"),
        (b"[1]", "neither a message nor a request"),
        (b'{"role": "user"}\n{', ":2: not valid JSON"),
        (write_lines(MESSAGES[1], REQUESTS[0]), "cannot be mixed"),
        (write_lines(MESSAGES[1]), "fewer than two requests"),
        (orjson.dumps({"messages": "none"}), "must be an array"),
        (write_lines(*[MESSAGES[1]] * 501), "more than 500"),
    ],
)
def test_a_file_that_is_no_conversation_is_refused(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "talk.json"
    path.write_bytes(raw)
    with pytest.raises(InvalidRequest, match=message):
        read_conversation(path)


def test_receipts_need_their_text() -> None:
    kept = [
        {"id": "a", "text": {"request": orjson.dumps({**one, "context": {"agent": "x"}}).decode()}} for one in REQUESTS
    ]
    assert read_receipts(kept) == REQUESTS
    with pytest.raises(InvalidRequest, match="Receipt b does not hold its request"):
        read_receipts([*kept, {"id": "b"}])


@pytest.mark.parametrize("seed", ["9" * 400, "[" * 1100 + "]" * 1100], ids=["an enormous number", "too many levels"])
def test_a_receipt_whose_request_cannot_be_read_is_refused(seed: str) -> None:
    kept = [{"id": "a", "text": {"request": f'{{"messages":[],"seed":{seed}}}'}}]
    with pytest.raises(InvalidRequest, match="cannot be read"):
        read_receipts(kept)
