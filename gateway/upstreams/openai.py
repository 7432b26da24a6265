"""Any endpoint that speaks OpenAI's wire format, over connections of our own (decision 015)."""

import asyncio
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from gateway import errors
from gateway.domain.dialect import DialectName
from gateway.domain.upstream import CHAT_ONLY, Capabilities, UpstreamReply, UpstreamRequest
from gateway.settings import LimitSettings, UpstreamSettings
from gateway.upstreams.deadlines import Deadlines
from gateway.upstreams.endpoint import Dialer, Endpoint, parse_endpoint
from gateway.upstreams.http_connection import HttpConnection
from gateway.upstreams.http_parser import NoReplyFault, ReplyFault, ReplyTimeoutFault
from gateway.upstreams.http_pool import ConnectionPool
from gateway.upstreams.openai_reply import OpenAIReply

MODELS_SECONDS: Final = 5
WITH_RESPONSES: Final[frozenset[DialectName]] = frozenset({"chat", "responses"})
LINGER_SECONDS: Final = 1.0  # for a body to end whose rest nobody needs
MAX_KNOWN_HEADS: Final = 64  # beginnings of heads that are kept as bytes; most clients always send the same headers
REQUEST_TARGET: Final = re.compile(r"/[!-\"$-~]*")  # origin form: printable ASCII without a fragment
BODILESS_METHODS: Final = frozenset({"GET", "HEAD"})  # a server that ignores their body would take it for a request
# Written by us alone: a forwarded one could change the framing, the account or the encoding of the reply.
OWN_HEADERS: Final = frozenset(
    {"accept-encoding", "authorization", "connection", "content-length", "cookie", "expect", "host"}
    | {"transfer-encoding", "upgrade"}
)
ACCOUNT_HEADERS: Final = frozenset({"openai-organization", "openai-project"})
ACCOUNT_FAMILIES: Final = ("x-ratelimit-", "anthropic-")
ACCOUNT_NAME: Final = re.compile(rb"\b(?:sk|org|proj)[-_][A-Za-z0-9_-]{8,}")  # a key, an organization, a project


class RequestHeadWriter:
    """Writes the heads of requests to one endpoint with one account, without any header that nobody asked for."""

    def __init__(self, endpoint: Endpoint, settings: UpstreamSettings, default: tuple[str, str] | None = None) -> None:
        self._endpoint = endpoint
        self._default = default  # a header that is sent where the client sends none of this name
        self._fixed = build_fixed_headers(endpoint, settings)
        # A client's organization and project belong to its own key.
        self._excluded = OWN_HEADERS | self._fixed.keys() | (frozenset() if settings.pass_bearer else ACCOUNT_HEADERS)
        self._passes_bearer = settings.pass_bearer
        self._write_cached = lru_cache(MAX_KNOWN_HEADS)(self._write_beginning)

    def write(self, request: UpstreamRequest) -> bytes:
        """The head including its final empty line; raises InvalidRequest for what HTTP cannot carry."""
        path, method = request.path, request.method
        write = self._write_cached if "?" not in path else self._write_beginning
        beginning = write(method, path, request.headers)
        if self._passes_bearer and request.bearer:
            beginning += encode_lines([f"authorization: Bearer {request.bearer}\r\n"])
        if method in BODILESS_METHODS:
            return beginning + b"\r\n"
        return b"%bcontent-length: %d\r\n\r\n" % (beginning, len(request.body))

    def _write_beginning(self, method: str, path: str, headers: tuple[tuple[str, str], ...]) -> bytes:
        """What most requests of a client have in common: all but the length, and perhaps its own key."""
        lines = [f"{method} {build_target(self._endpoint, path)} HTTP/1.1\r\n"]
        opening = encode_lines(lines + [f"{name}: {value}\r\n" for name, value in self._fixed.items()])
        return opening + self._write_forwarded(headers, method not in BODILESS_METHODS)

    def _write_forwarded(self, headers: tuple[tuple[str, str], ...], has_body: bool) -> bytes:
        """The client's headers."""
        if self._default is not None and all(name != self._default[0] for name, _ in headers):
            headers = (*headers, self._default)
        lines = [f"{name}: {value}\r\n" for name, value in headers if name.lower() not in self._excluded]
        has_type = "content-type" in self._fixed or any(line[:13].lower() == "content-type:" for line in lines)
        if has_body and not has_type:
            lines.append("content-type: application/json\r\n")
        return encode_lines(lines)


class MaskedRefusal(UpstreamReply):
    """Why a request was refused, without the names of the account that it was refused to."""

    def __init__(self, reply: OpenAIReply) -> None:
        self.status, self.headers = reply.status, reply.headers
        self._reply = reply

    async def read(self) -> bytes:
        return await self.read_all()  # a name could be cut in two

    async def read_all(self) -> bytes:
        return ACCOUNT_NAME.sub(b"[hidden]", await self._reply.read_all())

    async def close(self) -> None:
        await self._reply.close()


class OpenAIUpstream:
    """A pooled HTTP/1.1 client for one endpoint and one account."""

    models_path = "/models"

    def __init__(self, name: str, settings: UpstreamSettings, limits: LimitSettings) -> None:
        self.name = name
        self.capabilities = Capabilities(
            tools=settings.tools,
            system_anywhere=settings.system_anywhere is not False,
            developer=settings.developer is not False,
            stream_usage=settings.stream_usage is not False,
            dialects=WITH_RESPONSES if settings.responses else CHAT_ONLY,
        )
        self.passes_bearer = settings.pass_bearer
        self._shows_account = settings.account_headers
        endpoint = parse_endpoint(settings.base_url or "")
        self._heads = RequestHeadWriter(endpoint, settings, self.get_default_header(settings))
        self._pool = ConnectionPool(Dialer(endpoint, settings.timeouts.connect), limits.header_bytes)
        self._first_byte, self._idle = Deadlines(settings.timeouts.first_byte), Deadlines(settings.timeouts.idle)
        self._linger = Deadlines(LINGER_SECONDS)
        self._connect_seconds, self._reply_limit = settings.timeouts.connect, limits.reply_bytes

    @staticmethod
    def get_default_header(settings: UpstreamSettings) -> tuple[str, str] | None:
        """A header that every request has, whether or not the client sends it."""
        return None

    async def send(self, request: UpstreamRequest) -> UpstreamReply:
        """Once more if a kept connection turns out dead before any byte of a reply came."""
        head = self._heads.write(request)
        account = request.bearer if self.passes_bearer else None
        kept = self._pool.take(account)
        connection = kept if kept is not None else await self._connect(account)
        while True:
            reply = OpenAIReply(self.name, connection, self._idle, self._linger, self._reply_limit)
            self._first_byte.start(reply)
            try:
                body = b"" if request.method in BODILESS_METHODS else request.body
                connection.send(head, body, reply, head_only=request.method == "HEAD")
                await reply.head
                return self._check(reply)
            except NoReplyFault as fault:
                if connection is not kept:
                    raise self._build_unreachable("closed the connection without an answer") from fault
            except ReplyFault as fault:
                raise self._explain_fault(fault) from fault
            except BaseException:
                reply.drop()
                raise
            finally:
                self._first_byte.stop(reply)
            connection = await self._connect(account)  # the server closed the kept one as the request was on its way

    def _check(self, reply: OpenAIReply) -> UpstreamReply:
        """The reply without what clients must not see; raises UpstreamInvalid if it cannot be used."""
        if fault := find_fault(reply):
            reply.drop()
            raise errors.UpstreamInvalid(f"Upstream {self.name!r} answered with {fault}.")
        if self._shows_account:
            return reply
        reply.headers = hide_account(reply.headers)
        return MaskedRefusal(reply) if reply.status == 403 and not self.passes_bearer else reply

    async def list_models(self, bearer: str | None = None) -> list[dict[str, Any]]:
        try:
            async with asyncio.timeout(MODELS_SECONDS):
                reply = await self.send(UpstreamRequest(self.models_path, b"", method="GET", bearer=bearer))
                try:
                    body = await reply.read_all()
                finally:
                    await reply.close()
        except TimeoutError as error:
            raise errors.UpstreamTimeout(f"Upstream {self.name!r} did not list its models in time.") from error
        if reply.status in (401, 403):
            raise errors.UpstreamAuth(f"Upstream {self.name!r} refused to list its models (HTTP {reply.status}).")
        cards = parse_model_cards(body) if reply.status == 200 else None
        if cards is None:
            raise errors.UpstreamInvalid(f"Upstream {self.name!r} did not return a model list (HTTP {reply.status}).")
        return cards

    async def close(self) -> None:
        self._first_byte.close()
        self._idle.close()
        self._linger.close()
        await self._pool.close()

    async def _connect(self, account: str | None) -> HttpConnection:
        try:
            return await self._pool.connect(account)
        except TimeoutError as error:
            raise self._build_unreachable(f"accepted no connection within {self._connect_seconds:g} s") from error
        except OSError as error:
            raise self._build_unreachable("cannot be reached") from error

    def _explain_fault(self, fault: ReplyFault) -> errors.UpstreamError:
        if isinstance(fault, ReplyTimeoutFault):
            limit = f"{self._first_byte.seconds:g} s"
            return errors.UpstreamTimeout(f"Upstream {self.name!r} did not answer within {limit}.")
        return errors.UpstreamInvalid(f"Upstream {self.name!r} sent something that is not HTTP.")

    def _build_unreachable(self, how: str) -> errors.UpstreamUnreachable:
        return errors.UpstreamUnreachable(f"Upstream {self.name!r} {how}.")


def build_fixed_headers(endpoint: Endpoint, settings: UpstreamSettings) -> dict[str, str]:
    """The headers of every request, by lower-case name; a configured header wins over ours."""
    fixed = {"host": endpoint.authority, "accept-encoding": "identity"}
    if settings.api_key and not settings.pass_bearer:
        name, scheme = ("x-api-key", "") if settings.kind == "anthropic" else ("authorization", "Bearer ")
        fixed[name] = scheme + settings.api_key
    return fixed | {name.lower(): value for name, value in settings.headers.items()}


def build_target(endpoint: Endpoint, path: str) -> str:
    """The request target below the base URL; both may have a query, and what the base URL says wins."""
    path, _, query = path.partition("?")
    if endpoint.query and query:
        configured = {one.partition("=")[0] for one in endpoint.query.split("&")}
        query = "&".join(one for one in query.split("&") if one.partition("=")[0] not in configured)
    queries = "&".join(part for part in (endpoint.query, query) if part)
    target = endpoint.path + path + (f"?{queries}" if queries else "")
    if not REQUEST_TARGET.fullmatch(target):
        raise errors.InvalidRequest("The path contains characters that are not allowed in a URL.")
    return target


def encode_lines(lines: list[str]) -> bytes:
    """Header lines as bytes; a line break inside one would start a header that nobody checked."""
    text = "".join(lines)
    if text.count("\r") != len(lines) or text.count("\n") != len(lines) or "\0" in text:
        raise errors.InvalidRequest("A header contains a line break or a NUL.")
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()  # only a configured header can get here: ASGI's are latin-1 already


def hide_account(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers of a reply without those that tell whose account is used, and what is left of its limits."""
    hidden = find_account_names(tuple(headers))
    return {name: value for name, value in headers.items() if name not in hidden} if hidden else headers


@lru_cache(maxsize=64)
def find_account_names(names: tuple[str, ...]) -> frozenset[str]:
    """Which headers tell of the account; an upstream always sends the same few sets of names."""
    return frozenset(name for name in names if name in ACCOUNT_HEADERS or name.startswith(ACCOUNT_FAMILIES))


def find_fault(reply: OpenAIReply) -> str | None:
    """Why a reply cannot be used whatever its body says, if so."""
    if reply.status == 101 or 300 <= reply.status < 400:
        return f"HTTP {reply.status}, which the gateway does not follow"
    if reply.headers.get("content-encoding", "identity").lower() != "identity":
        return "a compressed body that was not requested"
    return None


def parse_model_cards(body: bytes) -> list[dict[str, Any]] | None:
    """The entries of a model list that have an id; None when it is no model list."""
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    cards = data.get("data") if isinstance(data, dict) else None
    if not isinstance(cards, list):
        return None
    return [card for card in cards if isinstance(card, dict) and isinstance(card.get("id"), str)]
