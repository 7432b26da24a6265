"""Events of texts pass unread beside our tools only if they are JSON and nothing else."""

import pytest

from gateway.conversation.dialects.responses.events import TEXT_PARTS, TEXT_PIECES, TextEvents

DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a \\" b"}\n\n'
PART = b'event: response.content_part.added\ndata: {"type":"response.content_part.added","part":{}}\n\n'
OTHER = b'event: response.output_item.done\ndata: {"type":"response.output_item.done","item":{}}\n\n'


def measure(kinds: TextEvents, data: bytes) -> int:
    run = kinds.find_run(data)
    return 0 if run is None else run.size


def test_leading_texts_are_measured() -> None:
    assert measure(TEXT_PIECES, DELTA * 3) == 3 * len(DELTA)
    assert measure(TEXT_PIECES, DELTA + PART) == len(DELTA)
    assert measure(TEXT_PARTS, DELTA + PART + DELTA + OTHER + DELTA) == 2 * len(DELTA) + len(PART)
    assert measure(TEXT_PARTS, OTHER + DELTA) == 0


@pytest.mark.parametrize(
    "event",
    [
        DELTA.replace(b"}\n\n", b"\n\n"),
        DELTA.replace(b"}\n\n", b"}}\n\n"),
        DELTA.replace(b"}\n\n", b"}\ndata: {}\n\n"),
        DELTA.replace(b"}\n\n", b',"type":"response.output_item.added","item":{"type":"function_call"}}\n\n'),
    ],
)
def test_what_is_no_text_is_read(event: bytes) -> None:
    assert measure(TEXT_PARTS, event) == 0
    assert measure(TEXT_PARTS, DELTA + event + DELTA) == 0
