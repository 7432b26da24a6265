"""Reading a request: its headers, its body within bounds, its media type."""

from collections.abc import Mapping

from starlette.types import Receive, Scope

from gateway.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType
from gateway.settings import LimitSettings


class ClientGone(Exception):
    """The client left before its request was complete; nobody is there to be told anything."""


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The request's headers by lower-case name; of a repeated one the last."""
    return dict(scope["headers"])


def require_json(headers: Mapping[bytes, bytes]) -> None:
    """Refuse any body that does not say that it is JSON in UTF-8.

    A web page can send other types to a loopback address without asking the browser's user.
    """
    given = headers.get(b"content-type", b"")
    if given == b"application/json":
        return
    media, *parameters = (part.strip().lower() for part in given.split(b";"))
    if media != b"application/json":
        raise UnsupportedMediaType("Send the body as JSON, with the header 'Content-Type: application/json'.")
    for name, _, value in (parameter.partition(b"=") for parameter in parameters):
        if name.strip() == b"charset" and value.strip(b' "') not in (b"utf-8", b"utf8", b"us-ascii"):
            raise UnsupportedMediaType("Send the body in UTF-8; other charsets are not read.")


async def read_body(scope: Scope, receive: Receive, limits: LimitSettings) -> bytes:
    """The whole body within `limits.body_bytes`; its deadline is kept by the server's protocol."""
    cap = limits.body_bytes
    _check_head(headers_of(scope), cap)
    pieces: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGone
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > cap:
            raise _too_large(cap)
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _check_head(headers: Mapping[bytes, bytes], cap: int) -> None:
    encoding = headers.get(b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in (b"identity", b""):
        raise UnsupportedMediaType("Send the body without a Content-Encoding; compressed bodies are not read.")
    length = headers.get(b"content-length")
    if length is None:
        return
    if not length.isdigit():
        raise InvalidRequest("The Content-Length is not a number.")
    if len(length) > 18 or int(length) > cap:
        raise _too_large(cap)


def _too_large(cap: int) -> BodyTooLarge:
    return BodyTooLarge(f"The body is larger than {cap} bytes. Send less, or raise limits.body_bytes.")
