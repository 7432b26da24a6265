"""Long messages are shortened without ever being in memory as a whole."""

import orjson
import pytest

from gateway.tools.long_messages import LineLimiter, shorten_message

TEXT = 'Line "one"\n\\ and é and 😀. '


def make_line(text: str, identity: object = 7) -> bytes:
    result = {"content": [{"type": "text", "text": text}]}
    return orjson.dumps({"jsonrpc": "2.0", "id": identity, "result": result})


def feed(limiter: LineLimiter, data: bytes, size: int) -> list[bytes]:
    pieces = (data[at : at + size] for at in range(0, len(data), size))
    return [line for piece in pieces for line in limiter.feed(piece)]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_short_lines_pass_as_they_are(size: int) -> None:
    lines = [make_line("a"), b"", make_line("b" * 50)]
    assert feed(LineLimiter(200), b"\n".join(lines) + b"\n", size) == lines


@pytest.mark.parametrize("limit", range(100, 160))
@pytest.mark.parametrize("identity", [7, "listen-1"])
def test_a_long_text_keeps_its_beginning_wherever_it_is_cut(limit: int, identity: object) -> None:
    (line,) = feed(LineLimiter(limit), make_line(TEXT * 100, identity) + b"\n", 64)
    message = orjson.loads(line)
    (block,) = message["result"]["content"]
    assert message["id"] == identity
    assert (TEXT * 100).startswith(block["text"])
    assert len(block["text"]) > 5


def test_escapes_that_are_cut_are_dropped() -> None:
    head = b'{"id":1,"result":{"content":[{"text":"ab\\ud83d\\ud'
    assert orjson.loads(shorten_message(head, b"", 9))["result"]["content"][0]["text"] == "ab"


def test_a_message_that_answers_nobody_is_dropped() -> None:
    assert feed(LineLimiter(50), b'{"method":"x","params":"' + b"y" * 500 + b'"}\n', 64) == [b""]


def test_an_id_at_the_end_is_found() -> None:
    line = b'{"result":{"content":[{"type":"text","text":"' + b"y" * 2000 + b'"}]},"id":12}'
    (short,) = feed(LineLimiter(100), line + b"\n", 64)
    assert orjson.loads(short)["id"] == 12


def test_events_of_a_stream_keep_their_prefix() -> None:
    (line,) = feed(LineLimiter(100), b"data: " + make_line("z" * 500) + b"\n", 64)
    assert line.startswith(b"data: {")


def test_what_is_kept_is_bounded() -> None:
    limiter = LineLimiter(1000)
    for _ in range(1000):
        assert list(limiter.feed(b"x" * 1000)) == []
    assert limiter._kept == 1000
    assert sum(map(len, limiter._pieces)) == 1000
    assert len(limiter._tail) <= 512
