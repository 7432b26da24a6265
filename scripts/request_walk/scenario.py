"""The request that is traced: the gateway's configuration, what the client sends, and what must have happened."""

import hashlib
import json
from pathlib import Path
from typing import Any

from scripts.request_walk.client import Reply

KEY = "walk-client-key"
MODEL = "m-large"
ALWAYS = "Write plainly and answer in two sentences."
PAGE_ALWAYS = "The help centre is read by people who own a lamp."
SEMANTIC = "Reset a forgotten password on the account settings page."
ON_DEMAND = "Hold the button for ten seconds until the lamp blinks white."
ON_DEMAND_ID = "help/pairing"
PROBE = "The canteen serves soup on Thursdays."
QUESTION = "How do I reset a forgotten password of my account?"
PROBE_QUESTION = "On which day does the canteen serve soup?"


def build_resource(content: str, mode: str = "always") -> dict[str, Any]:
    return {"type": "text", "mode": mode, "description": content[:30], "data": {"content": content}}


# The probe shares nothing with the traced request, so that finding it fills none of the caches that request uses.
POLICIES: dict[str, Any] = {
    "contexts": {
        "help": {
            "resources": {
                "voice": build_resource(ALWAYS),
                "password": build_resource(SEMANTIC, "semantic"),
                "invoice": build_resource("Download the monthly invoice from the billing page.", "semantic"),
                "refund": build_resource("We refund a damaged parcel within thirty days.", "semantic"),
                "pairing": build_resource(ON_DEMAND, "on_demand"),
                "warranty": build_resource("The warranty of a lamp lasts for three years.", "on_demand"),
            }
        },
        "readers": {"resources": {"audience": build_resource(PAGE_ALWAYS)}},
        "canteen": {"resources": {"soup": build_resource(PROBE, "semantic")}},
    },
    "agents": {
        "helper": {"instructions": "You help customers.", "contexts": ["help"]},
        "probe": {"contexts": ["canteen"]},
    },
    "content": {
        "site": {"title": "Site", "children": {"faq": {"title": "Questions", "contexts": ["readers"]}}},
    },
}

CLIENT_TOOL = {
    "type": "function",
    "function": {
        "name": "order_status",
        "description": "The state of an order",
        "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]},
    },
}
CLIENT_CALL = "call_client"
OWN_CALL = "call_own"
CALLS = (
    (OWN_CALL, "get_context_resource", json.dumps({"resource_id": ON_DEMAND_ID})),
    (CLIENT_CALL, "order_status", json.dumps({"order": 17})),
)


class UnexpectedExchange(Exception):
    """An exchange was not the one that the figures are about."""


def write_config(directory: Path, upstream: str) -> Path:
    """The configuration and the policies as files; JSON is YAML too."""
    policies = directory / "policies"
    policies.mkdir()
    (policies / "all.yaml").write_text(json.dumps(POLICIES))
    config = {
        "policies": str(policies),
        "store": "memory:",
        "secret": "a secret of the walk",
        "upstreams": {"scripted": {"kind": "openai", "base_url": upstream, "api_key": "sk-walk", "retries": 0}},
        "routes": [{"model": "*", "upstream": "scripted"}],
        "defaults": {"model": MODEL},
        "auth": {"keys": [{"name": "walk", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]},
        "semantic": {"milliseconds": 60_000},  # a traced search is slow and must not be cut short
        "log": {"exchanges": False},
    }
    path = directory / "config.yaml"
    path.write_text(json.dumps(config))
    return path


def build_headers(**context: str) -> list[tuple[bytes, bytes]]:
    """A client's headers, as many as the official SDK sends."""
    plain = {
        "host": "127.0.0.1:8080",
        "accept": "application/json",
        "accept-encoding": "gzip, deflate",
        "connection": "keep-alive",
        "content-type": "application/json",
        "authorization": f"Bearer {KEY}",
        "user-agent": "OpenAI/Python 1.0.0",
    }
    named = plain | {f"x-context-{name}": value for name, value in context.items()}
    return [(name.encode(), value.encode()) for name, value in named.items()]


def build_body(question: str, **fields: Any) -> bytes:
    messages = [{"role": "system", "content": "You are polite."}, {"role": "user", "content": question}]
    return json.dumps({"model": MODEL, "messages": messages, **fields}).encode()


def check_exchange(reply: Reply, sent: dict[str, Any]) -> None:
    """Raise unless every mode took part and only the client's own call was shown."""
    messages = json.dumps(sent.get("messages"))
    tools = [tool["function"]["name"] for tool in sent.get("tools", ())]
    facts = {
        "the gateway answered 200": reply.status == 200,
        "nothing was degraded": "x-context-degraded" not in reply.headers,
        "the agent's always resource was sent": ALWAYS in messages,
        "the content node's resource was sent": PAGE_ALWAYS in messages,
        "the semantic resource was picked": SEMANTIC in messages,
        "the on-demand resource was offered": ON_DEMAND_ID in messages and ON_DEMAND not in messages,
        "both kinds of tools were registered": {"order_status", "get_context_resource"} <= set(tools),
        "the client saw its own call": CLIENT_CALL.encode() in reply.body,
        "the client did not see the gateway's call": OWN_CALL.encode() not in reply.body,
        "the stream was complete": reply.body.endswith(b"data: [DONE]\n\n"),
    }
    if wrong := [fact for fact, holds in facts.items() if not holds]:
        raise UnexpectedExchange(f"This is not true of the traced request: {'; '.join(wrong)}.\n{reply.body!r}")
