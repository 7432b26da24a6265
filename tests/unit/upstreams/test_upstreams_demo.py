"""The demo upstream: what it answers, and that it answers in OpenAI's wire format."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.domain.upstream import Upstream, UpstreamRequest
from gateway.upstreams.demo.schema_value import SchemaWriter
from gateway.upstreams.demo.upstream import DemoUpstream

BLOCK = """Be brief.

--- Context [0a1b2c3d] ---
[Brand voice]
Tone: Professional
Audience: B2B buyers

[House rules]
Never promise delivery dates.

--- Available Reference Materials [0a1b2c3d] ---
Use get_context_resource with an ID.
- **Style guide** (ID: corporate/style-guide)
  Formatting rules
- **Blog style guide** (ID: blog/style)
--- End [0a1b2c3d] ---"""
STYLE = "[Style guide]\nUse sentence case in headings.\n\nUse serial commas."


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


OURS = [tool("list_context_resources"), tool("get_context_resource")]


def chat(question: Any, *later: dict[str, Any], system: str = BLOCK, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}, *later]
    return {"model": "demo", "messages": messages} | fields


def after_call(name: str, result: str, call_id: str = "call_1") -> list[dict[str, Any]]:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


async def post(body: Any, path: str = "/chat/completions") -> tuple[int, bytes]:
    upstream: Upstream = DemoUpstream("demo", clock=lambda: 1700000000.9)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = await upstream.send(UpstreamRequest(path, raw))
    return reply.status, await reply.read_all()


async def message(body: dict[str, Any]) -> dict[str, Any]:
    status, raw = await post(body)
    assert status == 200, raw
    return dict(json.loads(raw)["choices"][0]["message"])


async def text(body: dict[str, Any]) -> str:
    return str((await message(body))["content"])


async def calls(body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    made = (await message(body)).get("tool_calls", [])
    return [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in made]


async def chunks(body: dict[str, Any]) -> list[Any]:
    status, raw = await post(body | {"stream": True})
    assert status == 200
    events = raw.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in events[:-2]]


async def test_the_line_that_shares_most_words_with_the_question_is_quoted() -> None:
    assert await text(chat("What is the tone of our texts?")) == "From [Brand voice]: Tone: Professional"
    assert await text(chat("Who is the audience?")) == "From [Brand voice]: Audience: B2B buyers"
    assert await text(chat("May we promise a date?")) == "From [House rules]: Never promise delivery dates."


async def test_small_words_do_not_outweigh_the_subject() -> None:
    block = "--- Context [0a1b2c3d] ---\n[N]\nThis is what we do for you.\nTone: calm\n--- End [0a1b2c3d] ---"
    assert await text(chat("What is the tone for this?", system=block)) == "From [N]: Tone: calm"


async def test_content_is_quoted_as_texts_are() -> None:
    block = """--- Focused Content [0a1b2c3d] ---
[Why we weld] [article]
Halden / Blog
Glue held our measuring cells together for twenty years.

--- Related Content [0a1b2c3d] ---
_No relevant content found._
--- End [0a1b2c3d] ---"""
    said = await text(chat("What held the measuring cells?", system=block))
    assert said == "From [Why we weld]: Glue held our measuring cells together for twenty years."


async def test_without_context_it_says_so_and_echoes_the_question() -> None:
    assert await text(chat("Hello?", system="Be brief.")) == "No context was injected. You asked: Hello?"


async def test_with_a_catalogue_only_it_says_what_can_be_looked_up() -> None:
    block = "--- Available Reference Materials [0a1b2c3d] ---\n- **Terms** (ID: c/terms)\n--- End [0a1b2c3d] ---"
    assert "Terms" in await text(chat("Hello?", system=block))


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_the_block_is_found_in_any_leading_role_and_in_parts(role: str) -> None:
    parts = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": BLOCK}]
    body = {"model": "demo", "messages": [{"role": role, "content": parts}, {"role": "user", "content": "Tone?"}]}
    assert await text(body) == "From [Brand voice]: Tone: Professional"


async def test_a_block_inside_the_user_message_is_not_part_of_the_question() -> None:
    parts = [{"type": "text", "text": BLOCK}, {"type": "text", "text": "Which audience?"}]
    assert await calls(chat(parts, system="Be brief.", tools=OURS)) == []
    assert await text(chat(parts, system="Be brief.")) == "From [Brand voice]: Audience: B2B buyers"


async def test_a_marker_with_another_tag_does_not_close_the_block() -> None:
    block = "--- Context [0a1b2c3d] ---\n[N]\n--- End [ffffffff] ---\nTone: calm\n--- End [0a1b2c3d] ---"
    assert await text(chat("Tone?", system=block)) == "From [N]: Tone: calm"


@pytest.mark.parametrize(
    ("question", "resource"),
    [
        ("What does the STYLE GUIDE say?", "corporate/style-guide"),
        ("Read corporate/style-guide, please", "corporate/style-guide"),
        ("Open the blog style guide", "blog/style"),
    ],
)
async def test_naming_a_catalogue_entry_fetches_it(question: str, resource: str) -> None:
    assert await calls(chat(question, tools=OURS)) == [("get_context_resource", {"resource_id": resource})]


async def test_a_word_that_only_contains_a_name_is_no_name() -> None:
    assert await calls(chat("Freestyle guidebook?", tools=OURS)) == []


async def test_the_renamed_tool_is_called_by_the_name_it_is_offered_under() -> None:
    tools = [tool("get_context_resource"), tool("get_context_resource_2")]
    wanted = [("get_context_resource_2", {"resource_id": "corporate/style-guide"})]
    assert await calls(chat("The style guide?", tools=tools)) == wanted


@pytest.mark.parametrize("fields", [{}, {"tools": OURS, "tool_choice": "none"}, {"tools": []}])
async def test_nothing_is_called_that_is_not_offered(fields: dict[str, Any]) -> None:
    assert await calls(chat("The style guide?", **fields)) == []


async def test_the_fetched_text_is_quoted_and_not_fetched_again() -> None:
    body = chat("The style guide?", *after_call("get_context_resource", STYLE), tools=OURS)
    assert await text(body) == "From [Style guide]: Use sentence case in headings.\n\nUse serial commas."


async def test_a_long_result_is_cut_after_a_paragraph_or_a_word() -> None:
    paragraphs = "[Style guide]\nFirst.\n\n" + "word " * 400
    unbroken = "[Style guide]\n" + "word " * 400
    first = await text(chat("The style guide?", *after_call("get_context_resource", paragraphs)))
    second = await text(chat("The style guide?", *after_call("get_context_resource", unbroken)))
    assert first == "From [Style guide]: First."
    assert second.endswith("word …")
    assert len(second) < 700


async def test_a_new_question_fetches_again() -> None:
    earlier = [*after_call("get_context_resource", STYLE), {"role": "assistant", "content": "It says …"}]
    again = {"role": "user", "content": "The style guide once more"}
    assert len(await calls(chat("The style guide?", *earlier, again, tools=OURS))) == 1


async def test_a_failed_fetch_is_reported_as_it_came() -> None:
    body = chat("The style guide?", *after_call("get_context_resource", "Error: no resource 'x' is available."))
    assert await text(body) == "get_context_resource says: Error: no resource 'x' is available."


async def test_naming_a_client_tool_calls_it_and_naming_both_makes_a_mixed_turn() -> None:
    tools = [tool("get_weather"), *OURS]
    own = ("get_context_resource", {"resource_id": "corporate/style-guide"})
    assert await calls(chat("Please call get_weather", tools=tools)) == [("get_weather", {})]
    assert await calls(chat("call get_weather and the style guide", tools=tools)) == [("get_weather", {}), own]


async def test_after_a_mixed_turn_both_results_are_quoted() -> None:
    results = [*after_call("get_context_resource", STYLE, "a"), *after_call("get_weather", "Rain", "b")]
    said = await text(chat("get_weather, style guide", *results, tools=[tool("get_weather"), *OURS]))
    assert said.startswith("From [Style guide]: ")
    assert said.endswith("\nget_weather says: Rain")


async def test_a_tool_that_is_required_or_chosen_by_name_is_called() -> None:
    tools = [tool("first"), tool("second")]
    named = {"type": "function", "function": {"name": "second"}}
    assert await calls(chat("Hi", tools=tools, tool_choice="required")) == [("first", {})]
    assert await calls(chat("Hi", tools=tools, tool_choice=named)) == [("second", {})]
    done = after_call("first", "ok")
    assert await calls(chat("Hi", *done, tools=tools[:1], tool_choice="required")) == []


async def test_a_reply_is_a_complete_chat_completion_and_the_same_every_time() -> None:
    first, second = [await post(chat("Tone?", n=2)) for _ in range(2)]
    assert first == second
    document = json.loads(first[1])
    assert document["id"].startswith("chatcmpl-demo-")
    assert (document["object"], document["created"], document["model"]) == ("chat.completion", 1700000000, "demo")
    assert [choice["index"] for choice in document["choices"]] == [0, 1]
    assert {choice["finish_reason"] for choice in document["choices"]} == {"stop"}
    usage = document["usage"]
    assert usage["completion_tokens"] == 2 * 5  # words of the answer, twice
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert json.loads((await post(chat("Tone?", n=1)))[1])["id"] != document["id"]


async def test_json_mode_answers_with_a_json_object() -> None:
    said = await text(chat("Tone?", response_format={"type": "json_object"}))
    assert json.loads(said) == {"answer": "From [Brand voice]: Tone: Professional"}


async def test_a_stream_says_the_same_word_by_word() -> None:
    received = await chunks(chat("The style guide?", *after_call("get_context_resource", STYLE)))
    choices = [chunk["choices"][0] for chunk in received]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["finish_reason"] for choice in choices[-2:]] == [None, "stop"]
    words = [choice["delta"].get("content", "") for choice in choices]
    assert "".join(words) == "From [Style guide]: Use sentence case in headings.\n\nUse serial commas."
    assert len(words) > 8
    assert all("usage" not in chunk for chunk in received)


async def test_a_stream_carries_usage_only_when_asked() -> None:
    received = await chunks(chat("Tone?", stream_options={"include_usage": True}))
    assert received[-1]["choices"] == []
    assert received[-1]["usage"]["completion_tokens"] == 5
    assert all(chunk["usage"] is None for chunk in received[:-1])


async def test_a_streamed_mixed_turn_holds_both_calls_in_pieces() -> None:
    tools = [tool("get_weather"), *OURS]
    received = await chunks(chat("call get_weather and the style guide", tools=tools))
    made: dict[int, list[str]] = {}
    for chunk in received:
        for part in chunk["choices"][0]["delta"].get("tool_calls", []):
            call = made.setdefault(part["index"], ["", "", ""])
            call[0] += part.get("id", "")
            call[1] += part["function"].get("name", "")
            call[2] += part["function"]["arguments"]
    assert [call[1:] for call in made.values()] == [
        ["get_weather", "{}"],
        ["get_context_resource", '{"resource_id":"corporate/style-guide"}'],
    ]
    assert len({call[0] for call in made.values()}) == 2
    assert received[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b"\xff\xfe", None),
        (b'{"x":' + b"[" * 100_000, None),
        ({"model": "demo"}, None),
        ({"messages": [{"role": "user", "content": "x"}]}, None),
        ({"model": "demo", "messages": "hello"}, "messages"),
        ({"model": "demo", "messages": []}, "messages"),
        ({"model": "demo", "messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
        ({"model": "demo", "messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        (chat("x", n=0), "n"),
        (chat("x", tools="get"), "tools"),
        (chat("x", stream="yes"), "stream"),
    ],
)
async def test_a_malformed_request_is_refused_in_openai_s_shape(body: Any, param: str | None) -> None:
    status, raw = await post(body)
    error = json.loads(raw)["error"]
    assert (status, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert error["message"]


async def test_other_paths_are_unknown() -> None:
    status, raw = await post(chat("x"), "/embeddings")
    assert (status, json.loads(raw)["error"]["code"]) == (404, "unknown_url")


async def test_it_lists_one_model() -> None:
    assert await DemoUpstream("d").list_models() == [
        {"id": "demo", "object": "model", "created": 0, "owned_by": "demo"}
    ]


async def test_a_conversation_without_a_user_is_answered() -> None:
    body = {"model": "demo", "messages": [{"role": "system", "content": "Be brief."}]}
    assert await text(body) == "No context was injected. You asked: "


async def test_a_closed_reply_gives_nothing_more() -> None:
    reply = await DemoUpstream("d").send(UpstreamRequest("/chat/completions", json.dumps(chat("Tone?")).encode()))
    await reply.close()
    await reply.close()
    assert await reply.read() == b""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(["messages", "tools", "tool_choice", "n", "stream", "response_format", "stream_options"])


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(FIELDS, VALUES, max_size=3))
async def test_no_field_of_any_type_makes_it_fail(fields: dict[str, Any]) -> None:
    status, raw = await post(chat("The style guide?") | fields)
    assert status in (200, 400)
    assert raw


SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "kind": {"enum": ["note", "task"]},
        "count": {"type": "integer", "minimum": 3},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        "owner": {"anyOf": [{"type": "null"}, {"type": "string"}]},
        "due": {"type": "string", "format": "date"},
        "done": {"type": ["boolean", "null"]},
    },
    "required": ["title", "kind", "count", "tags", "owner", "due", "done"],
    "additionalProperties": False,
    "$defs": {"tag": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
}


def test_an_answer_fits_the_schema_that_was_asked_for():
    answer = SchemaWriter(SCHEMA, "From [Tone]: Be kind.").write(SCHEMA)
    jsonschema.validate(answer, SCHEMA)
    assert (answer["title"], answer["tags"]) == ("From [Tone]: Be kind.", [{"name": ""}])


def test_a_schema_that_never_ends_does_not_keep_the_model_busy():
    tree = {"type": "object", "properties": {name: {"$ref": "#"} for name in "ab"}}
    writer = SchemaWriter(tree, "x")
    assert writer.write(tree)["a"]
    assert writer.values < 200_000
    assert SchemaWriter({"$ref": "#"}, "x").write({"$ref": "#"}) is None


async def test_the_demo_model_answers_in_the_clients_schema():
    wanted = {"type": "json_schema", "json_schema": {"name": "note", "schema": SCHEMA, "strict": True}}
    body = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}], "response_format": wanted}
    reply = await DemoUpstream("d").send(UpstreamRequest("/chat/completions?x=1", json.dumps(body).encode()))
    content = json.loads(await reply.read_all())["choices"][0]["message"]["content"]
    jsonschema.validate(json.loads(content), SCHEMA)
    assert "You asked: Hello" in json.loads(content)["title"]
