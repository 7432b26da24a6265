"""The table of what translations refuse is what they refuse."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from gateway.domain.upstream import Capabilities, UpstreamRequest
from gateway.errors import InvalidRequest
from gateway.upstreams.translation.carried_fields import POSITION
from gateway.upstreams.translation.chat_to_messages_request import build_messages_request
from gateway.upstreams.translation.messages_to_chat_request import ChatAbilities, build_chat_request
from gateway.upstreams.translation.responses_to_chat_request import build_chat_request_of_responses
from gateway.upstreams.translation.translated import translate_body
from gateway.upstreams.translation.uncarried import ROUTES, RequestPath
from tests.support.dialect_streams import decode, encode

SOMETHING = {"x": 1}


def say(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(blocks)}]


# A value that asks for something; fields of the body that are not here get an object that no dialect has.
VALUES: dict[str, Any] = {
    "n": 3, "seed": 1, "temperature": 2.0, "logprobs": True, "top_logprobs": 3, "store": True, "service_tier": "flex",
    "frequency_penalty": 1, "presence_penalty": 1, "verbosity": "low", "modalities": ["audio"], "top_k": 3,
    "response_format": {"type": "json_object"}, "background": True, "truncation": "auto",
    "include": ["file_search_call.results"], "previous_response_id": "resp_1", "user": "ann",
}  # fmt: skip
NESTED: dict[str, Any] = {
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
            known = {"model": "m", "messages": say(), "safety_identifier": "bob"}
            return build_messages_request(encode(known | fields), 100)
        case "messages", "chat":
            return build_chat_request(
                encode({"model": "m", "messages": say(), "max_tokens": 5} | fields), ChatAbilities()
            )
        case "responses", "chat":
            return build_chat_request_of_responses(encode({"model": "m", "input": "x"} | fields), ChatAbilities())
    raise AssertionError(f"nothing translates {route.source} to {route.target}")


MARK = {"type": "ephemeral"}
SCHEMA = {"type": "object"}
# Requests with everything that can be carried, and the objects in them that are carried or left out as they are.
CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": MARK}]},
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "f"}},
        ]},
        {"role": "assistant", "content": [{"type": "text", "text": "hm"}, {"type": "refusal", "refusal": "no"}],
         "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
         "thinking_blocks": [{"type": "thinking", "thinking": "x", "signature": "y"}]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "r"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}, "cache_control": MARK}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
    "stream_options": {"include_usage": True}, "thinking": {"type": "adaptive"},
}  # fmt: skip
MESSAGES: dict[str, Any] = {
    "system": [{"type": "text", "text": "s", "cache_control": MARK}],
    "messages": [
        {"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": ""}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "AA"}},
        ]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "x", "signature": "y"}, {"type": "redacted_thinking", "data": "y"},
            {"type": "text", "text": "hm"}, {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": [{"type": "text", "text": "r"}]},
        ]},
    ],
    "metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 5},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
    "tools": [{"type": "custom", "name": "f", "input_schema": SCHEMA, "cache_control": MARK}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
}  # fmt: skip
RESPONSES: dict[str, Any] = {
    "input": [
        {"role": "user", "content": [
            {"type": "input_text", "text": "s"},
            {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"},
            {"type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "f"},
        ]},
        {"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "hm", "annotations": [], "logprobs": []},
            {"type": "refusal", "refusal": "no"},
        ]},
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "chat:reasoning_content"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "x"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "r"}]},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "y"},
    ],
    "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
    "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}, {"type": "custom", "name": "g"}],
    "reasoning": {"effort": "low", "summary": "auto"}, "stream_options": {"include_obfuscation": True},
    "metadata": {"a": "b"},
}  # fmt: skip
FREE = ("cache_control", "schema", "parameters", "input_schema", "input", "thinking_blocks[]", "stream_options")
FREE_OF_BODY = {"chat": ("thinking",), "messages": (), "responses": ("metadata", "text.format")}


def list_objects(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of a body with its path."""
    if isinstance(value, dict):
        yield path, value
        for name, inner in value.items():
            yield from list_objects(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from list_objects(inner, f"{path}[{number}]")


RICH = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}


@pytest.mark.parametrize("route", ROUTES, ids=[route.source for route in ROUTES])
def test_a_field_that_nobody_knows_is_refused_wherever_it_stands(route: RequestPath) -> None:
    body = RICH[route.source]
    translate(route, body)
    paths = [path for path, _ in list_objects(body)]
    tried = 0
    for path in paths:
        plain = POSITION.sub("[]", path)
        if plain.endswith(FREE) or plain in FREE_OF_BODY[route.source]:
            continue
        changed = deepcopy(body)
        dict(list_objects(changed))[path]["never_heard_of"] = 1
        with pytest.raises(InvalidRequest) as refused:
            translate(route, changed)
        assert refused.value.param == f"{path}.never_heard_of".lstrip(".")
        tried += 1
    assert tried > 10


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"reasoning": {"effort": "never"}}, "reasoning.effort"),
        ({"include": ["message.output_text.logprobs"]}, "include"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"tools": [{"type": "custom", "name": "g"}]}, "tools[0].type"),
        ({"temperature": 2}, "temperature"),
        ({"input": say({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}})}, "input"),
    ],
)
def test_over_two_steps_the_client_s_field_is_named(fields: dict[str, Any], param: str) -> None:
    body = encode({"model": "m", "input": "x"} | fields)
    call = UpstreamRequest("/responses", body, stream=False, dialect="responses")
    with pytest.raises(InvalidRequest) as refused:
        translate_body(call, Capabilities(dialects=frozenset({"messages"})))
    assert refused.value.param == param
    assert refused.value.message.startswith(f"`{param}` cannot be carried to this model")


def test_a_rich_request_takes_two_steps() -> None:
    body = {"model": "m", **RESPONSES, "text": {}, "tools": RESPONSES["tools"][:1]}
    body["input"] = [one for one in body["input"] if not one.get("type", "").startswith("custom")]
    call = UpstreamRequest("/responses", encode(body), stream=False, dialect="responses")
    made = decode(translate_body(call, Capabilities(dialects=frozenset({"messages"}))))
    assert [one["role"] for one in made["messages"]] == ["user", "assistant", "assistant", "user"]


CASES = [(route, path) for route in ROUTES for path in route.refused]


@pytest.mark.parametrize(("route", "path"), CASES, ids=[f"{route.source}-{path}" for route, path in CASES])
def test_every_field_of_the_table_is_refused_by_its_name(route: RequestPath, path: str) -> None:
    name = path.partition("[")[0].partition(".")[0]
    translate(route, {})  # without it nothing is refused
    with pytest.raises(InvalidRequest) as refused:
        translate(route, {name: NESTED[path] if path != name else VALUES.get(name, SOMETHING)})
    assert refused.value.param == path.replace("[]", "[0]")
    assert route.refused[path] in refused.value.message
