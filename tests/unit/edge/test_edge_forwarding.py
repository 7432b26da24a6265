"""Which headers pass the gateway."""

from gateway.edge.forwarding import downward, upward


def test_only_named_headers_go_up():
    up = upward(
        [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"accept", b"text/event-stream"),
            (b"user-agent", b"OpenAI/Python"),
            (b"openai-organization", b"org"),
            (b"traceparent", b"00-1-2-01"),
            (b"authorization", b"Bearer x"),
            (b"cookie", b"a=b"),
            (b"x-forwarded-for", b"1.2.3.4"),
            (b"x-context-agent", b"writer"),
            (b"x-context-key", b"k"),
            (b"x-stainless-os", b"Linux"),
            (b"content-length", b"3"),
            (b"transfer-encoding", b"chunked"),
            (b"accept-encoding", b"gzip"),
            (b"openai", b"no family"),
        ]
    )
    assert dict(up.first) == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "user-agent": "OpenAI/Python",
        "openai-organization": "org",
        "traceparent": "00-1-2-01",
    }
    assert up.later is up.first


def test_the_idempotency_key_goes_up_on_the_first_turn_only():
    up = upward([(b"idempotency-key", b"once"), (b"accept", b"*/*")])
    assert dict(up.first) == {"accept": "*/*", "idempotency-key": "once"}
    assert dict(up.later) == {"accept": "*/*"}


def test_values_keep_their_bytes():
    ((_, value),) = upward([(b"user-agent", b"caf\xe9")]).first
    assert value.encode("latin-1") == b"caf\xe9"


def test_only_named_headers_come_down():
    down = downward(
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
    assert downward({"x-request-id": "a\x00b", "openai-version": "1\udcff", "retry-after": "1"}) == [
        (b"retry-after", b"1")
    ]
