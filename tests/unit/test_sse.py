"""Server-sent events as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import sse


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"", 0),
        (b"data: a", 0),
        (b"data: a\n", 0),
        (b"data: a\n\n", 9),
        (b"data: a\n\ndata: b\n", 9),
        (b"data: a\r\n", 0),
        (b"data: a\r\n\r", 0),
        (b"data: a\r\n\r\n", 11),
        (b"data: a\n\ndata: b\r\n\r\nda", 20),
        (b"data: a\r\n\r\ndata: b\n\nda", 20),
        ("data: \u2028\u0085\n".encode(), 0),
    ],
)
def test_only_a_blank_line_ends_an_event(data: bytes, whole: int) -> None:
    assert sse.find_events_end(data) == whole


def test_events_keep_the_blank_line_that_ends_them() -> None:
    data = b"data: a\n\n: note\r\n\r\nevent: x\ndata: b\n\ndata: unfinished\n"
    assert sse.split_events(data) == [b"data: a\n\n", b": note\r\n\r\n", b"event: x\ndata: b\n\n"]


@given(
    st.lists(st.sampled_from([b"data: a\n\n", b"data: b\r\n\r\n", b": c\n\n", b"event: d\ndata: e\n\n"])), st.binary()
)
def test_whole_events_together_are_the_data(found: list[bytes], rest: bytes) -> None:
    rest = rest.replace(b"\n", b"")
    data = b"".join(found)
    assert sse.split_events(data) == found
    assert sse.find_events_end(data + rest) == len(data)


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: a b\n\n", b"a b"),
        (b"data:a\n\n", b"a"),
        (b"data: a\r\n\r\n", b"a"),
        (b"data: a\ndata: b\n\n", b"a\tb"),
        (b"data: a\r\ndata: b\r\n\r\n", b"a\tb"),
        (b"event: x\nid: 1\ndata: a\n\n", b"a"),
        (b"\ndata: a\n\n", b"a"),
        (b"data:\n\n", b""),
        (b": comment\n\n", None),
        (b"event: ping\n\n", None),
        (b"database: a\n\n", None),
    ],
)
def test_an_event_s_data_is_found(event: bytes, data: bytes | None) -> None:
    assert sse.read_payload(event) == data


def test_an_event_carries_its_data() -> None:
    assert sse.read_payload(sse.encode_event(b'{"a":1}')) == b'{"a":1}'
    assert sse.read_payload(sse.DONE_EVENT) == sse.DONE
