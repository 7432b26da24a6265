"""`gateway mcp`: a desktop client starts it and speaks over its pipes."""

import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from mcp.client import Client as McpClient
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from tests.support.gateway import POLICIES, Start

PROMPTS = {"prompts": {"tidy": {"template": "Tidy for {vars.whom}: {input}", "contexts": ["house"]}}}


@asynccontextmanager
async def launch(mode: str, *arguments: str) -> AsyncGenerator[McpClient]:
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "gateway", "mcp", *arguments])
    async with McpClient(stdio_client(parameters), mode=mode, cache=None) as client:
        yield client


async def use_everything(client: McpClient) -> None:
    names = [one.name for one in (await client.list_resources()).resources]
    assert names == ["house/voice", "house/style", "house/names", "house/handbook"]
    (contents,) = (await client.read_resource("context://house/style")).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.text == "Use the serial comma."
    assert len((await client.list_resource_templates()).resource_templates) == 1
    assert len((await client.list_tools()).tools) == 2
    (block,) = (await client.call_tool("get_context_resource", {"resource_id": "house/names"})).content
    assert isinstance(block, TextContent)
    assert block.text == "[Product names]\nWrite Lumo, never LUMO."
    (listed,) = (await client.list_prompts()).prompts
    assert [one.name for one in listed.arguments or ()] == ["input", "whom"]
    messages = (await client.get_prompt("tidy", {"input": "this", "whom": "us"})).messages
    assert isinstance(messages[-1].content, TextContent)
    assert messages[-1].content.text == "Tidy for us: this"
    with pytest.raises(MCPError) as caught:
        await client.read_resource("context://house/gone")
    assert caught.value.data == {"code": "invalid_request", "param": "uri"}


async def test_it_serves_what_a_running_gateway_has(start: Start, tmp_path: Path) -> None:
    keys = [{"name": "desk", "sha256": sha256(b"desk-key").hexdigest()}]
    gateway = start(policies=POLICIES | PROMPTS, auth={"keys": keys})
    (tmp_path / "key").write_text("desk-key\n")
    url = f"http://127.0.0.1:{gateway.port}"
    async with launch("legacy", "--url", url, "--key-file", str(tmp_path / "key"), "--agent", "editor") as client:
        await use_everything(client)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration with policies and no running gateway."""
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/all.yaml").write_text(yaml.safe_dump(POLICIES | PROMPTS, sort_keys=False))
    settings: dict[str, Any] = {
        "policies": str(tmp_path / "policies"),
        "store": "memory:",
        "semantic": {"enabled": False},
    }
    settings |= {"upstreams": {"demo": {"kind": "demo"}}, "routes": [{"model": "*", "upstream": "demo"}]}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path / "config.yaml"


async def test_it_reads_the_policies_itself_without_a_running_gateway(config: Path) -> None:
    async with launch("auto", "--config", str(config), "--agent", "editor") as client:
        await use_everything(client)


async def test_a_gateway_that_refuses_or_is_down_is_an_error_and_not_the_end(start: Start) -> None:
    closed = start(auth={"keys": [{"name": "desk", "sha256": sha256(b"desk-key").hexdigest()}]})
    for port, message in ((closed.port, "The API key is missing"), (9, "does not answer")):
        async with launch("auto", "--url", f"http://127.0.0.1:{port}") as client:
            for _ in range(2):
                with pytest.raises(MCPError, match=message):
                    await client.list_resources()


def write(method: str, number: int | None = None, **params: Any) -> bytes:
    named = {} if number is None else {"id": number}
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params, **named}) + b"\n"


GREETING = write(
    "initialize", 0, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"}
) + write("notifications/initialized")


def run_process(*arguments: str, lines: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command with all of its input at once."""
    command = [sys.executable, "-m", "gateway", "mcp", *arguments]
    return subprocess.run(command, input=lines, capture_output=True, timeout=60, check=False)


class Speaker:
    """The command, spoken to line by line."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "gateway", "mcp", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)

    def say(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(lines))
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The next line; whatever is not of the protocol fails."""
        assert self.process.stdout is not None
        line: dict[str, Any] = orjson.loads(self.process.stdout.readline())
        assert line["jsonrpc"] == "2.0"
        return line

    def end(self) -> tuple[int, bytes]:
        """Close the input; the exit code, and what else came."""
        rest, _ = self.process.communicate(timeout=30)
        return self.process.returncode, rest


def test_noise_on_the_input_is_passed_over(config: Path) -> None:
    speaker = Speaker("--config", str(config), "--agent", "editor")
    speaker.say(GREETING)
    assert speaker.hear()["result"]["serverInfo"]["name"] == "context-gateway"
    noise = (b"this is no JSON\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b"[]\n", b'{"jsonrpc":"2.0","id":5}\n', b"\n")
    speaker.say(*noise, write("no/such/method", 1))
    assert speaker.hear()["error"]["code"] == -32601
    speaker.say(write("tools/call", 2, name="list_context_resources", arguments={"query": "x" * 1_000_000}))
    assert speaker.hear()["result"]["isError"] is False
    speaker.say(write("tools/call", 3, name="list_context_resources", arguments={"query": "a"}))
    speaker.say(write("notifications/cancelled", requestId=3), write("resources/list", 4))
    heard = speaker.hear()
    heard = heard if heard["id"] == 4 else speaker.hear()  # it was faster than the cancellation
    assert len(heard["result"]["resources"]) == 4
    assert speaker.end() == (0, b"")


def test_input_that_ends_in_the_middle_ends_the_process(config: Path) -> None:
    asked = b"".join(write("resources/list", number) for number in range(1, 20))
    done = run_process(
        "--config", str(config), "--agent", "editor", lines=GREETING + asked + write("tools/list", 20)[:30]
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr
    answers = [orjson.loads(line) for line in done.stdout.splitlines()]
    assert {one["id"] for one in answers} <= set(range(20))
    assert all(("result" in one) != ("error" in one) for one in answers)


def test_faults_are_no_part_of_the_protocol(config: Path) -> None:
    (config.parent / "policies/all.yaml").write_text("contexts: 5\n")
    for broken in (config, config.parent / "gone.yaml"):
        done = run_process("--config", str(broken), lines=GREETING)
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr.count(b"\n") == 1
    assert run_process("--url", "ftp://127.0.0.1").returncode == 1
    assert run_process("--no-such-option").returncode == 2


ODD_REPLIES = (b"[]", b"5", b'"x"', b"null", b"", b"<html>", b'{"result":{"nope":1}}', b'{"error":"text"}', b"\xff")


@contextmanager
def answering(*bodies: bytes, port: int = 0) -> Iterator[int]:
    """Something that answers where a gateway is expected, each time with the next of these."""
    left = list(bodies)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            body = left.pop(0)
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_what_is_no_gateway_is_told_as_such() -> None:
    with answering(*ODD_REPLIES) as port:
        speaker = Speaker("--url", f"http://127.0.0.1:{port}")
        speaker.say(GREETING)
        speaker.hear()
        for number in range(len(ODD_REPLIES)):
            speaker.say(write("resources/list", number + 1))
            error = speaker.hear()["error"]
            assert error["code"] == -32603
            assert "is not a gateway, or has no MCP endpoint (HTTP 200)." in error["message"]
        assert speaker.end() == (0, b"")


def test_a_gateway_that_was_gone_is_found_again() -> None:
    empty = b'{"jsonrpc":"2.0","id":1,"result":{"resources":[]}}'
    with answering(empty) as port:
        speaker = Speaker("--url", f"http://127.0.0.1:{port}/")
        speaker.say(GREETING, write("resources/list", 1))
        speaker.hear()
        assert speaker.hear()["result"]["resources"] == []
    speaker.say(write("resources/list", 2))
    assert "does not answer" in speaker.hear()["error"]["message"]
    with answering(empty, port=port):
        speaker.say(write("resources/list", 3))
        assert speaker.hear()["result"]["resources"] == []
    assert speaker.end() == (0, b"")
