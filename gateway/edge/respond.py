"""What goes back to the client through ASGI's `send`."""

from collections.abc import Iterable

from starlette.types import Send

Headers = Iterable[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")


async def send_body(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """One whole response; `headers` name its content type."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, payload: bytes, headers: Headers = ()) -> None:
    """One whole JSON response."""
    await send_body(send, status, payload, (JSON, *headers))
