"""Upstream failures in a later turn: its status, or one error event and no `[DONE]` (rule 7)."""

from typing import Any

import pytest

from tests.support.gateway import STYLE, Client, ClientReply
from tests.support.upstream import (
    HEAD,
    Canned,
    End,
    Upstream,
    call,
    chunks,
    hang_up,
    html,
    mixed,
    raw_events,
    reply,
    say,
    sse,
    status,
    tool_call,
)

OWN = mixed(tool_call("get_context_resource", "own_1", resource_id=STYLE), text="Wait.")
DONE = b"data: [DONE]\n\n"
TRUNCATED = chunks({"role": "assistant", "content": "Half an ans"})
GARBAGE = b"data: this is not JSON\n\n"


def assert_broken_off(answered: ClientReply) -> None:
    assert answered.status == 200
    assert len(answered.errors) == 1
    assert set(answered.error) == {"message", "type", "param", "code"}
    assert answered.events[-1].get("error"), "the error event is the last one"
    assert answered.finish_reasons == []
    assert not answered.done


async def test_a_later_turn_s_status_is_the_reply_s(gateway: Client, upstream: Upstream):
    upstream.will(OWN, status(429, {"error": {"message": "slow down", "code": "x"}}, retry_after="7"))
    answered = await gateway.chat(agent="editor")
    assert (answered.status, answered.json["error"]["message"]) == (429, "slow down")
    assert answered.headers["retry-after"] == "7"
    assert "x-context-receipt" in answered.headers


async def test_a_later_turn_s_status_ends_the_stream_in_its_own_words(gateway: Client, upstream: Upstream):
    upstream.will(OWN, status(400, {"error": {"message": "too long", "code": "x"}}))
    answered = await gateway.chat(agent="editor", stream=True)
    assert_broken_off(answered)
    assert answered.text == "Wait."
    assert "too long" in answered.error["message"]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (hang_up(), "upstream_unreachable"),
        (html(), "upstream_invalid"),
        (html(503), "upstream_invalid"),
        (status(401), "upstream_auth"),
        (reply(b"{]", "application/json"), "upstream_invalid"),
        (reply(b'{"choices": []}', "application/json"), "upstream_invalid"),
        (reply(b'{"choices": 5}', "application/json"), "upstream_invalid"),
        (reply(b'{"choices": [{"message": {"content": "\xff\xfe"}}]}', "application/json"), "upstream_invalid"),
        (reply(b"[" * 5000, "application/json"), "upstream_invalid"),
        (reply(b"", "application/json"), "upstream_invalid"),
        (reply(b'{"choices": [{"mess', "application/json", end="reset"), "upstream_invalid"),
        (raw_events([*TRUNCATED]), "upstream_invalid"),
    ],
    ids=range(12),
)
@pytest.mark.parametrize("turn", [1, 2])
async def test_a_whole_reply_that_is_none_is_a_502(
    gateway: Client, upstream: Upstream, failure: Canned, code: str, turn: int
):
    upstream.will(*([OWN] if turn == 2 else []), failure)
    answered = await gateway.chat(agent="editor")
    assert (answered.status, answered.error["code"]) == (502, code)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (hang_up(), "upstream_unreachable"),
        (html(), "upstream_invalid"),
        (status(401), "upstream_auth"),
        (status(500), "upstream_invalid"),
        (reply(b'{"choices": [{"message": {"content": "Hi"}}]}'), "upstream_invalid"),
        (raw_events([]), "upstream_invalid"),
        (raw_events(TRUNCATED), "upstream_invalid"),
        (raw_events(TRUNCATED, end="reset"), "upstream_invalid"),
        (raw_events([*TRUNCATED, GARBAGE, DONE]), "upstream_invalid"),
        (raw_events([*TRUNCATED, b"data: [1]\n\n", DONE]), "upstream_invalid"),
        (raw_events([*TRUNCATED, b'data: {"choices": 5}\n\n', DONE]), "upstream_invalid"),
        (raw_events([*TRUNCATED, b'data: {"choices": [{"delta": []}]}\n\n', DONE]), "upstream_invalid"),
        (
            raw_events([*TRUNCATED, b'data: {"choices": [{"delta": {"content": "\xff"}}]}\n\n', DONE]),
            "upstream_invalid",
        ),
        (raw_events([*TRUNCATED, b'data: {"choices": [{"delta": {"tool_calls": 7}}]}\n\n', DONE]), "upstream_invalid"),
        (raw_events([*TRUNCATED, b'data: {"choices": [{"delta": {}, "finish_reason": 7}]}\n\n']), "upstream_invalid"),
    ],
    ids=range(15),
)
async def test_a_later_turn_that_breaks_ends_the_stream_with_one_error(
    gateway: Client, upstream: Upstream, failure: Canned, code: str
):
    upstream.will(OWN, failure)
    answered = await gateway.chat(agent="editor", stream=True)
    assert_broken_off(answered)
    assert answered.error["code"] == code
    assert answered.text.startswith("Wait.")


ERROR = {"error": {"message": "overloaded", "type": "server_error", "param": None, "code": "busy"}}


@pytest.mark.parametrize("turn", [1, 2])
@pytest.mark.parametrize("json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("with_choices", [False, True], ids=["bare", "with choices"])
async def test_the_upstream_s_error_event_is_passed_on_once(
    gateway: Client, upstream: Upstream, turn: int, json: bool, end: End, with_choices: bool
):
    told = (
        {**HEAD, **ERROR, "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]} if with_choices else ERROR
    )
    upstream.will(*([OWN] if turn == 2 else []), raw_events([*TRUNCATED, told], end=end))
    said: dict[str, Any] = {"response_format": {"type": "json_object"}} if json else {}
    answered = await gateway.chat(agent="editor", stream=True, **said)
    assert answered.error == ERROR["error"]
    assert not answered.done


@pytest.mark.parametrize("together", [True, False], ids=["in one write", "by itself"])
@pytest.mark.parametrize(
    "event",
    [
        GARBAGE,
        b"data: [1]\n\n",
        b"data: 7\n\n",
        b'data: {"id": 1\n\n',
        b'data: {"id": 1},{"id": 2}\n\n',
        b'data: {"choices": [5]}\n\n',
        b'data: {"choices": 5}\r\n\r\n',
        b": x\ndata: {\n\n",
    ],
)
async def test_garbage_in_a_watched_stream_ends_it_with_one_error(
    gateway: Client, upstream: Upstream, event: bytes, together: bool
):
    ended = chunks({"content": "wer"}, finish_reason="stop")
    pieces = [*map(sse, TRUNCATED), event, *map(sse, ended), DONE]
    upstream.will(raw_events([b"".join(pieces)] if together else [pieces[0], 0.05, event, 0.05, *pieces[2:]]))
    answered = await gateway.chat(agent="editor", stream=True)
    assert not answered.broken, "the connection ends in order"
    assert answered.text == "Half an ans", "what came before it was shown"
    assert event not in answered.raw
    assert_broken_off(answered)
    assert answered.error["code"] == "upstream_invalid"


async def test_garbage_in_a_relayed_stream_is_the_client_s_business(gateway: Client, upstream: Upstream):
    upstream.will(raw_events([*TRUNCATED, GARBAGE, *chunks({}, finish_reason="stop"), DONE]))
    assert GARBAGE in (await gateway.chat(agent="bare", stream=True)).raw


async def test_an_empty_stream_is_an_error_before_anything_is_sent(gateway: Client, upstream: Upstream):
    upstream.will(raw_events([]), raw_events([]))
    for agent in ("editor", "bare"):
        answered = await gateway.chat(agent=agent, stream=True)
        assert (answered.status, answered.json["error"]["code"]) == (502, "upstream_invalid")


async def test_a_first_turn_s_status_passes_with_its_body(gateway: Client, upstream: Upstream, stream: bool):
    told = {"error": {"message": "no such model", "type": "invalid_request_error", "param": "model", "code": "nope"}}
    upstream.will(status(404, told, x_request_id="r1", set_cookie="a=b"))
    answered = await gateway.chat(agent="editor", stream=stream)
    assert (answered.status, answered.json) == (404, told)
    assert answered.headers["x-request-id"] == "r1"
    assert "set-cookie" not in answered.headers


async def test_after_a_failure_the_next_exchange_works(gateway: Client, upstream: Upstream, stream: bool):
    upstream.will(OWN, hang_up(), call("list_context_resources"), say("Fine."))
    await gateway.chat(agent="editor", stream=stream)
    assert (await gateway.chat(agent="editor", stream=stream)).text == "Fine."
