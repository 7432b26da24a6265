"""Errors become responses: in OpenAI's format, or in that of the dialect that a client speaks."""

import logging
import math
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.conversation.dialects.openai_errors import render_openai_error
from gateway.edge.outcomes import get_outcome
from gateway.edge.request import ClientDisconnected, ClientRequest
from gateway.edge.response import JSON, Headers, encode_head, send_json
from gateway.errors import GatewayError, InvalidApiKey, MethodNotAllowed

ErrorResponder = Callable[[Send, GatewayError], Awaitable[None]]
RenderError = Callable[[GatewayError], bytes]

logger = logging.getLogger(__name__)


class BrokenResponse(Exception):
    """A response failed after it had begun: only closing the connection can still tell the client."""


def render_refusal(error: GatewayError) -> bytes:
    """A whole response, which is the last one of its connection."""
    body = render_openai_error(error)
    length = (b"content-length", b"%d" % len(body))
    return encode_head(error.status, (), (JSON, length), b"", closes=True) + body


def build_error_headers(error: GatewayError) -> list[tuple[bytes, bytes]]:
    """The headers that belong to the error itself."""
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, InvalidApiKey):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, MethodNotAllowed) and error.allow:
        headers.append((b"allow", error.allow.encode()))
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after)))
    if error.is_lasting:
        headers.append((b"x-should-retry", b"false"))
    return headers


async def send_error(send: Send, error: GatewayError, headers: Headers = ()) -> None:
    """Answer with an error; `headers` come in addition to the error's own."""
    await send_json(send, error.status, render_openai_error(error), (*build_error_headers(error), *headers))


async def respond_with_error(
    request: ClientRequest, error: GatewayError, headers: Headers = (), render: RenderError = render_openai_error
) -> None:
    """The same for a request that is not ASGI's, in the format of its dialect."""
    await request.respond(error.status, (JSON, *build_error_headers(error), *headers), render(error))


def log_internal_error(error: Exception) -> GatewayError:
    """Log an unexpected exception with its traceback, and return the error for the client."""
    logger.error("Unexpected %s", type(error).__name__, exc_info=error)
    return GatewayError("Internal error. The gateway's log has the details.")


class ErrorBoundary:
    """An ASGI app that answers every exception with an error, or raises `BrokenResponse` once a response began."""

    def __init__(self, app: ASGIApp, respond: ErrorResponder | None = None) -> None:
        self._app = app
        self._respond = respond or send_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        outbox = _Outbox(send)
        try:
            await self._app(scope, receive, outbox)
        except ClientDisconnected:
            return
        except BrokenResponse:
            raise
        except Exception as error:
            answer = error if isinstance(error, GatewayError) else log_internal_error(error)
            if outbox.started:
                raise BrokenResponse from error
            get_outcome(scope).code = answer.code
            await self._respond(outbox, answer)


class _Outbox:
    """`send` that remembers whether it was used; no coroutine of its own, for streams have many messages."""

    __slots__ = ("_send", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    def __call__(self, message: Message) -> Awaitable[None]:
        self.started = True
        return self._send(message)
