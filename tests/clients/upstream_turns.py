"""Turns of the scripted upstream in the dialect that it speaks to a client's model, and what it was asked there."""

from dataclasses import replace
from typing import Any

from tests.support.anthropic_upstream import fail, respond_with_message
from tests.support.responses_answers import respond_with_response
from tests.support.upstream import Answer, Canned, Reaction, WriteAnswer, status

WRITERS: dict[str, WriteAnswer] = {
    "chat": Answer.respond,
    "responses": respond_with_response,
    "messages": respond_with_message,
}
# The first sign in a stream that what is said is over.
ENDS = (b'"finish_reason":"stop"', b"event: response.output_text.done", b"event: content_block_stop")


def break_off(answer: Answer, dialect: str) -> Canned:
    """The stream of an answer, which ends when all of it is said but nothing says so."""
    response = WRITERS[dialect](answer, {"model": "any", "stream": True}, 1)
    data = b"".join(piece for piece in response.pieces if isinstance(piece, bytes))
    end = next(data.index(mark) for mark in ENDS if mark in data)
    return Canned(replace(response, pieces=(data[: data.rfind(b"\n\n", 0, end) + 2],)))


def refuse_for_now(dialect: str) -> Reaction:
    """Too many requests."""
    headers = {"retry_after": "7", "x_should_retry": "false"}
    if dialect == "messages":
        return fail(429, "rate_limit_error", "Too many requests.", **headers)
    return status(429, **headers)


def read_results(request: dict[str, Any]) -> list[str]:
    """The results of tools in a request, whatever its dialect."""
    if "input" in request:
        items = request["input"]
        return [join_text(one["output"]) for one in items if one.get("type") == "function_call_output"]
    results = []
    for message in request["messages"]:
        if message["role"] == "tool":
            results.append(join_text(message["content"]))
        elif isinstance(message.get("content"), list):
            blocks = (block for block in message["content"] if block["type"] == "tool_result")
            results += [join_text(block["content"]) for block in blocks]
    return results


def join_text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
