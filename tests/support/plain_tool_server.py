"""The same tools over stdio, written without the package, whose import takes far longer than most tests.

For tests that start a server of their own and are about the gateway; others use `tests.support.tool_server`.
"""

import json
import sys
from typing import Any

from tests.support.tool_answers import DESCRIPTIONS, ToolFailure, answer, choose_schema, list_names


def respond(request: dict[str, Any]) -> dict[str, Any] | None:
    """The result; None for a method that is not known."""
    match request["method"]:
        case "initialize":
            return {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "test-tools", "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [describe(name) for name in list_names()]}
        case "tools/call":
            return call(request["params"])
    return None


def describe(name: str) -> dict[str, Any]:
    return {"name": name, "description": DESCRIPTIONS.get(name, name), "inputSchema": choose_schema(name)}


def call(params: dict[str, Any]) -> dict[str, Any]:
    try:
        text, failed = answer(params["name"], params.get("arguments") or {}), False
    except ToolFailure as failure:
        text, failed = str(failure), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        hangs = request.get("method") == "tools/call" and request["params"]["name"] == "hang"
        if "id" not in request or hangs:
            continue
        result = respond(request)
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        reply |= {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        print(json.dumps(reply), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
