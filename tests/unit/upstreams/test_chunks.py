"""Chunks, read as far as needed."""

import pytest

from gateway.conversation.chunks import read_chunk
from gateway.errors import UpstreamInvalid


def test_a_chunk_s_head_is_what_it_names():
    assert read_chunk(b'{"id":"a","created":1,"object":"x"}').head == {"id": "a", "created": 1}


def test_unknown_fields_are_no_fault():
    chunk = read_chunk(b'{"x":[1],"choices":[{"index":0,"delta":{"content":"a"},"y":{}},{"delta":null}]}')
    assert chunk.choices is not None
    assert [choice.delta for choice in chunk.choices] == [{"content": "a"}, None]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"[]",
        b"5",
        b'{"choices":5}',
        b'{"choices":[5]}',
        b'{"choices":[{"delta":[]}]}',
        b'{"id":"\xff"}',
        b"[" * 9999,
    ],
)
def test_what_is_no_chunk_is_refused(data: bytes):
    with pytest.raises(UpstreamInvalid):
        read_chunk(data)
