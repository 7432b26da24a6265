"""Contexts and agents of the checks about sessions, semantic search, tools and retrievers."""

from typing import Any


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "data": {"content": content}, **more}


AUTHENTICATION = "How to authenticate: send the API key as a bearer token in the Authorization header of every call."
ERRORS = "Error handling: every function returns a result object; catch errors at the boundary, log them, retry once."
FLOW = {
    "a": text("Answer in English.", name="Rule A", kind="rule"),
    "b": text("Never mention prices.", name="Rule B", kind="rule", mode="manual"),
    "c": text(AUTHENTICATION, name="Rule C", description="How to authenticate", kind="rule", mode="semantic"),
    "x": text("The product is called Harbour.", name="Reference X", kind="reference"),
    "y": text(ERRORS, name="Reference Y", description="Error handling", kind="reference", mode="semantic"),
    "z": text("The archive has all letters.", name="Reference Z", mode="on_demand", description="Letters"),
    "plain": text("A text without a description.", name="Plain", mode="on_demand"),
}
SHOP = {
    "refunds": text("Refunds are paid within a week.", mode="semantic", examples=["How do I get a refund?"]),
    "shipping": text("Shipping costs five euros.", mode="semantic", examples=["How much is shipping?"]),
    "long": text(
        "Opening hours are from nine to six.\n\nParking is free behind the house.\n\nDogs must stay outside.",
        mode="semantic",
    ),
}
RELATED = {
    "auth": text(
        "To authenticate, fetch the API endpoint.\n\nGet the authentication token from the login URL.\n\n"
        "Make an HTTP request with the token.",
        name="Authentication rules",
        mode="semantic",
        examples=["How do I authenticate?", "How does one log in?", "How do I sign in to the API?"],
    ),
    "fetch-website": {
        "type": "http-tool",
        "mode": "semantic",
        "name": "fetch_website",
        "description": "Fetch a website or an API endpoint by its URL",
        "data": {"url": "http://endpoint/weather", "method": "GET"},
    },
    "http-request": {
        "type": "http-tool",
        "mode": "semantic",
        "name": "http_request",
        "description": "Make an HTTP request with headers and a token",
        "data": {"url": "http://endpoint/weather", "method": "GET"},
    },
}
FILES = {
    "files": {
        "type": "mcp-server",
        "mode": "semantic",
        "data": {
            "server": "files",
            "tools": {
                "echo": {"mode": "always"},
                "read_file": {"brings": ["write_file"]},
                "write_file": {"mode": "manual", "permission": "approve"},
            },
        },
    }
}
PLAIN_FILES = {"files": {"type": "mcp-server", "data": {"server": "files", "allow": ["echo", "weather"]}}}
LEDGER = {
    "type": "retriever",
    "name": "Ledger",
    "description": "Invoices and who paid them",
    "data": {"url": "http://endpoint/search", "limit": 3},
}
CHAT_CONTEXTS: dict[str, Any] = {
    "flow": {"resources": FLOW},
    "lamps": {"resources": SHOP},
    "related": {"resources": RELATED},
    "toolbox": {"resources": FILES},
    "plain-toolbox": {"resources": PLAIN_FILES},
    "ledger": {"resources": {"invoices": LEDGER}},
    "empty": {"resources": {}},
    "fallback": {"default": True, "resources": {"general": text("The global default.")}},
    "unused": {"resources": {"trivia": text("The first lamp was lit in the harbour of Bergen.", kind="reference")}},
    "extra": {"resources": {"note": text("A context that the request names.")}},
}
CHAT_AGENTS: dict[str, Any] = {
    "assistant": {"contexts": ["flow"], "temperature": 0.7, "max_turns": 4},
    "seller": {"contexts": ["lamps"]},
    "unsearched": {"contexts": ["lamps"], "selection": {"enabled": False}},
    "related": {"contexts": ["related"]},
    "expanding": {"contexts": ["related"], "selection": {"expansion": {"depth": 1, "threshold": 0.3, "top_n": 3}}},
    "engineer": {"contexts": ["toolbox"]},
    "plain-engineer": {"contexts": ["plain-toolbox"]},
    "forbidden": {"contexts": ["plain-toolbox"], "tool_permission": "deny"},
    "careful": {"contexts": ["plain-toolbox"], "tool_permission": "approve"},
    "learner": {"contexts": ["plain-toolbox", "related"], "tool_expansion": 1},
    "accountant": {"contexts": ["ledger"]},
    "repeater": {"contexts": ["unused"]},
    "emptied": {"contexts": ["empty"]},
}
