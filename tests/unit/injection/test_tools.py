"""The two tools as a provider is told of them, and when they may be registered (CONTRACT §3.4)."""

from typing import Any

import msgspec
import orjson
import pytest

from gateway.conversation.dialects.chat.dialect import CHAT
from gateway.conversation.dialects.chat.tools import may_register, read_client_tools
from gateway.errors import InvalidRequest
from gateway.injection.tools import make_own_tools

WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}


def registers(**fields: Any) -> bool:
    request = CHAT.decode(orjson.dumps({"messages": [], **fields}))
    return may_register(request, read_client_tools(request))


def test_schemas_are_exact() -> None:
    get, list_ = (msgspec.json.decode(schema)["function"] for schema in make_own_tools(()).schemas)
    assert (get["name"], list_["name"]) == ("get_context_resource", "list_context_resources")
    for function in (get, list_):
        assert function["parameters"]["additionalProperties"] is False
        assert "strict" not in function
    properties = get["parameters"]["properties"]
    assert {name: value["type"] for name, value in properties.items()} == {
        "resource_id": "string",
        "query": "string",
        "offset": "integer",
    }
    assert properties["offset"]["minimum"] == 0
    assert get["parameters"]["required"] == ["resource_id"]
    assert {name: value["type"] for name, value in list_["parameters"]["properties"].items()} == {"query": "string"}
    assert "required" not in list_["parameters"]


def test_schemas_are_the_same_bytes_every_time() -> None:
    assert [bytes(one) for one in make_own_tools(()).schemas] == [bytes(one) for one in make_own_tools(()).schemas]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 1},
        {"n": None},
        {"tools": []},
        {"tools": [WEATHER]},
        {"tools": [WEATHER], "tool_choice": "auto"},
        {"tools": [WEATHER], "tool_choice": "required"},
        {"tools": None, "tool_choice": None},
    ],
)
def test_requests_that_get_our_tools(fields: dict[str, Any]) -> None:
    assert registers(**fields) is True


@pytest.mark.parametrize(
    "fields",
    [
        {"n": 2},
        {"tools": [WEATHER], "tool_choice": "none"},
        {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
        {"tools": [WEATHER], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
        {"tool_choice": "auto"},
        {"tools": [], "tool_choice": "required"},
        {"functions": [{"name": "f"}]},
        {"prediction": {"type": "content", "content": "x"}},
    ],
)
def test_requests_that_do_not(fields: dict[str, Any]) -> None:
    assert registers(**fields) is False


def test_a_client_tool_of_the_same_name_wins_and_ours_is_renamed() -> None:
    tools = make_own_tools(["get_context_resource"])
    assert (tools.get, tools.list) == ("get_context_resource_2", "list_context_resources")
    assert make_own_tools(["list_context_resources", "list_context_resources_2"]).list == "list_context_resources_3"
    assert b"list_context_resources_2" in bytes(make_own_tools(["list_context_resources"]).schemas[0])


def test_names_of_functions_and_custom_tools_are_taken() -> None:
    tools = [WEATHER, {"type": "custom", "custom": {"name": "paint"}}, {"type": "web_search"}]
    assert read_client_tools(CHAT.decode(orjson.dumps({"messages": [], "tools": tools}))).names == {
        "get_weather",
        "paint",
    }


@pytest.mark.parametrize("tools", [5, {}, "x", [5], [{"function": "x"}], [{"function": {"name": 5}}]])
def test_tools_that_are_no_list_of_tools_are_refused(tools: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_client_tools(CHAT.decode(orjson.dumps({"messages": [], "tools": tools})))
    assert caught.value.param == "tools"
