"""Reading headers and bodies within bounds."""

from typing import Any

import pytest

from gateway.edge.request import ClientDisconnected, RequestHead, read_body, read_head, require_json
from gateway.errors import BodyTooLarge, InvalidRequest, UnsupportedMediaType

MAX_BYTES = 10


def head(**headers: str) -> RequestHead:
    return read_head([(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()])


def body(*pieces: bytes) -> list[dict[str, Any]]:
    return [{"type": "http.request", "body": piece, "more_body": piece is not pieces[-1]} for piece in pieces]


class Inbox:
    """A `receive` that hands out what it was given and counts how often it was asked."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = list(messages)

    async def __call__(self) -> dict[str, Any]:
        return self.messages.pop(0)


async def test_a_body_in_one_message_is_returned_as_it_is():
    piece = b"0123456789"
    assert await read_body(head(), Inbox(*body(piece)), MAX_BYTES) is piece


async def test_a_body_in_several_messages_is_joined():
    assert await read_body(head(), Inbox(*body(b"ab", b"", b"cd")), MAX_BYTES) == b"abcd"


async def test_a_body_beyond_the_cap_is_refused_before_the_rest_is_read():
    inbox = Inbox(*body(b"012345", b"678901", b"never read"))
    with pytest.raises(BodyTooLarge):
        await read_body(head(), inbox, MAX_BYTES)
    assert len(inbox.messages) == 1


@pytest.mark.parametrize("length", ["11", "9" * 5000])
async def test_a_content_length_beyond_the_cap_is_refused_before_anything_is_read(length):
    with pytest.raises(BodyTooLarge):
        await read_body(head(content_length=length), Inbox(), MAX_BYTES)


async def test_a_content_length_that_is_no_number_is_refused():
    with pytest.raises(InvalidRequest):
        await read_body(head(content_length="-1"), Inbox(), MAX_BYTES)


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
async def test_a_compressed_body_is_refused(encoding):
    with pytest.raises(UnsupportedMediaType):
        await read_body(head(content_encoding=encoding), Inbox(), MAX_BYTES)


async def test_the_identity_encoding_is_no_encoding():
    assert await read_body(head(content_encoding="Identity"), Inbox(*body(b"x")), MAX_BYTES) == b"x"


async def test_a_client_that_leaves_while_sending_is_gone():
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": b"a", "more_body": True}]
    messages.append({"type": "http.disconnect"})
    with pytest.raises(ClientDisconnected):
        await read_body(head(), Inbox(*messages), MAX_BYTES)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json; profile=x",
    ],
)
def test_json_is_accepted(content_type):
    require_json(head(content_type=content_type))


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/x-www-form-urlencoded", "text/plain; application/json", "application/jsonx"],
)
def test_anything_else_is_not_json(content_type):
    with pytest.raises(UnsupportedMediaType):
        require_json(head(content_type=content_type))


def test_a_missing_content_type_is_not_json():
    with pytest.raises(UnsupportedMediaType):
        require_json(head())


@pytest.mark.parametrize("charset", ["utf-16", "latin1"])
def test_json_in_another_charset_is_refused(charset):
    with pytest.raises(UnsupportedMediaType, match="UTF-8"):
        require_json(head(content_type=f"application/json; charset={charset}"))
