"""Whose connection keeps the list of a server: no workspace can take it from another."""

import pytest

from gateway.domain.tool import ToolServerAddress
from gateway.settings import ToolServerSettings
from gateway.tools.servers import MAX_SERVERS, ConnectionKey, ToolServers

SHARED = ToolServerAddress(url="https://shared.example/mcp")
MANY = [ToolServerAddress(url=f"https://a{number}.example/mcp") for number in range(MAX_SERVERS + 5)]


def choose_home(users: set[str]) -> ConnectionKey | None:
    """The home of a server that comes after so many of the workspace `a` that it may have no more."""
    servers = ToolServers()
    servers.follow({**{address: {"a"} for address in MANY}, SHARED: users})
    assert len(servers._homes) == MAX_SERVERS + (SHARED in servers._homes)
    return servers._homes.get(SHARED)


@pytest.mark.parametrize(
    ("users", "home"),
    [({"a"}, None), ({"a", "b"}, "b"), ({"b"}, "b"), ({"", "a"}, "default"), ({""}, "default"), ({"", "b"}, "default")],
)
def test_a_workspace_with_too_many_servers_takes_none_from_others(users: set[str], home: str | None) -> None:
    assert choose_home(users) == (None if home is None else ConnectionKey(home, SHARED))


def test_the_list_of_a_configured_server_comes_from_whoever_may_use_it() -> None:
    settings = ToolServerSettings(url="https://files.example/mcp", workspaces=["blue"])
    servers = ToolServers({"files": settings})
    address = ToolServerAddress(name="files")
    servers.follow({address: {"", "red"}})
    assert servers._homes == {address: ConnectionKey("blue", address)}


def test_who_has_too_many_is_told() -> None:
    servers = ToolServers()
    servers.follow({address: {"a"} for address in MANY})
    states = [one.state for one in servers.list_statuses("a")]
    assert (states.count("connecting"), states.count("down")) == (MAX_SERVERS, 5)
