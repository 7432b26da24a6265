"""Which headers of a reply reach the client."""

from gateway.edge.response import select_client_headers


def test_only_named_headers_come_down():
    down = select_client_headers(
        {
            "content-type": "text/event-stream",
            "x-request-id": "req_1",
            "x-ratelimit-remaining-tokens": "9",
            "openai-processing-ms": "12",
            "retry-after": "3",
            "set-cookie": "a=b",
            "content-length": "5",
            "transfer-encoding": "chunked",
            "server": "x",
            "x-ratelimitless": "no family",
        }
    )
    assert dict(down) == {
        b"content-type": b"text/event-stream",
        b"x-request-id": b"req_1",
        b"x-ratelimit-remaining-tokens": b"9",
        b"openai-processing-ms": b"12",
        b"retry-after": b"3",
    }


def test_a_header_that_cannot_be_written_is_left_out():
    assert select_client_headers({"x-request-id": "a\x00b", "openai-version": "1\udcff", "retry-after": "1"}) == [
        (b"retry-after", b"1")
    ]
