"""OpenAIUpstream against a server that is scripted byte by byte."""

import asyncio
import re
import socket
import ssl
import time
from typing import Any

import pytest

from gateway import errors
from gateway.domain.upstream import UpstreamRequest
from gateway.settings import LimitSettings, TimeoutSettings, UpstreamSettings
from tests.unit.upstreams.scripted_server import (
    CHAT,
    SHORT,
    Peer,
    listening,
    polite,
    raw,
    talking,
    upstream_at,
    whole,
)


async def test_sends_the_allowed_headers_its_own_key_and_nothing_else() -> None:
    request = UpstreamRequest("/chat/completions", b"{}", (("user-agent", "sdk/1"), ("OpenAI-Beta", "x")))
    async with talking(polite, api_key="sk-1", headers={"X-Team": "blue"}) as (upstream, server):
        seen = await whole(upstream, request)
    assert seen.decode() == (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\naccept-encoding: identity\r\n"
        "authorization: Bearer sk-1\r\nx-team: blue\r\nuser-agent: sdk/1\r\nOpenAI-Beta: x\r\n"
        "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )


async def test_reply_headers_have_lower_case_names() -> None:
    async with talking(polite) as (upstream, _):
        reply = await upstream.send(CHAT)
        await reply.close()
    assert (reply.status, reply.headers["x-request-id"]) == (200, "r1")


async def test_a_given_content_type_is_kept() -> None:
    request = UpstreamRequest("/audio/transcriptions", b"--b", (("Content-Type", "multipart/form-data; boundary=b"),))
    async with talking(polite) as (upstream, _):
        seen = await whole(upstream, request)
    assert seen.count(b"ontent-") == 2
    assert b"Content-Type: multipart/form-data; boundary=b\r\n" in seen


async def test_the_client_s_bearer_replaces_the_key_when_it_is_passed_through() -> None:
    async with talking(polite, api_key="sk-1", pass_bearer=True) as (upstream, _):
        named = await whole(upstream, UpstreamRequest("/x", b"", bearer="client"))
        nameless = await whole(upstream, UpstreamRequest("/x", b""))
    assert b"authorization: Bearer client\r\n" in named
    assert b"authorization" not in nameless
    assert upstream.passes_bearer


async def test_a_bearer_is_kept_back_from_an_upstream_with_its_own_key() -> None:
    async with talking(polite, api_key="sk-1") as (upstream, _):
        seen = await whole(upstream, UpstreamRequest("/x", b"", bearer="client"))
    assert seen.count(b"Bearer") == 1
    assert b"Bearer sk-1" in seen


async def test_forwarded_headers_cannot_change_framing_or_account() -> None:
    headers = (("Content-Length", "0"), ("Transfer-Encoding", "chunked"), ("Authorization", "Bearer x"), ("Host", "h"))
    async with talking(polite, api_key="sk-1") as (upstream, _):
        seen = await whole(upstream, UpstreamRequest("/x", b"abc", headers))
    assert b"content-length: 3\r\n" in seen
    assert not re.search(rb"Content-Length|chunked|Bearer x|Host", seen)


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\0b"])
async def test_a_header_value_cannot_bring_another_header(value: str) -> None:
    async with talking(polite) as (upstream, server):
        with pytest.raises(errors.InvalidRequest):
            await upstream.send(UpstreamRequest("/x", b"", (("user-agent", value),)))
        assert server.peers == []


@pytest.mark.parametrize("path", ["/a b", "/a\r\nb", "/ä", "/a#b"])
async def test_a_path_that_is_no_path_is_refused(path: str) -> None:
    async with talking(polite) as (upstream, _):
        with pytest.raises(errors.InvalidRequest):
            await upstream.send(UpstreamRequest(path, b""))


async def test_queries_of_the_base_url_and_the_path_are_joined() -> None:
    async with listening(polite) as server:
        upstream = upstream_at(f"http://127.0.0.1:{server.port}/deploy/?api-version=2", headers={"api-key": "k"})
        seen = await whole(upstream, UpstreamRequest("/images?size=1", b""))
        await upstream.close()
    assert seen.startswith(b"POST /deploy/images?api-version=2&size=1 HTTP/1.1\r\n")


async def test_connections_are_kept_and_used_again() -> None:
    async with talking(polite) as (upstream, server):
        for _ in range(3):
            await whole(upstream)
    assert len(server.peers) == 1


async def test_a_body_larger_than_the_socket_buffers_arrives_whole() -> None:
    body = bytes(range(256)) * 20_000
    async with talking(polite) as (upstream, _):
        seen = await whole(upstream, UpstreamRequest("/x", body))
    assert seen.endswith(b"\r\n\r\n" + body)


async def test_chunks_come_as_they_are_sent() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"3\r\none\r\n", b"3\r\ntwo\r\n", b"0\r\n\r\n"
    async with talking(raw(*chunked)) as (upstream, _):
        reply = await upstream.send(CHAT)
        parts = [await reply.read() for _ in range(3)]
        await reply.close()
    assert parts == [b"one", b"two", b""]


async def test_a_body_that_ends_with_the_connection_is_complete() -> None:
    async with talking(raw(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it", then="close")) as (upstream, _):
        assert await whole(upstream) == b"all of it"


async def test_interim_heads_are_skipped() -> None:
    reply = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    )
    async with talking(raw(reply)) as (upstream, _):
        assert await whole(upstream) == b"ok"


async def test_an_error_status_is_a_reply() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"slow down", "Retry-After: 7", status="429 Too Many Requests")

    async with talking(act) as (upstream, _):
        reply = await upstream.send(CHAT)
        assert (reply.status, reply.headers["retry-after"], await reply.read_all()) == (429, "7", b"slow down")
        await reply.close()


async def test_large_headers_are_taken() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"ok", "X-Big: " + "b" * 30_000)

    async with talking(act) as (upstream, _):
        assert await whole(upstream) == b"ok"


async def test_headers_beyond_the_limit_are_invalid() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"ok", "X-Big: " + "b" * 30_000)

    async with talking(act, LimitSettings(header_bytes=10_000)) as (upstream, _):
        with pytest.raises(errors.UpstreamInvalid):
            await upstream.send(CHAT)


@pytest.mark.parametrize(
    "reply",
    [
        b"<html><body>Bad gateway</body></html>\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx",
    ],
    ids=["html", "tls", "redirect", "upgrade", "compressed"],
)
async def test_what_is_not_a_usable_reply_is_invalid(reply: bytes) -> None:
    async with talking(raw(reply)) as (upstream, _):
        with pytest.raises(errors.UpstreamInvalid):
            await upstream.send(CHAT)


async def test_a_head_that_breaks_off_is_invalid_and_not_sent_again() -> None:
    async with talking(raw(b"HTTP/1.1 200 OK\r\nContent-Ty", then="close")) as (upstream, server):
        with pytest.raises(errors.UpstreamInvalid):
            await upstream.send(CHAT)
    assert len(server.peers) == 1


async def test_a_refused_connection_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        upstream = upstream_at(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", api_key="sk-secret")
        with pytest.raises(errors.UpstreamUnreachable, match="'prime'") as caught:
            await upstream.send(CHAT)
        await upstream.close()
    assert "sk-secret" not in str(caught.value)


async def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    upstream = upstream_at("http://no-such-host.invalid/v1", timeouts=SHORT)
    with pytest.raises(errors.UpstreamUnreachable):
        await upstream.send(CHAT)
    await upstream.close()


async def test_a_failed_tls_handshake_is_unreachable() -> None:
    async def act(peer: Peer) -> None:
        await peer.reader.read(100)
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with listening(act) as server:
        upstream = upstream_at(f"https://127.0.0.1:{server.port}/v1", timeouts=SHORT)
        with pytest.raises(errors.UpstreamUnreachable) as caught:
            await upstream.send(CHAT)
        await upstream.close()
    assert isinstance(caught.value.__cause__, ssl.SSLError | OSError)


async def test_a_handshake_that_hangs_is_unreachable_within_the_connect_timeout() -> None:
    async def act(peer: Peer) -> None:
        await peer.reader.read(100_000)
        await peer.reader.read(100_000)

    async with listening(act) as server:
        slow = TimeoutSettings(connect=0.2, first_byte=30, idle=30)
        upstream = upstream_at(f"https://127.0.0.1:{server.port}/v1", timeouts=slow)
        started = time.monotonic()
        with pytest.raises(errors.UpstreamUnreachable):
            await upstream.send(CHAT)
        await upstream.close()
    assert time.monotonic() - started < 20  # the next timeout is thirty seconds


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Ty"], ids=["silent", "half a head"])
async def test_no_head_in_time_is_a_timeout_and_drops_the_connection(start: bytes) -> None:
    async with talking(raw(start), timeouts=SHORT) as (upstream, server):
        with pytest.raises(errors.UpstreamTimeout, match=r"0\.3 s"):
            await upstream.send(CHAT)
        await asyncio.wait_for(server.gone.wait(), 5)


async def test_a_head_that_trickles_does_not_push_the_deadline() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nX: ")
        while True:
            await peer.send(b"y")
            await asyncio.sleep(0.02)

    async with talking(act, timeouts=SHORT) as (upstream, _):
        with pytest.raises(errors.UpstreamTimeout):
            await upstream.send(CHAT)


async def test_an_upstream_that_does_not_take_the_body_is_a_timeout_and_gets_no_more_of_it() -> None:
    given_up, taken = asyncio.Event(), 0

    async def act(peer: Peer) -> None:
        nonlocal taken
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await given_up.wait()
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        while data := await peer.reader.readexactly(1000):
            taken += len(data)

    async with talking(act, timeouts=SHORT) as (upstream, server):
        with pytest.raises(errors.UpstreamTimeout):
            await upstream.send(UpstreamRequest("/x", b"x" * 30_000_000))
        given_up.set()
        await asyncio.wait_for(server.gone.wait(), 5)
    assert taken < 25_000_000


async def test_silence_in_the_middle_of_a_body_is_a_timeout() -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
    async with talking(raw(start), timeouts=SHORT) as (upstream, server):
        reply = await upstream.send(CHAT)
        assert await reply.read() == b"one"
        with pytest.raises(errors.UpstreamTimeout, match="silent"):
            await reply.read()
        await reply.close()
        await asyncio.wait_for(server.gone.wait(), 5)


async def test_waiting_for_the_head_may_take_longer_than_the_idle_timeout() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await asyncio.sleep(0.3)
        await peer.answer(b"ok")

    async with talking(act, timeouts=TimeoutSettings(connect=1, first_byte=2, idle=0.1)) as (upstream, _):
        assert await whole(upstream) == b"ok"


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
    ],
    ids=["length", "between chunks", "in a chunk"],
)
async def test_a_body_that_breaks_off_is_truncated(start: bytes, then: str) -> None:
    async with talking(raw(start, then=then)) as (upstream, _):
        with pytest.raises(errors.UpstreamTruncated):
            await whole(upstream)


async def test_a_reset_does_not_pass_for_the_end_of_a_body_without_length() -> None:
    async with talking(raw(b"HTTP/1.1 200 OK\r\n\r\nhalf", then="reset")) as (upstream, _):
        with pytest.raises(errors.UpstreamTruncated):
            await whole(upstream)


async def test_broken_chunking_is_truncated_not_endless() -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
    async with talking(raw(start, b"zzz\r\n")) as (upstream, _):
        with pytest.raises(errors.UpstreamTruncated):
            await asyncio.wait_for(whole(upstream), 1)


async def test_a_kept_connection_that_dies_unheard_is_replaced_once() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"first" if peer.number == 0 else b"second")
        if peer.number == 0:
            await peer.request()  # takes the second request and hangs up without a byte
            peer.reset()

    async with talking(act) as (upstream, server):
        assert [await whole(upstream), await whole(upstream)] == [b"first", b"second"]
    assert len(server.peers) == 2


async def test_a_kept_connection_that_answered_in_part_is_not_replaced() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"first")
        await peer.request()
        await peer.send(b"HTTP/1.1 20")

    async with talking(act) as (upstream, server):
        await whole(upstream)
        with pytest.raises(errors.UpstreamInvalid):
            await whole(upstream)
    assert len(server.peers) == 1


async def test_a_connection_closed_between_requests_is_not_noticed() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.answer(b"ok")

    async with talking(act) as (upstream, server):
        for _ in range(3):
            assert await whole(upstream) == b"ok"
            await asyncio.sleep(0.02)
    assert len(server.peers) == 3


async def test_a_new_connection_that_is_closed_without_an_answer_is_unreachable() -> None:
    async with talking(raw(then="close")) as (upstream, server):
        with pytest.raises(errors.UpstreamUnreachable):
            await upstream.send(CHAT)
    assert len(server.peers) == 1


async def test_closing_a_reply_that_still_comes_drops_its_connection() -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await peer.reader.readexactly(1)

    async with talking(act) as (upstream, server):
        reply = await upstream.send(CHAT)
        await reply.read()
        await reply.close()
        await reply.close()
        await asyncio.wait_for(server.gone.wait(), 5)


async def test_a_cancelled_call_drops_its_connection() -> None:
    async with talking(raw()) as (upstream, server):
        call = asyncio.create_task(upstream.send(CHAT))
        await asyncio.wait_for(server.came.wait(), 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(server.gone.wait(), 5)


async def test_a_connection_whose_request_was_not_taken_is_not_used_again() -> None:
    async def act(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.answer(b"no", status="413 Too Large")
        await asyncio.sleep(15)  # whoever uses the connection again runs into the deadline

    # On a busy machine it takes a while to hand over 30 MB.
    async with talking(act, timeouts=TimeoutSettings(first_byte=5)) as (upstream, server):
        assert await whole(upstream, UpstreamRequest("/x", b"x" * 30_000_000)) == b"no"
        assert await whole(upstream) == b"no"
    assert len(server.peers) == 2


async def test_a_reply_beyond_the_limit_is_invalid() -> None:
    async with talking(polite, LimitSettings(reply_bytes=100)) as (upstream, _):
        with pytest.raises(errors.UpstreamInvalid, match="100 bytes"):
            await whole(upstream, UpstreamRequest("/x", b"x" * 200))


@pytest.mark.parametrize("framing", ["Content-Length: 30000000", "Transfer-Encoding: chunked", "Connection: close"])
async def test_a_slow_reader_holds_the_upstream_back_and_loses_nothing(framing: str) -> None:
    sent = 0
    piece = b"x" * 100_000
    if "chunked" in framing:
        piece = b"186a0\r\n" + piece + b"\r\n"

    async def act(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.send(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n".encode())
        for _ in range(300):
            await peer.send(piece)
            sent += 1
        await peer.send(b"0\r\n\r\n" if "chunked" in framing else b"")

    async with talking(act) as (upstream, _):
        reply = await upstream.send(CHAT)
        await asyncio.sleep(0.2)
        assert sent < 250
        assert len(await reply.read_all()) == 30_000_000
        await reply.close()


async def test_models_are_listed() -> None:
    async def act(peer: Peer) -> None:
        head, _ = await peer.request()
        assert head.startswith("GET /v1/models HTTP/1.1\r\n")
        assert "content-" not in head
        await peer.answer(b'{"object":"list","data":[{"id":"a","created":1},{"id":7},"x"]}')

    async with talking(act) as (upstream, _):
        assert await upstream.list_models() == [{"id": "a", "created": 1}]


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        ("401 No", b"{}", errors.UpstreamAuth),
        ("500 No", b'{"data":[]}', errors.UpstreamInvalid),
        ("200 OK", b"<html>", errors.UpstreamInvalid),
        ("200 OK", b'{"data":{}}', errors.UpstreamInvalid),
        ("200 OK", b"[" * 100_000, errors.UpstreamInvalid),
    ],
)
async def test_models_that_cannot_be_listed_are_an_upstream_error(status: str, body: bytes, error: Any) -> None:
    async def act(peer: Peer) -> None:
        await peer.request()
        await peer.answer(body, status=status)

    async with talking(act) as (upstream, _):
        with pytest.raises(errors.UpstreamError) as caught:
            await upstream.list_models()
    assert type(caught.value) is error


@pytest.mark.parametrize("url", [None, "", "api.example.com/v1", "ftp://h/", "http:///v1", "https://u:p@h/v1"])
def test_a_base_url_that_cannot_be_one_is_refused(url: str | None) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        UpstreamSettings(kind="openai", base_url=url)
    assert "u:p" not in str(caught.value)
