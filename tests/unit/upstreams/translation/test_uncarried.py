"""The table of what translations refuse is what they refuse."""

from typing import Any

import pytest

from gateway.errors import InvalidRequest
from gateway.upstreams.translation.chat_to_messages_request import build_messages_request
from gateway.upstreams.translation.messages_to_chat_request import ChatAbilities, build_chat_request
from gateway.upstreams.translation.responses_to_chat_request import build_chat_request_of_responses
from gateway.upstreams.translation.uncarried import ROUTES, RequestPath
from tests.support.dialect_streams import encode

SOMETHING = {"x": 1}


def say(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(blocks)}]


# A value that asks for something; fields of the body that are not here get an object that no dialect has.
VALUES: dict[str, Any] = {
    "n": 3, "seed": 1, "temperature": 2.0, "logprobs": True, "top_logprobs": 3, "store": True, "service_tier": "flex",
    "frequency_penalty": 1, "presence_penalty": 1, "verbosity": "low", "modalities": ["audio"], "top_k": 3,
    "response_format": {"type": "json_object"}, "background": True, "truncation": "auto",
    "include": ["file_search_call.results"], "previous_response_id": "resp_1",
}  # fmt: skip
NESTED: dict[str, Any] = {
    "response_format.json_schema.description": {
        "type": "json_schema", "json_schema": {"schema": {}, "description": "d"}
    },
    "tools[].custom": [{"type": "custom", "custom": {"name": "c"}}],
    "tools[].type": [{"type": "web_search_20250305", "name": "web_search"}],
    "tools[].input_examples": [{"name": "f", "input_schema": {}, "input_examples": [{}]}],
    "tools[].defer_loading": [{"name": "f", "input_schema": {}, "defer_loading": True}],
    "messages[].name": [{"role": "user", "content": "x", "name": "Bob"}],
    "messages[].audio": [{"role": "assistant", "content": "x", "audio": {"id": "a"}}],
    "messages[].content[].input_audio": say({"type": "input_audio", "input_audio": SOMETHING}),
    "messages[].content[].file.file_id": say({"type": "file", "file": {"file_id": "f"}}),
    "messages[].content[].image_url.url": say({"type": "image_url", "image_url": {"url": "data:image/png,plain"}}),
    "messages[].content[].type": say({"type": "search_result"}),
    "messages[].content[].source.type": say({"type": "image", "source": {"type": "file", "file_id": "f"}}),
    "messages[].content[].citations": say({"type": "text", "text": "x", "citations": [SOMETHING]}),
    "messages[].content[].context": say(
        {"type": "document", "source": {"type": "text", "data": "x"}, "context": "c"}
    ),
    "messages[].content[].content[].type": say(
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]}
    ),
    "input[].type": [{"type": "item_reference", "id": "x"}],
    "input[].content[].file_id": say({"type": "input_file", "file_id": "f"}),
    "input[].content[].file_url": say({"type": "input_file", "file_url": "https://example.com/a.pdf"}),
    "input[].output[].type": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image"}]}],
}  # fmt: skip


def translate(route: RequestPath, fields: dict[str, Any]) -> bytes:
    match route.source, route.target:
        case "chat", "messages":
            return build_messages_request(encode({"model": "m", "messages": say()} | fields), 100)
        case "messages", "chat":
            return build_chat_request(
                encode({"model": "m", "messages": say(), "max_tokens": 5} | fields), ChatAbilities()
            )
        case "responses", "chat":
            return build_chat_request_of_responses(encode({"model": "m", "input": "x"} | fields), ChatAbilities())
    raise AssertionError(f"nothing translates {route.source} to {route.target}")


CASES = [(route, path) for route in ROUTES for path in route.refused]


@pytest.mark.parametrize(("route", "path"), CASES, ids=[f"{route.source}-{path}" for route, path in CASES])
def test_every_field_of_the_table_is_refused_by_its_name(route: RequestPath, path: str) -> None:
    name = path.partition("[")[0].partition(".")[0]
    translate(route, {})  # without it nothing is refused
    with pytest.raises(InvalidRequest) as refused:
        translate(route, {name: NESTED[path] if path != name else VALUES.get(name, SOMETHING)})
    assert refused.value.param == path.replace("[]", "[0]")
    assert route.refused[path] in refused.value.message
