"""Tools in policies: which are compiled, and which faults are found."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.domain.resource import Mode, ResourceKind
from gateway.domain.snapshot import Snapshot
from gateway.domain.tool import ServerTool, ToolServerAddress
from gateway.errors import Faults
from gateway.extraction.extract import DocumentCache
from gateway.links.cache import LinkCache
from gateway.policies.file_policies import load_policies
from gateway.policies.materials import PolicyMaterials
from gateway.resources.registry import load_registry
from gateway.settings import DocumentSettings, LinkSettings, ToolServerSettings
from gateway.stores.memory_ephemeral import MemoryEphemeralStore
from gateway.tools.listing import ToolListing
from gateway.tools.servers import ToolServers

URL = "https://example.com/mcp"


def load(directory: Path, resource: dict[str, Any], listing: ToolListing | None = None) -> Snapshot:
    (directory / "all.yaml").write_text(yaml.safe_dump({"contexts": {"ops": {"resources": {"it": resource}}}}))
    servers = ToolServers({"files": ToolServerSettings(command=["true"])})
    if listing is not None:
        address = ToolServerAddress(url=URL)
        servers.follow({address: {""}})
        servers._take_listing(address, listing)
    links = LinkCache(MemoryEphemeralStore(), LinkSettings())
    materials = PolicyMaterials(DocumentCache(DocumentSettings()), links)
    return load_policies(directory, load_registry(), materials, 1, servers)


def http(**more: Any) -> dict[str, Any]:
    return {"type": "http-tool", "description": "d", "data": {"url": "https://example.com/x"}, **more}


@pytest.mark.parametrize(
    ("resource", "fault"),
    [
        ({"type": "text", "kind": "tool", "data": {"content": "x"}}, "a text is no tool: write it as"),
        (http(mode="on_demand"), "a tool cannot be on_demand"),
        (http(kind="rule"), "is a tool; remove `kind`"),
        (http(description=""), "a tool needs a description"),
        (http(data={"url": "ftp://example.com"}), "does not begin with http"),
        (http(data={"url": "https://example.com", "parameters": {"type": "array"}}), "JSON Schema of type object"),
        (http(data={"url": "https://example.com", "brings": ["other"]}), "there is no tool 'ops/other'"),
        ({"type": "mcp-server", "data": {}}, "give either server or url; commands belong into the configuration"),
        ({"type": "mcp-server", "data": {"command": ["sh"]}}, "is not a known key"),
        ({"type": "mcp-server", "data": {"server": "fils"}}, "did you mean 'files'?"),
        ({"type": "mcp-server", "mode": "on_demand", "data": {"server": "files"}}, "a tool cannot be on_demand"),
        ({"type": "mcp-server", "data": {"url": URL, "tools": {"a": {"mode": "on_demand"}}}}, "'always', 'semantic'"),
    ],
)
def test_faults_say_what_to_write(tmp_path: Path, resource: dict[str, Any], fault: str) -> None:
    with pytest.raises(Faults) as raised:
        load(tmp_path, resource)
    assert fault in str(raised.value)


def test_a_server_has_no_tools_until_it_tells_them_and_the_hash_stays(tmp_path: Path) -> None:
    data = {"url": URL, "tools": {"read": {"mode": "manual", "brings": ["w/x", "write"]}}, "deny": ["danger*"]}
    resource = {"type": "mcp-server", "mode": "semantic", "readers": ["group:a"], "priority": 7, "data": data}
    before = load(tmp_path, resource)
    assert before.resources["ops/it"].text is None
    tools = tuple(ServerTool(name, "Does\nit", '{"type":"object"}') for name in ("read", "write", "danger"))
    after = load(tmp_path, resource, ToolListing(tools))
    assert after.hash == before.hash
    assert [one.id for one in after.tools] == ["ops/it.read", "ops/it.write"]
    read, write = after.tools
    assert (read.mode, write.mode, read.kind) == (Mode.MANUAL, Mode.SEMANTIC, ResourceKind.TOOL)
    assert read.data.brings == ("w/x", "ops/it.write")
    assert (read.readers, read.priority, read.name, read.description) == (("group:a",), 7, "it.read", "Does it")
    assert write.text == (
        '{"type":"function","function":{"name":"it__write","description":"Does\\nit","parameters":{"type":"object"}}}'
    )
