"""Reading a request: its headers, in one pass, and its body, within limits."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from starlette.types import Receive

from gateway.domain.exchange import NOTHING_FORWARDED, ClientWriter, ForwardedHeaders
from gateway.edge.paths import DirectTarget, find_target
from gateway.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType

HeaderLines = Iterable[tuple[bytes, bytes]]  # names in lower case, as ASGI has them

CONTEXT = b"x-context-"
OPENAI = b"openai-"
PASSED_UP: Mapping[bytes, str] = {
    name.encode(): name
    for name in (
        "content-type", "accept", "user-agent", "traceparent", "tracestate", "x-title", "x-client-request-id",
        "anthropic-version", "anthropic-beta",
    )
}  # fmt: skip
UTF8 = (b"utf-8", b"utf8", b"us-ascii")


class RequestHead(msgspec.Struct):
    """What the headers of a request say; requests with the same head share it."""

    hosts: list[bytes] = msgspec.field(default_factory=list)
    origins: list[bytes] = msgspec.field(default_factory=list)
    gateway_keys: list[bytes] = msgspec.field(default_factory=list)  # `x-context-key`, as often as it is there
    bearer: bytes | None = None  # of `Authorization`; of several the first
    api_key: bytes | None = None  # `api-key` or `x-api-key`, as other dialects send it; of several the first
    content_type: bytes = b""
    content_encoding: bytes | None = None
    content_length: bytes | None = None
    context: list[tuple[bytes, bytes]] = msgspec.field(default_factory=list)  # the other `x-context-*`
    passed_up: list[tuple[str, str]] = msgspec.field(default_factory=list)  # what may go upstream (CONTRACT §5.4)
    idempotency_key: str | None = None
    admitted: Any = None  # the Caller that access control found for it, and may confirm
    _forwarded: ForwardedHeaders = NOTHING_FORWARDED  # the last that were asked for

    @property
    def gateway_key(self) -> bytes | None:
        """The key that is meant for the gateway alone; an empty header counts as none."""
        return (self.gateway_keys[0] or None) if self.gateway_keys else None

    def forward(self, bearer: str | None, query: str = "") -> ForwardedHeaders:
        """What goes upstream; the Idempotency-Key stands for one call, so it goes with the first turn only."""
        known = self._forwarded
        if known is NOTHING_FORWARDED or known.bearer != bearer or known.query != query:
            later = tuple(self.passed_up)
            key = self.idempotency_key
            first = later if key is None else (*later, ("idempotency-key", key))
            self._forwarded = known = ForwardedHeaders(first, later, bearer, query)
        return known


def read_head(headers: HeaderLines, passed_up: Mapping[bytes, str] = PASSED_UP) -> RequestHead:
    """Read the headers in one pass; those that nobody needs are ignored."""
    head = RequestHead()
    for name, value in headers:
        if name in passed_up:
            head.passed_up.append((passed_up[name], value.decode("latin-1")))  # any byte has a character
            if name == b"content-type":
                head.content_type = value
        elif name in READERS:
            READERS[name](head, value)
        elif name.startswith(CONTEXT):
            head.context.append((name, value))
        elif name.startswith(OPENAI):
            head.passed_up.append((name.decode("ascii"), value.decode("latin-1")))
    return head


def read_gateway_key(head: RequestHead, value: bytes) -> None:
    head.gateway_keys.append(value.strip())


def read_api_key(head: RequestHead, value: bytes) -> None:
    if head.api_key is None:
        head.api_key = value.strip()


def read_authorization(head: RequestHead, value: bytes) -> None:
    scheme, _, token = value.partition(b" ")
    if head.bearer is None and scheme.lower() == b"bearer":
        head.bearer = token.strip()


def read_content_length(head: RequestHead, value: bytes) -> None:
    head.content_length = value


def read_content_encoding(head: RequestHead, value: bytes) -> None:
    head.content_encoding = value


def read_idempotency_key(head: RequestHead, value: bytes) -> None:
    head.idempotency_key = value.decode("latin-1")


READERS: dict[bytes, Callable[[RequestHead, bytes], None]] = {
    b"host": lambda head, value: head.hosts.append(value),
    b"origin": lambda head, value: head.origins.append(value),
    b"x-context-key": read_gateway_key,
    b"authorization": read_authorization,
    b"api-key": read_api_key,
    b"x-api-key": read_api_key,
    b"content-length": read_content_length,
    b"content-encoding": read_content_encoding,
    b"idempotency-key": read_idempotency_key,
}


class ClientRequest(ClientWriter, Protocol):
    """A request that is not ASGI's, and the way to answer it: `respond`, or `start_stream`, `write` and `end`."""

    method: str
    target: DirectTarget
    head: RequestHead | None  # what the headers say, if that is known already

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """The request's headers, names in lower case."""
        ...

    async def read_body(self, head: RequestHead, max_bytes: int) -> bytes:
        """The whole body; raises a GatewayError for one that is too large or encoded."""
        ...

    async def respond(self, status: int, headers: HeaderLines, body: bytes) -> None:
        """Send a whole response; `headers` name its content type."""
        ...

    def start_stream(self, status: int, headers: HeaderLines) -> None:
        """Begin a response whose body comes in pieces; its head goes out with the first of them."""
        ...


class DirectEndpoint(Protocol):
    """Answers the requests of one path without ASGI."""

    path: str

    async def serve(self, request: ClientRequest) -> None:
        """Answer one request; raises BrokenResponse if that fails once it has begun."""
        ...


class FoundEndpoint(NamedTuple):
    """An endpoint, and what a request's target says to it."""

    endpoint: DirectEndpoint
    target: DirectTarget


class DirectEndpoints:
    """The direct endpoints by their paths."""

    def __init__(self, endpoints: Iterable[DirectEndpoint] = ()) -> None:
        self._by_path = {endpoint.path: endpoint for endpoint in endpoints}
        self._plain = {
            path.encode(): FoundEndpoint(endpoint, DirectTarget(path)) for path, endpoint in self._by_path.items()
        }

    def find(self, url: bytes) -> FoundEndpoint | None:
        """The endpoint that a request target means, however it is written."""
        found = self._plain.get(url)
        if found is None and (target := find_target(url, self._by_path)) is not None:
            found = FoundEndpoint(self._by_path[target.path], target)
        return found


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete; there is nobody to answer."""


def require_json(head: RequestHead) -> None:
    """Reject any body that is not declared as JSON in UTF-8.

    A web page can send other types to a loopback address without the consent of the browser's user.
    """
    if head.content_type == b"application/json":
        return
    media, *parameters = (part.strip().lower() for part in head.content_type.split(b";"))
    if media != b"application/json":
        raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")
    for name, _, value in (parameter.partition(b"=") for parameter in parameters):
        if name.strip() == b"charset" and value.strip(b' "') not in UTF8:
            raise UnsupportedMediaType("Send the body in UTF-8; other charsets are not supported.")


async def read_body(head: RequestHead, receive: Receive, max_bytes: int) -> bytes:
    """The whole body; its deadline is kept by the server's protocol."""
    check_body_headers(head, max_bytes)
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnected
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > max_bytes:
            raise body_too_large(max_bytes)
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_body_headers(head: RequestHead, max_bytes: int) -> None:
    """Reject what need not be read: compressed bodies, and those whose declared length is too large."""
    encoding, length = head.content_encoding, head.content_length
    if encoding is not None and encoding.strip().lower() not in (b"identity", b""):
        raise UnsupportedMediaType("Send the body without a Content-Encoding; compressed bodies are not supported.")
    if length is None:
        return
    if not length.isdigit():
        raise InvalidRequest("The Content-Length is not a number.")
    if len(length) > 18 or int(length) > max_bytes:
        raise body_too_large(max_bytes)


def body_too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {max_bytes} bytes. Send less, or raise limits.body_bytes.")
