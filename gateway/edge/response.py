"""Responses to the client: heads as bytes, and whole responses through ASGI's `send`."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

Headers = Iterable[tuple[bytes, bytes]]

STATUS_LINES = {status: line.removesuffix(b"\r\n") for status, line in STATUS_LINE.items()}

JSON = (b"content-type", b"application/json")
RETRY_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")
PASSED_DOWN = {name: name.encode() for name in ("content-type", "x-request-id", "request-id", *RETRY_HEADERS)}
FAMILIES = ("x-ratelimit-", "openai-", "anthropic-")


def encode_head(status: int, defaults: Headers, headers: Headers, framing: bytes, *, closes: bool) -> bytes:
    """The head of a response with its final empty line; `framing` is the line that says where its body ends."""
    first = STATUS_LINES.get(status) or b"HTTP/1.1 %d " % status  # an upstream may use any number
    last = framing + (b"connection: close\r\n\r\n" if closes else b"\r\n")
    return b"\r\n".join([first, *map(b": ".join, (*defaults, *headers)), last])


async def send_body(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """One whole response; `headers` name its content type."""
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, payload: bytes, headers: Headers = ()) -> None:
    """One whole JSON response."""
    await send_body(send, status, payload, (JSON, *headers))


def select_client_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """The upstream's headers (names in lower case) that are passed on to the client (CONTRACT §5.4).

    Whether those of the account are among them is up to the upstream (`account_headers`).
    """
    passed: list[tuple[bytes, bytes]] = []
    for name, known in choose_passed_names(tuple(headers)):
        value = headers[name]
        if value.isprintable():  # a control character would make the server fail while it writes the head
            passed.append((known, value.encode()))
    return passed


@lru_cache(maxsize=64)
def choose_passed_names(names: tuple[str, ...]) -> list[tuple[str, bytes]]:
    """Those of the names that are passed on, as clients get them; an upstream always sends the same few sets."""
    known = {name: PASSED_DOWN.get(name) or name.encode("ascii") for name in names if is_passed_down(name)}
    return list(known.items())


def is_passed_down(name: str) -> bool:
    return name in PASSED_DOWN or name.startswith(FAMILIES)
