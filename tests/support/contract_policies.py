"""Policies and a plain client for the tests that go through CONTRACT.md sentence by sentence."""

from collections.abc import Sequence
from hashlib import sha256
from hmac import new
from typing import Any

import aiohttp
import orjson

from tests.support.gateway import Client, ClientReply, read

TAG = new(b"a secret of the tests", b"default", sha256).hexdigest()[:8]
USER = {"role": "user", "content": "Hi"}
BODY: dict[str, Any] = {"model": "m-large", "messages": [USER]}

Pairs = Sequence[tuple[str, str]]


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "data": {"content": content}, **more}


def voice(name: str, **traits: Any) -> dict[str, Any]:
    more: dict[str, Any] = {key: traits.pop(key) for key in ("mode", "key") if key in traits}
    return {"type": "brand-voice", "name": name, "data": traits, **more}


POLICIES: dict[str, Any] = {
    "contexts": {
        "corporate": {"default": True, "resources": {"voice": voice("Corporate", tone="Formal", audience="Buyers")}},
        "house": {
            "resources": {
                "rules": text("No slang.", name="Rules"),
                "style": text("Use commas.", name="Style", mode="on_demand", description="Punctuation"),
                "extra": text("By hand.", name="Extra", mode="manual"),
            }
        },
        "plain": {"resources": {"kind": text("Be kind.", name="Kind")}},
        "blog": {"resources": {"voice": voice("Blog", tone="Casual"), "length": text("Be short.", name="Length")}},
        "german": {"resources": {"sie": text("Sag Sie.", name="Sie", languages=["de"]), "hi": text("Hi.", name="Hi")}},
        "personnel": {
            "resources": {
                "pay": text("Salaries.", name="Pay", readers=["user:ann", "key:ann"]),
                "open": text("Open.", name="Open"),
            }
        },
        "prices": {"resources": {"list": text("List price.", name="List", key="price")}},
        "sale": {"resources": {"offer": text("Half price.", name="Offer", key="price")}},
    },
    "profiles": {
        "calm": {"contexts": ["plain"], "temperature": 0.2, "top_p": 0.9, "max_tokens": 100, "model": "m-profile"},
        "seller": {"contexts": ["prices"]},
        "empty": {},
    },
    "agents": {
        "editor": {"instructions": "You edit.", "contexts": ["house"], "model": "m-agent", "temperature": 0.7},
        "kind": {"contexts": ["plain"]},
        "calm": {"profile": "calm"},
        "helper": {"instructions": "Help."},
        "willing": {"inject": True},
        "unwilling": {"contexts": ["house"], "inject": False},
        "seller": {"profile": "seller", "contexts": ["sale"]},
        "clerk": {"contexts": ["prices", "sale"]},
        "translator": {"contexts": ["german"]},
        "hr": {"contexts": ["personnel"]},
        "writer": {"contexts": ["corporate", "plain"]},
        "turner": {"contexts": ["house"], "placement": "turn"},
        "guest": {"contexts": ["house"], "placement": "turn_user"},
    },
    "prompts": {
        "sum": {"template": "Sum up {content} for {vars.who}: {input} {{ok}}"},
        "inside": {"template": "{context}\n\nQ: {input}", "contexts": ["plain"]},
        "bare": {},
    },
    "content": {
        "site": {
            "contexts": ["corporate"],
            "children": {
                "blog": {
                    "id": "77",
                    "body": "The blog.",
                    "contexts": ["blog"],
                    "inherit": "merge",
                    "children": {"post": {}},
                },
                "shop": {"contexts": ["plain"]},
            },
        },
        "staff": {"readers": ["user:ann"], "contexts": ["plain"]},
        "empty": {},
    },
}


async def ask(
    client: Client,
    headers: Pairs = (),
    body: bytes | dict[str, Any] = BODY,
    path: str = "/v1/chat/completions",
    method: str = "POST",
) -> ClientReply:
    """One request; headers are pairs, so that they may be repeated."""
    named = list(headers)
    if not any(name.lower() == "content-type" for name, _ in named):
        named.append(("content-type", "application/json"))
    data = body if isinstance(body, bytes) else orjson.dumps(body)
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20), auto_decompress=False) as session,
        session.request(
            method,
            client.base_url.removesuffix("/v1") + path,
            data=data if method != "GET" else None,
            headers=named if method != "GET" else list(headers),
            allow_redirects=False,
        ) as response,
    ):
        return await read(response)


def about(**said: str) -> list[tuple[str, str]]:
    """x-context headers by their short names."""
    return [(f"x-context-{name}", value) for name, value in said.items()]


def system_text(request: dict[str, Any]) -> str:
    """What the first system message of an outgoing request says; "" where there is none."""
    first = request["messages"][0]
    return str(first["content"]) if first["role"] == "system" else ""


def names_in(request: dict[str, Any]) -> list[str]:
    """The names of the resources whose text was placed in the system message; nodes have their type behind the name."""
    lines = system_text(request).split("\n")
    return [line[1:-1] for line in lines if line.startswith("[") and line.endswith("]") and "] [" not in line]
