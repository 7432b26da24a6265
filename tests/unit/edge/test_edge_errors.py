"""One shape for every error, whole or as an event."""

import logging
from typing import Any

import orjson
import pytest

from gateway.conversation.dialects.openai_errors import render_openai_error, render_openai_error_event
from gateway.edge.errors import BrokenResponse, ErrorBoundary, build_error_headers, send_error
from gateway.edge.request import ClientDisconnected
from gateway.errors import InvalidApiKey, InvalidRequest, RateLimited, UnknownAlias

HTTP = {"type": "http", "headers": []}


class Outbox:
    """A `send` that keeps what it was given."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])

    @property
    def error(self) -> dict[str, Any]:
        return orjson.loads(self.messages[1]["body"])["error"]


async def nothing() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def failing(error: BaseException, after: int = 0) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(after):
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    return app


def test_an_error_has_message_type_param_and_code():
    body = orjson.loads(render_openai_error(InvalidRequest("Do it differently.", param="model")))
    assert body == {
        "error": {
            "message": "Do it differently.",
            "type": "invalid_request_error",
            "param": "model",
            "code": "invalid_request",
        }
    }


def test_an_error_in_a_stream_is_one_event():
    error = UnknownAlias("agent", "writr", ["writer"], param="x-context-agent")
    event = render_openai_error_event(error)
    assert event == b"data: " + render_openai_error(error) + b"\n\n"
    assert event.count(b"\n") == 2


def test_an_error_that_quotes_a_lone_surrogate_can_still_be_sent():
    body = orjson.loads(render_openai_error(InvalidRequest("bad \ud800", param="\udfff")))
    assert body["error"]["message"] == "bad ?"


def test_a_refused_key_says_which_scheme_is_wanted():
    assert build_error_headers(InvalidApiKey("no")) == [(b"www-authenticate", b"Bearer")]


def test_an_error_that_knows_when_to_retry_says_so_in_whole_seconds():
    error = RateLimited("later")
    assert build_error_headers(error) == []
    error.retry_after = 1.2
    assert build_error_headers(error) == [(b"retry-after", b"2")]


async def test_an_error_is_sent_with_its_length_and_with_what_the_caller_adds():
    send = Outbox()
    await send_error(send, InvalidApiKey("no"), [(b"x-context-receipt", b"r1")])
    assert send.status == 401
    assert send.headers[b"content-type"] == b"application/json"
    assert send.headers[b"x-context-receipt"] == b"r1"
    assert int(send.headers[b"content-length"]) == len(send.messages[1]["body"])


async def test_a_gateway_error_becomes_its_answer_and_is_not_logged(caplog):
    send = Outbox()
    await ErrorBoundary(failing(InvalidRequest("no", param="n")))(HTTP, nothing, send)
    assert (send.status, send.error["param"]) == (400, "n")
    assert caplog.records == []


async def test_an_unexpected_exception_becomes_a_500_and_its_traceback_is_logged(caplog):
    send = Outbox()
    with caplog.at_level(logging.ERROR):
        await ErrorBoundary(failing(ZeroDivisionError("inner detail")))(HTTP, nothing, send)
    assert (send.status, send.error["code"]) == (500, "internal_error")
    assert "inner detail" not in send.error["message"]
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


async def test_a_client_that_is_gone_gets_nothing():
    send = Outbox()
    await ErrorBoundary(failing(ClientDisconnected()))(HTTP, nothing, send)
    assert send.messages == []


@pytest.mark.parametrize("error", [InvalidRequest("late"), KeyError("late"), BrokenResponse()])
async def test_a_response_that_has_begun_can_only_break(error):
    send = Outbox()
    with pytest.raises(BrokenResponse):
        await ErrorBoundary(failing(error, after=1))(HTTP, nothing, send)
    assert len(send.messages) == 1
