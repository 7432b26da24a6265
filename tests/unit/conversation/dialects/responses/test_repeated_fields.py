"""Fields that are there twice: whoever reads the body next might take another one than we have checked."""

import json
from typing import Any

import orjson
import pytest

from gateway.conversation.dialects.responses import request as requests
from gateway.conversation.dialects.responses.dialect import RESPONSES
from gateway.domain.chat import MessageStyle
from gateway.errors import InvalidRequest

ITEM = b'{"role":"user","content":"Hi"}'
MANY = b"[" + b",".join([b'{"role":"user","content":"%b"}' % (b"x" * 980)] * 30) + b"]"


def refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), names
    return dict(pairs)


def check_every_field_is_there_once(body: bytes) -> None:
    """Fails if any field of any object is there twice."""
    json.loads(body, object_pairs_hook=refuse_repeated)


@pytest.mark.parametrize(
    "body",
    [
        b'{"background":0,"background":false}',
        b'{"conversation":1,"model":"m","conversation":null}',
        b'{"model":"m","previous_response_id":"a","previous_response_id":"b"}',
        b'{"previous_response_id":"a","input":"Hi","previous_response_id":"b"}',
        b'{"input":0,"input":[%b]}' % ITEM,
        b'{"input":[%b],"input":0}' % MANY[1:-1],
        b'{"input":0,"input":%b}' % MANY,
        b'{"input":%b,"\\u0069nput":"Hi"}' % MANY,
        b'{"input":null,"input":null,"background":false}',
        b'{"input":%b,"background":0,"background":false,"model":"m"}' % MANY,
        b'{ "input" : [ %b ] ,\n "background" : 0 , "background" : false }' % ITEM,
        b'{"input":[{"type":"item_reference","id":"x","type":"message","role":"user","content":"y"}]}',
        b'{"input":[{"type":"item\\u005freference","id":"x","type":"message","role":"user","content":"y"}]}',
        b'{"input":%b}' % MANY.replace(b'"}]', b'","id":"x","type":"item_reference","type":"message"}]'),
    ],
)
def test_what_is_there_twice_goes_up_once(body: bytes) -> None:
    try:
        request = RESPONSES.decode(body)
    except InvalidRequest:
        return  # what counts is not valid
    check_every_field_is_there_once(request.raw)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","input":"Hi"}',
        b'{"model":"m","input":[%b],"stream":true,"previous_response_id":"a"}' % ITEM,
        b'{"model":"m","instructions":"Be brief.","input":%b}' % MANY,
        b'{"model":"m","input":[],"store":false}',
    ],
)
def test_bodies_without_room_for_another_field_are_not_searched(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(_: bytes) -> bool:
        raise AssertionError("it was searched")

    monkeypatch.setattr(requests, "may_repeat", search)
    request = RESPONSES.decode(body)
    assert (request.raw, request.style) == (body, MessageStyle.SPOKEN)


@pytest.mark.parametrize("name", ["background", "conversation", "previous_response_id", "input"])
@pytest.mark.parametrize("given", ['"Hi"', "null", "[]", ITEM.decode().join("[]"), MANY.decode()])
def test_no_repeated_field_is_too_short_to_be_noticed(name: str, given: str) -> None:
    body = f'{{"{name}":0,"input":{given},"{name}":null}}'.encode()
    try:
        request = RESPONSES.decode(body)
    except InvalidRequest:
        return
    check_every_field_is_there_once(request.raw)
    assert orjson.loads(request.raw)[name] is None
