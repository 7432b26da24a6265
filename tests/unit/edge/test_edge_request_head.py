"""What is read of a request's headers, in one walk."""

from gateway.edge.request import read_head


def test_only_named_headers_go_up():
    up = read_head(
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
    ).forward(None)
    assert dict(up.first) == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "user-agent": "OpenAI/Python",
        "openai-organization": "org",
        "traceparent": "00-1-2-01",
    }
    assert up.later is up.first


def test_the_idempotency_key_goes_up_on_the_first_turn_only():
    up = read_head([(b"idempotency-key", b"once"), (b"accept", b"*/*")]).forward(None)
    assert dict(up.first) == {"accept": "*/*", "idempotency-key": "once"}
    assert dict(up.later) == {"accept": "*/*"}


def test_values_keep_their_bytes():
    ((_, value),) = read_head([(b"user-agent", b"caf\xe9")]).forward(None).first
    assert value.encode("latin-1") == b"caf\xe9"


class CountedHeaders(list[tuple[bytes, bytes]]):
    """Headers that count how often they are walked."""

    walks = 0

    def __iter__(self):
        self.walks += 1
        return super().__iter__()


def test_everything_is_found_in_one_walk():
    headers = CountedHeaders(
        [
            (b"host", b"gateway.local"),
            (b"origin", b"https://app.example"),
            (b"authorization", b"Bearer client"),
            (b"x-context-key", b" ours "),
            (b"x-context-agent", b"writer"),
            (b"content-type", b"application/json"),
            (b"content-length", b"12"),
            (b"content-encoding", b"identity"),
        ]
    )
    head = read_head(headers)
    assert (head.hosts, head.origins) == ([b"gateway.local"], [b"https://app.example"])
    assert (head.bearer, head.gateway_keys) == (b"client", [b"ours"])
    assert head.context == [(b"x-context-agent", b"writer")]
    assert (head.content_type, head.content_length, head.content_encoding) == (b"application/json", b"12", b"identity")
    assert headers.walks == 1


def test_of_repeated_bearers_the_first_counts_and_hosts_and_keys_are_all_kept():
    head = read_head(
        [
            (b"authorization", b"Basic abc"),
            (b"authorization", b"Bearer one"),
            (b"authorization", b"Bearer two"),
            (b"x-context-key", b"a"),
            (b"x-context-key", b"b"),
            (b"host", b"x"),
            (b"host", b"y"),
        ]
    )
    assert (head.bearer, head.gateway_keys, head.hosts) == (b"one", [b"a", b"b"], [b"x", b"y"])
