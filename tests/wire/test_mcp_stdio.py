"""`gateway mcp`: a desktop client starts it and speaks over its pipes."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

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


async def test_it_reads_the_policies_itself_without_a_running_gateway(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/all.yaml").write_text(yaml.safe_dump(POLICIES | PROMPTS, sort_keys=False))
    config: dict[str, Any] = {
        "policies": str(tmp_path / "policies"),
        "store": "memory:",
        "semantic": {"enabled": False},
    }
    config |= {"upstreams": {"demo": {"kind": "demo"}}, "routes": [{"model": "*", "upstream": "demo"}]}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    async with launch("auto", "--config", str(tmp_path / "config.yaml"), "--agent", "editor") as client:
        await use_everything(client)


async def test_a_gateway_that_refuses_or_is_down_is_an_error_and_not_the_end(start: Start) -> None:
    closed = start(auth={"keys": [{"name": "desk", "sha256": sha256(b"desk-key").hexdigest()}]})
    for port, message in ((closed.port, "The API key is missing"), (9, "does not answer")):
        async with launch("auto", "--url", f"http://127.0.0.1:{port}") as client:
            for _ in range(2):
                with pytest.raises(MCPError, match=message):
                    await client.list_resources()
