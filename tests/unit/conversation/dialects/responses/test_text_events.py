"""Events of texts pass unread beside our tools only if they are JSON and nothing else."""

import pytest

from gateway.conversation.dialects.responses.events import TEXT_PARTS, TEXT_PIECES

DELTA = b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"a \\" b"}\n\n'
PART = b'event: response.content_part.added\ndata: {"type":"response.content_part.added","part":{}}\n\n'
OTHER = b'event: response.output_item.done\ndata: {"type":"response.output_item.done","item":{}}\n\n'


def test_leading_texts_are_measured() -> None:
    assert TEXT_PIECES.measure(DELTA * 3) == 3 * len(DELTA)
    assert TEXT_PIECES.measure(DELTA + PART) == len(DELTA)
    assert TEXT_PARTS.measure(DELTA + PART + DELTA + OTHER + DELTA) == 2 * len(DELTA) + len(PART)
    assert TEXT_PARTS.measure(OTHER + DELTA) == 0


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
    assert TEXT_PARTS.measure(event) == 0
    assert TEXT_PARTS.measure(DELTA + event + DELTA) == 0
