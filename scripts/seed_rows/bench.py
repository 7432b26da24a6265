"""A running gateway with policies of its own, the endpoint behind it, and a client that sees both sides."""

import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from scripts.seed_rows.model_endpoint import SUMMARY_MODEL, RecordingEndpoint
from tests.support.gateway_processes import running_workers
from tests.support.knowledge_graph import make_key
from tests.support.tool_gateway import run_server
from tests.support.upstream import Reaction

PATIENCE = 150.0  # seconds for what happens in the background
SLOW = 30_000  # milliseconds: a loaded machine must not make collectors late
ADMIN = "root"
KEYS = [
    make_key(ADMIN, role="admin", tier="enterprise", rights=["act_as_user"]),
    make_key("staff", tier="enterprise", groups=["staff"]),
    *(make_key(tier, tier=tier) for tier in ("core", "pro", "teams", "enterprise", "platinum")),
    make_key("untold"),
]


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def text(self) -> str:
        """What the client of a chat request reads."""
        return str(self.body["choices"][0]["message"]["content"])


@dataclass
class SeenExchange:
    """A chat request: what the client got, and each request that went upstream for it."""

    reply: Reply
    sent: list[dict[str, Any]]

    @property
    def system(self) -> str:
        """The system message of the first outgoing request; empty if there is none."""
        return "\n".join(str(one["content"]) for one in self.sent[0]["messages"] if one["role"] == "system")

    @property
    def tools(self) -> list[str]:
        return [one["function"]["name"] for one in self.sent[0].get("tools", ())]

    @property
    def tool_results(self) -> list[str]:
        """What the gateway's tools said, as the last outgoing request has it."""
        return [str(one["content"]) for one in self.sent[-1]["messages"] if one["role"] == "tool"]

    def section(self, title: str) -> str:
        return read_section(self.system, title)


def read_section(block: str, title: str) -> str:
    """What stands below the marker of a section, without the marker; empty if it is not there."""
    found = re.search(rf"^--- {title} \[[0-9a-f]{{8}}\] ---\n(.*?)(?=^--- )", block, re.MULTILINE | re.DOTALL)
    return found[1].rstrip("\n") if found else ""


@dataclass
class Bench:
    """What checks use."""

    address: str
    endpoint: RecordingEndpoint
    directory: Path
    blind: bool = False  # ask for no context at all, to see which checks notice
    known: dict[str, Any] = field(default_factory=dict)  # what several checks share

    def call(self, method: str, path: str, body: Any = None, key: str = ADMIN, **headers: str) -> Reply:
        target = urlsplit(self.address)
        with closing(HTTPConnection(str(target.hostname), target.port, timeout=PATIENCE)) as connection:
            said = {"authorization": f"Bearer {key}", "content-type": "application/json"}
            said |= {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, None if body is None else json.dumps(body), said)
            response = connection.getresponse()
            raw = response.read()
            named = {name.lower(): value for name, value in response.getheaders()}
        is_json = named.get("content-type", "").partition(";")[0].endswith("json")
        return Reply(response.status, named, json.loads(raw) if raw and is_json else raw.decode())

    def manage(self, method: str, path: str, body: Any = None, **said: str) -> Any:
        """A call of the management API that succeeds."""
        reply = self.call(method, f"/api/v1{path}", body, **said)
        assert reply.status < 300, f"{method} {path}: {reply.status} {reply.body}"
        return reply.body

    def resolve(self, query: str | None = None, key: str = ADMIN, **context: Any) -> dict[str, Any]:
        """What a request would get."""
        body = {"context": self._shape(context), **({"query": query} if query else {})}
        return dict(self.manage("POST", "/resolve", body, key=key))

    def ask(
        self, question: str, *steps: Reaction, key: str = ADMIN, fields: dict[str, Any] | None = None, **context: Any
    ) -> SeenExchange:
        """One chat request that succeeds; `steps` are the model's turns."""
        seen = self.try_to_ask(question, *steps, key=key, fields=fields, **context)
        assert seen.reply.status == 200, f"{seen.reply.status} {seen.reply.body}"
        return seen

    def try_to_ask(
        self, question: str, *steps: Reaction, key: str = ADMIN, fields: dict[str, Any] | None = None, **context: Any
    ) -> SeenExchange:
        self.endpoint.script.extend(steps)
        before = len(self.endpoint.chats)
        body = {"model": "m-large", "messages": [{"role": "user", "content": question}], **(fields or {})}
        reply = self.call("POST", "/v1/chat/completions", body | {"context": self._shape(context)}, key)
        self.endpoint.script.clear()
        return SeenExchange(reply, self.endpoint.chats[before:])

    def read_receipt(self, seen: SeenExchange) -> dict[str, Any]:
        path = f"/receipts/{seen.reply.headers['x-context-receipt']}"
        self.wait_for(lambda: self.call("GET", f"/api/v1{path}").status == 200, "the receipt is stored")
        return dict(self.manage("GET", path))

    def wait_for(self, happened: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + PATIENCE
        while not (outcome := happened()):
            if time.monotonic() > end:
                raise TimeoutError(f"it did not happen in time: {what}")
            time.sleep(0.1)
        return outcome

    def change_store(self, statement: str, *values: object) -> None:
        """Turn back the clock of what is stored: nothing else can make a text old."""
        with closing(sqlite3.connect(self.directory / "data.db", timeout=30)) as connection, connection:
            connection.execute(statement, values)

    def _shape(self, context: dict[str, Any]) -> dict[str, Any]:
        return context | {"inject": "off"} if self.blind else context


@contextmanager
def open_bench(directory: Path, policies: dict[str, Any], blind: bool = False) -> Iterator[Bench]:
    """Start endpoint and gateway on free ports and stop them at the end."""
    (directory / "policies").mkdir(parents=True)
    with RecordingEndpoint() as endpoint:
        text = json.dumps(policies).replace("http://endpoint", endpoint.address)
        (directory / "policies" / "all.yaml").write_text(text)
        config = directory / "config.yaml"
        config.write_text(yaml.safe_dump(make_config(endpoint.address)))
        with running_workers(config, 1) as gateway:
            yield Bench(gateway.address, endpoint, directory, blind)


def make_config(endpoint: str) -> dict[str, Any]:
    return {
        "listen": {"port": 0},
        "policies": "policies",
        "store": "sqlite:///data.db",
        "upstreams": {"scripted": {"kind": "openai", "base_url": f"{endpoint}/v1", "api_key": "sk-rows"}},
        "routes": [{"model": "*", "upstream": "scripted"}],
        "defaults": {"model": "m-large"},
        "auth": {"keys": KEYS},
        "semantic": {"milliseconds": SLOW},
        "limits": {"collect_milliseconds": SLOW},
        "summaries": {"model": SUMMARY_MODEL, "tokens": 256},
        "tool_servers": {"files": run_server(env={"TOOLS": "echo read_file write_file weather"})},
        "links": {"allow": ["127.0.0.1"]},
        "receipts": {"text": True},
        "analytics": {"sample": 1.0},
        "log": {"exchanges": False},
    }
