"""The one place where errors become bytes: OpenAI's shape, whole or as an event of a stream."""

import logging
import math
from collections.abc import Awaitable, Callable

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.edge.requests import ClientGone
from gateway.edge.respond import Headers, send_json
from gateway.errors import GatewayError, InvalidApiKey

logger = logging.getLogger(__name__)


class BrokenResponse(Exception):
    """A response failed after it had begun: only a dropped connection can still tell the client."""


def error_body(error: GatewayError) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`."""
    param = None if error.param is None else _utf8(error.param)
    detail = {"message": _utf8(error.message), "type": error.kind, "param": param, "code": error.code}
    return orjson.dumps({"error": detail})


def error_event(error: GatewayError) -> bytes:
    """The same as one server-sent event; no `[DONE]` may follow it."""
    return b"data: " + error_body(error) + b"\n\n"


def error_headers(error: GatewayError) -> list[tuple[bytes, bytes]]:
    """The headers that belong to the error itself."""
    headers: list[tuple[bytes, bytes]] = []
    if isinstance(error, InvalidApiKey):
        headers.append((b"www-authenticate", b"Bearer"))
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % math.ceil(error.retry_after)))
    return headers


async def send_error(send: Send, error: GatewayError, headers: Headers = ()) -> None:
    """Answer with an error; `headers` come in addition to the error's own."""
    await send_json(send, error.status, error_body(error), (*error_headers(error), *headers))


def internal(error: Exception) -> GatewayError:
    """What a client is told about a defect of ours; the log has the traceback."""
    logger.error("Unexpected %s", type(error).__name__, exc_info=error)
    return GatewayError("The gateway failed to handle this request. The failure is in its log.")


def guarded(app: ASGIApp, answer: Callable[[Send, GatewayError], Awaitable[None]] = send_error) -> ASGIApp:
    """An app in which every exception becomes an answer, or `Broken` once an answer has begun."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        outbox = _Outbox(send)
        try:
            await app(scope, receive, outbox)
        except ClientGone:
            return
        except BrokenResponse:
            raise
        except Exception as error:
            told = error if isinstance(error, GatewayError) else internal(error)
            if outbox.started:
                raise BrokenResponse from error
            await answer(outbox, told)

    return serve


class _Outbox:
    """`send` that remembers whether it was used; no coroutine of its own, for streams have many messages."""

    __slots__ = ("_send", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    def __call__(self, message: Message) -> Awaitable[None]:
        self.started = True
        return self._send(message)


def _utf8(text: str) -> str:
    # Lone surrogates from a client's JSON may be quoted in a message, and they have no encoding.
    return text.encode("utf-8", "replace").decode("utf-8")
