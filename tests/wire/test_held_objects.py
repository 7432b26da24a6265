"""Files and other objects of an account that workspaces share: nobody names another workspace's."""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import orjson
import pytest

from tests.support.gateway import Client, ClientReply, Start, Thread, running_gateway
from tests.support.responses_answers import answer_with
from tests.support.upstream import Upstream, say

HI = {"role": "user", "content": "Hi"}
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}


def key(name: str, workspace: str) -> dict[str, Any]:
    return {"name": name, "sha256": sha256(name.encode()).hexdigest(), "workspace": workspace}


TENANTS = {"keys": [key("blue", "blue"), key("red", "red"), key("rose", "red")]}
ONE_TENANT = {"keys": [key("red", "red"), key("rose", "red")]}
SHARED = {"responses": True, "objects": {"red": ["vs_red", "file-red-*"], "blue": ["*"]}}


@pytest.fixture(scope="module")
def shared(thread: Thread, scripted: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("shared")
    with running_gateway(thread, directory, scripted.base_url, auth=TENANTS, upstream_settings=SHARED) as client:
        yield client


async def send(client: Client, path: str, body: Any, key: str = "red") -> ClientReply:
    data = body if isinstance(body, bytes) else orjson.dumps({"model": "m-large", **body})
    return await client.post(data, path=path, authorization=f"Bearer {key}", x_context_inject="off")


def part(**fields: Any) -> dict[str, Any]:
    return {"input": [{"role": "user", "content": [{"type": "input_file", **fields}]}]}


def chat_part(identity: str) -> dict[str, Any]:
    return {"messages": [HI, {"role": "user", "content": [{"type": "file", "file": {"file_id": identity}}]}]}


def block(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [fields]}], "max_tokens": 9}


def tool(**fields: Any) -> dict[str, Any]:
    return {"input": "Hi", "tools": [fields]}


# The field that an error names, the path, and the body.
NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "input[0].content[0].file_id": ("/responses", part(file_id="file-1")),
    "input[0].output[0].file_id": (
        "/responses",
        {
            "input": [
                {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "file_id": "file-1"}],
                }
            ]
        },
    ),
    "tools[0].vector_store_ids": ("/responses", tool(type="file_search", vector_store_ids=["vs_red", "vs_blue"])),
    "tools[0].container": ("/responses", tool(type="code_interpreter", container="cntr_1")),
    "tools[0].container.file_ids": (
        "/responses",
        tool(type="code_interpreter", container={"type": "auto", "file_ids": ["file-1"]}),
    ),
    "tools[0].environment.container_id": (
        "/responses",
        tool(type="shell", environment={"type": "container_reference", "container_id": "cntr_1"}),
    ),
    "tools[0].input_image_mask.file_id": (
        "/responses",
        tool(type="image_generation", input_image_mask={"file_id": "file-1"}),
    ),
    "input[0].container_id": (
        "/responses",
        {"input": [{"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1"}], "tools": [CODE]},
    ),
    "prompt.id": ("/responses", {"prompt": {"id": "pmpt_1"}}),
    "messages[1].content[0].file.file_id": ("/chat/completions", chat_part("file-1")),
    "messages[0].content[0].source.file_id": (
        "/messages",
        block(type="document", source={"type": "file", "file_id": "file-1"}),
    ),
    "messages[0].content[0].file_id": ("/messages", block(type="container_upload", file_id="file-1")),
    "container": ("/messages", {**block(type="text", text="Hi"), "container": "container_1"}),
    "container.id": ("/messages", {**block(type="text", text="Hi"), "container": {"id": "container_1"}}),
    "container.skills[0].skill_id": (
        "/messages",
        {**block(type="text", text="Hi"), "container": {"skills": [{"type": "custom", "skill_id": "skill_1"}]}},
    ),
    "tools[0].tunnel_id": ("/responses", tool(type="mcp", server_label="x", tunnel_id="tunnel_1")),
    "audio.voice.id": ("/chat/completions", {"messages": [HI], "audio": {"format": "wav", "voice": {"id": "voice_1"}}}),
    "extra_body.google.cached_content": (
        "/chat/completions",
        {"messages": [HI], "extra_body": {"google": {"cached_content": "cachedContents/1"}}},
    ),
    "thread.previous_message_id": (
        "/messages",
        {**block(type="text", text="Hi"), "thread": {"type": "continue", "previous_message_id": "msg_1"}},
    ),
    "voice.id": ("/audio/speech", {"input": "Hi", "voice": {"id": "voice_1"}}),
    "images[0].file_id": ("/images/edits", {"images": [{"file_id": "file-1"}], "prompt": "Blue"}),
}


@pytest.mark.parametrize("field", NAMED)
async def test_an_object_that_may_be_another_workspaces_is_refused_by_its_field(
    shared: Client, upstream: Upstream, field: str
) -> None:
    path, body = NAMED[field]
    reply = await send(shared, path, body)
    assert reply.status == 403, reply.raw
    error = reply.json["error"]
    if path == "/messages":
        assert error["details"] == {"error_code": "object_not_allowed", "param": field}
    else:
        assert (error["code"], error["param"]) == ("object_not_allowed", field)
    assert upstream.requests == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file\\u005fid":"file-1"}}]}]}',
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"file",'
        b'"file":{"file_id":"file-1","file_id":"file-red-1"}}]}]}',
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"file",'
        b'"file":{"file_id":"file-red-1","file_id":"file-1"}}]}]}',
        b'{"model":"m","messages":[],"messages":[{"role":"user","content":"Hi"}],'
        b'"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}',
    ],
)
async def test_no_spelling_hides_an_object(shared: Client, upstream: Upstream, body: bytes) -> None:
    reply = await send(shared, "/chat/completions", body)
    assert (reply.status, reply.error["code"]) == (403, "object_not_allowed")
    assert upstream.requests == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
async def test_no_encoding_hides_an_object(shared: Client, upstream: Upstream, encoding: str) -> None:
    body = '{"model":"m-large","images":[{"file_id":"file-1"}],"prompt":"Blue"}'.encode(encoding)
    plain = {"authorization": "Bearer red", "content-type": "text/plain"}
    reply = await shared.post(body, path="/images/edits", **plain)
    assert reply.status in (400, 403), reply.raw
    assert upstream.requests == []


@pytest.mark.parametrize("path", ["/audio/voices", "/audio/voice_consents", "/audio/voice_consents/cons_1"])
async def test_voices_of_an_account_are_not_listed(shared: Client, upstream: Upstream, path: str) -> None:
    reply = await send(shared, path, {})
    assert (reply.status, reply.error["code"]) == (403, "object_not_allowed")
    assert upstream.requests == []


async def test_an_object_in_a_form_is_refused(shared: Client, upstream: Upstream) -> None:
    form = b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nm-large\r\n'
    form += b'--b\r\ncontent-disposition: form-data; name="images[0][file_id]"\r\n\r\nfile-1\r\n--b--\r\n'
    content = {"authorization": "Bearer red", "content-type": "multipart/form-data; boundary=b"}
    reply = await shared.post(form, path="/images/edits", **content)
    assert (reply.status, reply.error["code"]) == (403, "object_not_allowed")
    assert upstream.requests == []


async def test_what_the_operator_lists_for_a_workspace_passes_unchanged(shared: Client, upstream: Upstream) -> None:
    upstream.will(say("Yes."), say("Yes."), say("Yes."))
    body = {**tool(type="file_search", vector_store_ids=["vs_red"]), **part(file_id="file-red-1")}
    assert (await send(shared, "/responses", body)).status == 200
    assert upstream.requests[0] == {"model": "m-large", **body}
    assert (await send(shared, "/chat/completions", chat_part("file-1"), "blue")).status == 200
    assert (await send(shared, "/responses", part(file_id="file-1"), "blue")).status == 200


async def test_names_that_are_the_clients_own_are_no_objects(shared: Client, upstream: Upstream) -> None:
    upstream.will(*[say("Yes.")] * 4)
    schema = {"type": "object", "properties": {"file_id": {"type": "string", "default": "file-1"}}}
    function = {"name": "open", "parameters": {**schema, "examples": [{"file_id": "file-1"}]}}
    called = {"id": "c", "type": "function", "function": {"name": "open", "arguments": '{"file_id":"file-1"}'}}
    body: dict[str, Any] = {
        "messages": [HI, {"role": "assistant", "tool_calls": [called]}, {"role": "tool", "tool_call_id": "c"}],
        "tools": [{"type": "function", "function": function}],
        "metadata": {"file_id": "file-1"},
    }
    assert (await send(shared, "/chat/completions", body)).status == 200
    told = {"type": "output_text", "text": "Yes.", "annotations": [{"type": "file_citation", "file_id": "file-1"}]}
    echoed = [{"type": "message", "role": "assistant", "id": "msg_1", "content": [told]}, HI]
    assert (await send(shared, "/responses", {"input": echoed, "tools": [CODE]})).status == 200
    used = {"type": "tool_use", "id": "t", "name": "open", "input": {"file_id": "file-1"}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "file_id"}]}
    turns = [HI, {"role": "assistant", "content": [used]}, result]
    assert (await send(shared, "/messages", {"messages": turns, "max_tokens": 9})).status == 200
    vars = {"messages": [HI], "context": {"vars": {"file_id": "x"}}}
    assert (await send(shared, "/chat/completions", vars)).status == 200


async def test_a_container_belongs_to_whoever_got_it_in_a_response(shared: Client, upstream: Upstream) -> None:
    ran = {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_red", "status": "completed"}
    upstream.will(answer_with(ran, stream=False), say("Again."), say("And again."))
    asked = {"input": [HI], "tools": [CODE]}
    assert (await send(shared, "/responses", asked)).status == 200
    again = {"input": [HI, ran], "tools": [CODE]}
    assert (await send(shared, "/responses", again)).status == 200
    named = tool(type="code_interpreter", container="cntr_red")
    assert (await send(shared, "/responses", named)).status == 200
    foreign = await send(shared, "/responses", again, "rose")
    assert (foreign.status, foreign.error["param"]) == (403, "input[1].container_id")
    assert len(upstream.requests) == 3


async def test_a_container_of_a_shell_belongs_to_whoever_got_it(shared: Client, upstream: Upstream) -> None:
    environment = {"type": "container_reference", "container_id": "cntr_shell"}
    ran = {"type": "shell_call", "id": "sh_1", "call_id": "c", "action": {"commands": []}, "environment": environment}
    upstream.will(answer_with(ran, stream=False), say("Again."))
    asked = tool(type="shell", environment={"type": "container_auto"})
    assert (await send(shared, "/responses", asked)).status == 200
    again = {**asked, "input": [HI, ran]}
    assert (await send(shared, "/responses", again)).status == 200
    foreign = await send(shared, "/responses", again, "rose")
    assert (foreign.status, foreign.error["param"]) == (403, "input[1].environment.container_id")


@pytest.mark.parametrize(
    ("auth", "settings", "status"),
    [
        (ONE_TENANT, {}, 200),
        ({"keys": []}, {}, 200),
        (TENANTS, {}, 403),
        (TENANTS, {"shared_objects": "allow"}, 200),
        (ONE_TENANT, {"shared_objects": "refuse"}, 403),
        (TENANTS, {"pass_bearer": True, "api_key": None}, 200),
    ],
)
async def test_an_account_is_shared_as_soon_as_two_workspaces_have_keys(
    start: Start, upstream: Upstream, auth: dict[str, Any], settings: dict[str, Any], status: int
) -> None:
    client = start(auth=auth, upstream_settings={"responses": True, **settings})
    if status == 200:
        upstream.will(say("Yes."))
    own = {"x_context_key": "red", "authorization": "Bearer sk-own"}
    headers = own if "pass_bearer" in settings else {"authorization": "Bearer red"}
    body = orjson.dumps({"model": "m-large", **part(file_id="file-1")})
    reply = await client.post(body, path="/responses", x_context_inject="off", **headers)
    assert reply.status == status, reply.raw
