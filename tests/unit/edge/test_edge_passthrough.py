"""Relaying the endpoints of the allow-list."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest

from gateway.domain.principal import ANONYMOUS
from gateway.domain.upstream import Capabilities, Upstream, UpstreamAnswer, UpstreamReply, UpstreamRequest
from gateway.edge.access import Caller, OpenStreams
from gateway.edge.errors import BrokenResponse
from gateway.edge.limits import RateLimiter
from gateway.edge.passthrough import PassthroughEndpoint, PassthroughPaths
from gateway.edge.passthrough_rights import PassthroughRights
from gateway.edge.request import read_head
from gateway.edge.routed_model import has_one_model, read_model
from gateway.errors import (
    EndpointUnavailable,
    InvalidJson,
    InvalidRequest,
    MethodNotAllowed,
    UnknownEndpoint,
    UpstreamAuth,
    UpstreamInvalid,
    UpstreamTruncated,
)
from gateway.settings import LimitSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.upstreams.routes import Routes
from tests.support.fixed_policies import FixedPolicies


class FakeReply(UpstreamReply):
    """A reply made of pieces; an exception among them is raised where it stands."""

    def __init__(self, *pieces: bytes | Exception, status: int = 200, **headers: str) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pieces = list(pieces)
        self.closed = False

    async def read(self) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def read_all(self) -> bytes:
        raise AssertionError

    async def close(self) -> None:
        self.closed = True


class FakeUpstream:
    capabilities = Capabilities()
    name = "openai"

    def __init__(self, passes_bearer: bool = False) -> None:
        self.passes_bearer = passes_bearer

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        raise AssertionError

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        raise AssertionError

    async def close(self) -> None: ...


class FakeRoutes(Routes):
    """Routes that remember what was asked and give one reply."""

    def __init__(self, reply: FakeReply, upstream: FakeUpstream) -> None:
        self.reply, self.upstream = reply, upstream
        self.request: UpstreamRequest | None = None
        self.model: str | None = None

    def get_candidates(self, model: str) -> tuple[Upstream, ...]:
        self.model = model
        return (self.upstream,)

    async def send(self, candidates: Sequence[Upstream], request: UpstreamRequest, **_: Any) -> UpstreamAnswer:
        self.request = request
        return UpstreamAnswer(candidates[0], self.reply)


class Relay:
    """One request through a pass-through, and everything that came of it."""

    def __init__(self, *pieces: bytes | Exception, passes_bearer: bool = False, **reply: Any) -> None:
        self.reply = FakeReply(*pieces, **({"content_type": "application/json"} | reply))
        self.routes = FakeRoutes(self.reply, FakeUpstream(passes_bearer))
        self.sent: list[dict[str, Any]] = []

    async def run(
        self, body: bytes = b'{"model":"m"}', path: str = "/v1/embeddings", query: bytes = b"", **headers: str
    ) -> None:
        given = {"content_type": "application/json"} | headers
        lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": query,
            "state": {"caller": Caller(read_head(lines), ANONYMOUS, "client-bearer")},
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            self.sent.append(message)

        limits = LimitSettings(reply_bytes=100)
        limiter, rights = RateLimiter(MemoryEphemeralStore()), PassthroughRights(FixedPolicies())
        endpoint = PassthroughEndpoint(self.routes, PassthroughPaths(), limiter, limits, rights, OpenStreams())
        await endpoint(scope, receive, send)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


@pytest.mark.parametrize(
    "path",
    [
        "/v1/embeddings",
        "/v1/completions",
        "/v1/moderations",
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/audio/a/b",
    ],
)
def test_the_named_endpoints_are_open(path):
    PassthroughPaths().check("POST", path)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files",
        "/v1/batches",
        "/v1/fine_tuning/jobs",
        "/v1/embeddings/x",
        "/v1/audio",
        "/v1/audio/",
        "/v1/audio/..;/files",
        "/v1/audio/%3Fx",
        "/v2/embeddings",
        "/embeddings",
        "/",
    ],
)
def test_everything_else_is_unknown(path):
    with pytest.raises(UnknownEndpoint):
        PassthroughPaths().check("POST", path)


@pytest.mark.parametrize("path", ["/v1/conversations", "/v1/conversations/c1", "/v1/realtime"])
def test_what_will_be_built_says_so(path):
    with pytest.raises(EndpointUnavailable):
        PassthroughPaths().check("POST", path)


@pytest.mark.parametrize("further", ["rerank", "/rerank", "/v1/rerank", "v1/rerank"])
def test_an_operator_may_open_further_paths(further):
    PassthroughPaths([further]).check("POST", "/v1/rerank")


def test_an_operator_may_open_a_folder_and_even_what_is_not_built():
    allowed = PassthroughPaths(["vector_stores/*", "responses"])
    allowed.check("GET", "/v1/vector_stores/a/search")
    allowed.check("POST", "/v1/responses")
    with pytest.raises(UnknownEndpoint):
        allowed.check("GET", "/v1/vector_stores")


def test_other_methods_are_refused():
    with pytest.raises(MethodNotAllowed):
        PassthroughPaths().check("DELETE", "/v1/embeddings")


async def test_a_request_goes_up_byte_for_byte_with_the_headers_that_may():
    relay = Relay(b"{}")
    body = b'{ "model" : "m", "input":[1e400] }'
    await relay.run(body, query=b"a=1", authorization="Bearer x", openai_project="p", cookie="c")
    request = relay.routes.request
    assert request is not None
    assert (request.path, request.body, request.method, request.model) == ("/embeddings?a=1", body, "POST", "m")
    assert dict(request.headers) == {"content-type": "application/json", "openai-project": "p"}
    assert request.bearer == "client-bearer"
    assert relay.routes.model == "m"


async def test_the_reply_comes_down_piece_by_piece_with_its_status_and_the_headers_that_may():
    relay = Relay(b"ab", b"cd", status=429, retry_after="3", set_cookie="x", content_type="audio/mpeg")
    await relay.run(path="/v1/audio/speech")
    assert relay.sent[0]["status"] == 429
    assert dict(relay.sent[0]["headers"]) == {b"content-type": b"audio/mpeg", b"retry-after": b"3"}
    assert [message.get("body", b"") for message in relay.sent[1:]] == [b"ab", b"cd", b""]
    assert not relay.sent[-1].get("more_body", False)
    assert relay.reply.closed


@pytest.mark.parametrize(("status", "media"), [(401, "application/json"), (403, "text/plain")])
async def test_a_refusal_of_the_gateways_own_key_is_not_the_clients_fault(status, media):
    relay = Relay(b"{}", status=status, content_type=media)
    with pytest.raises(UpstreamAuth):
        await relay.run()
    assert relay.sent == []
    assert relay.reply.closed


async def test_a_refusal_of_the_clients_own_bearer_passes():
    relay = Relay(b"{}", status=401, passes_bearer=True)
    await relay.run()
    assert relay.sent[0]["status"] == 401


async def test_a_web_page_is_never_relayed():
    relay = Relay(b"<html>", content_type="text/html; charset=utf-8")
    with pytest.raises(UpstreamInvalid):
        await relay.run()
    assert relay.reply.closed


async def test_a_failure_before_the_first_byte_is_an_error_of_its_own():
    relay = Relay(UpstreamTruncated("cut"))
    with pytest.raises(UpstreamTruncated):
        await relay.run()
    assert relay.sent == []


async def test_a_body_that_breaks_off_breaks_the_connection():
    relay = Relay(b"half", UpstreamTruncated("cut"), content_type="audio/mpeg")
    with pytest.raises(BrokenResponse):
        await relay.run()
    assert relay.sent[-1]["more_body"]
    assert relay.reply.closed


async def test_a_stream_passes_in_whole_events():
    relay = Relay(b"data: 1\n\ndata", b": 2\n\n", b"data: [DONE]\n\n", content_type="text/event-stream")
    await relay.run(path="/v1/completions")
    assert [message["body"] for message in relay.sent[1:]] == [
        b"data: 1\n\n",
        b"data: 2\n\n",
        b"data: [DONE]\n\n",
        b"",
    ]


@pytest.mark.parametrize("end", [[UpstreamTruncated("cut")], []], ids=["broken", "cut cleanly"])
async def test_a_stream_that_breaks_off_ends_in_one_error_event_and_withholds_the_unfinished_one(end):
    relay = Relay(b"data: 1\n\ndata: {", *end, content_type="text/event-stream")
    await relay.run(path="/v1/completions")
    first, last = relay.body.split(b"\n\n", 1)
    assert first == b"data: 1"
    assert orjson.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_invalid"
    assert not relay.sent[-1].get("more_body", False)


async def test_an_event_that_never_ends_is_given_up():
    relay = Relay(b"data: " + b"x" * 60, b"x" * 60, b"never read", content_type="text/event-stream")
    await relay.run(path="/v1/completions")
    assert b"too large" in relay.body
    assert relay.reply.pieces == [b"never read"]


async def test_an_agent_is_not_a_model_here():
    relay = Relay(b"{}")
    with pytest.raises(InvalidRequest) as refusal:
        await relay.run(b'{"model":"agent:writer"}')
    assert refusal.value.param == "model"
    assert relay.routes.request is None


def form(*parts: bytes) -> bytes:
    return b"".join(b"--XX\r\n" + part + b"\r\n" for part in parts) + b"--XX--\r\n"


FILE = b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nX: y\r\n\r\n\x00\xff\r\n--X\r\n'
MODEL = b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper-1'
FAKE = b'Content-Disposition: form-data; name="file"; filename="model"; name="model"\r\n\r\nfake'
FORM = b"multipart/form-data; boundary=XX"


@pytest.mark.parametrize(
    ("content_type", "body", "model"),
    [
        (b"application/json", b'{"a":{"model":"no"},"model":"m"}', "m"),
        (b"application/json; charset=utf-8", b'{"model":null}', ""),
        (b"application/json", b'{"input":"x"}', ""),
        (b"", b"", ""),
        (b"application/octet-stream", b'{"model":"m"}', ""),
        (FORM, form(FILE, MODEL), "whisper-1"),
        (b'Multipart/Form-Data; Boundary="XX"', form(MODEL, FILE), "whisper-1"),
        (FORM, form(FILE), ""),
        (FORM, form(FAKE, MODEL), "whisper-1"),
        (FORM, b"preamble\r\n" + form(MODEL), "whisper-1"),
        (FORM, b"--XX\r\n" + MODEL, ""),
        (FORM, form(MODEL + b"x" * 5000), ""),
        (FORM, b"garbage", ""),
    ],
)
def test_the_model_is_found_in_the_body(content_type, body, model):
    assert read_model(content_type, body) == model


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"model":"\xff"}', b"[" * 100_000, b'{"model":"m"} x'])
def test_a_broken_json_body_is_refused(body):
    with pytest.raises(InvalidRequest):
        read_model(b"application/json", body)


@pytest.mark.parametrize("body", [b"{", b'{"a":' * 100_000])
def test_what_is_not_json_at_all_says_so(body):
    with pytest.raises(InvalidJson):
        read_model(b"application/json", body)


@pytest.mark.parametrize("body", [b"[]", b'{"model":1}', b'"x"'])
def test_a_body_of_the_wrong_form_is_refused(body):
    with pytest.raises(InvalidRequest):
        read_model(b"application/json", body)


def test_a_form_without_a_boundary_is_refused():
    with pytest.raises(InvalidRequest):
        read_model(b"multipart/form-data", b"x")


@pytest.mark.parametrize(
    ("name", "fine"),
    [
        (b'name="prompt"', True),
        (b'name="file"; filename="a\\"b.mp3"', True),
        (b"name=\"file\"; filename*=UTF-8''a%20b.mp3", True),
        (b'name="model"', False),
        (b"name*=UTF-8''mod%65l", False),
        (b'name*0="mo"; name*1="del"', False),
        (b'name="mo\\del"', False),
        (b'Name = "mo\\del"', False),
    ],
)
def test_a_form_names_no_other_model_in_disguise(name: bytes, fine: bool):
    """Servers that decode such names would take a model that was never checked."""
    head = b"Content-Disposition: form-data; "
    other = b"--XX\r\n%b%b\r\n\r\nx\r\n" % (head, name)
    body = b'%b--XX\r\n%bname="model"\r\n\r\nm-large\r\n--XX--\r\n' % (other, head)
    assert has_one_model(FORM, body) is fine
