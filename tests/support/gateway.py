"""A real gateway in a thread of its own, and a small client that speaks to it over a socket."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import orjson
import uvloop

from gateway.app import Gateway
from gateway.conversation.conversation import DEFAULT_TIMINGS
from gateway.edge.server import build_server
from gateway.settings import Settings
from tests.support.anthropic_upstream import respond_with_message
from tests.support.prompt_server import PromptServer
from tests.support.responses_answers import respond_with_response
from tests.support.upstream import Upstream, wait_for
from tests.support.yaml_texts import to_yaml

REST_SECONDS = 8.0  # a process that does not obey is ended after less

T = TypeVar("T")

LONG_TEXT = "".join(f"Rule {number}: é. " for number in range(2000))  # several pages, with two-byte characters

POLICIES: dict[str, Any] = {
    "contexts": {
        "house": {
            "name": "House rules",
            "resources": {
                "voice": {"type": "text", "name": "Voice", "data": {"content": "Write plainly."}},
                "style": {
                    "type": "text",
                    "name": "House style",
                    "mode": "on_demand",
                    "description": "Punctuation and spelling",
                    "data": {"content": "Use the serial comma."},
                },
                "names": {
                    "type": "text",
                    "name": "Product names",
                    "mode": "on_demand",
                    "description": "How products are written",
                    "data": {"content": "Write Lumo, never LUMO."},
                },
                "handbook": {
                    "type": "text",
                    "name": "Handbook",
                    "mode": "on_demand",
                    "description": "Everything at length",
                    "data": {"content": LONG_TEXT},
                },
            },
        },
        "plain": {
            "name": "No references",
            "resources": {"tone": {"type": "text", "name": "Tone", "data": {"content": "Be kind."}}},
        },
    },
    "agents": {
        "editor": {"contexts": ["house"]},
        "hasty": {"contexts": ["house"], "max_turns": 2},
        "hurried": {"contexts": ["house"], "max_turns": 1},
        "greeter": {"contexts": ["plain"]},
        "bare": {"inject": False},
    },
}
STYLE = "house/style"
STYLE_RESULT = "[House style]\nUse the serial comma."
NAMES = "house/names"
NAMES_RESULT = "[Product names]\nWrite Lumo, never LUMO."
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
BRIEF = {"drain_seconds": 1}
# On a busy machine a fifth of a second is too little for collectors, although there is nothing that they wait for.
PATIENT = {**BRIEF, "collect_milliseconds": 5000}


class Thread:
    """An event loop in a thread of its own, so that blocking clients can be tested too."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="gateway", daemon=True)
        self._thread.start()

    def run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(30)

    def stop(self) -> None:
        try:
            self.run(self._await_rest())
            self.run(self.loop.shutdown_asyncgens())
            self.run(self.loop.shutdown_default_executor())
        finally:  # also if a thread of the executor takes too long: nothing may keep the process of the tests alive
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        assert not self._thread.is_alive()
        self.loop.close()

    async def _await_rest(self) -> None:
        """Let what gateways have left behind end, such as the process of a tool server, before the loop is closed."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            await asyncio.wait(left, timeout=REST_SECONDS)


@dataclass
class ClientReply:
    """What a client got."""

    status: int
    headers: dict[str, str]
    raw: bytes
    broken: bool = False  # the connection broke before the reply was over

    @property
    def streamed(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def json(self) -> dict[str, Any]:
        return dict(orjson.loads(self.raw))

    @cached_property
    def payloads(self) -> list[bytes]:
        """The data of every event, `[DONE]` too."""
        events = self.raw.replace(b"\r\n", b"\n").split(b"\n\n")
        return [event[5:].strip() for event in events if event.startswith(b"data:")]

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The events of a stream, parsed, without `[DONE]`."""
        return [orjson.loads(data) for data in self.payloads if data != b"[DONE]"]

    @property
    def comments(self) -> int:
        return sum(line.startswith(b":") for line in self.raw.split(b"\n"))

    @property
    def done(self) -> bool:
        return self.payloads[-1:] == [b"[DONE]"]

    @property
    def errors(self) -> list[dict[str, Any]]:
        found = [self.json] if not self.streamed else self.events
        return [one["error"] for one in found if "error" in one]

    @property
    def error(self) -> dict[str, Any]:
        (error,) = self.errors
        return error

    @property
    def deltas(self) -> list[dict[str, Any]]:
        return [choice["delta"] for event in self.events for choice in event.get("choices", ())]

    @property
    def message(self) -> dict[str, Any]:
        """The assistant's message, put together as a client would do it."""
        if not self.streamed:
            return dict(self.json["choices"][0]["message"])
        message: dict[str, Any] = {}
        calls: dict[int, dict[str, Any]] = {}
        for delta in self.deltas:
            for name, value in delta.items():
                if name == "tool_calls":
                    for part in value:
                        add_call(calls, part)
                elif isinstance(value, str) and name != "role":
                    message[name] = message.get(name, "") + value
                elif value is not None:
                    message[name] = value
        if calls:
            assert list(calls) == list(range(len(calls))), "calls are numbered from 0 without gaps"
            message["tool_calls"] = list(calls.values())
        return message

    @property
    def text(self) -> str:
        return self.message.get("content") or ""

    @property
    def tool_calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and parsed arguments of every call that the client sees."""
        calls = (call["function"] for call in self.message.get("tool_calls") or ())
        return [(function["name"], orjson.loads(function["arguments"])) for function in calls]

    @property
    def finish_reasons(self) -> list[str]:
        found = self.events if self.streamed else [self.json]
        choices = (choice for one in found for choice in one.get("choices", ()))
        return [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]

    @property
    def finish_reason(self) -> str:
        (reason,) = self.finish_reasons
        return reason

    @property
    def usage(self) -> dict[str, Any] | None:
        found = [event["usage"] for event in self.events if event.get("usage")] if self.streamed else []
        assert len(found) <= 1, "usage is told once"
        return found[0] if found else None if self.streamed else self.json.get("usage")


def add_call(calls: dict[int, dict[str, Any]], part: dict[str, Any]) -> None:
    call = calls.setdefault(part["index"], {"function": {"name": "", "arguments": ""}})
    call |= {name: value for name, value in part.items() if name not in ("index", "function")}
    for name, text in (part.get("function") or {}).items():
        call["function"][name] = call["function"].get(name, "") + text


class Client:
    """Speaks to one gateway; `app` is the object behind it, for tests that look inside."""

    def __init__(self, thread: Thread, app: Gateway, port: int) -> None:
        self.thread, self.app, self.port = thread, app, port

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def chat(self, asked: str | list[dict[str, Any]] = "Tidy this", **said: Any) -> ClientReply:
        """One chat request. `agent`, `session` and `key` become headers, everything else goes into the body."""
        async with self.asking(asked, **said) as response:
            return await read(response)

    async def post(self, body: bytes, path: str = "/chat/completions", **headers: str) -> ClientReply:
        """Any bytes; header names are written with `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session,
            session.post(
                self.base_url + path, data=body, headers={"content-type": "application/json", **named}
            ) as response,
        ):
            return await read(response)

    async def get(self, path: str, **headers: str) -> ClientReply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with aiohttp.ClientSession() as session, session.get(self.base_url + path, headers=named) as response:
            return await read(response)

    @asynccontextmanager
    async def asking(
        self, asked: str | list[dict[str, Any]] = "Tidy this", **said: Any
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """The response while it is still coming."""
        headers = {f"x-context-{name}": quote(said.pop(name)) for name in ("agent", "session") if said.get(name)}
        if key := said.pop("key", None):
            headers["authorization"] = f"Bearer {key}"
        messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
        body = {"model": "m-large", "messages": messages, **said}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session,
            session.post(self.base_url + "/chat/completions", json=body, headers=headers) as response,
        ):
            yield response


async def read(response: aiohttp.ClientResponse) -> ClientReply:
    raw, broken = b"", False
    try:
        async for piece in response.content.iter_any():
            raw += piece
    except aiohttp.ClientError:
        broken = True
    headers = {name.lower(): value for name, value in response.headers.items()}
    return ClientReply(response.status, headers, raw, broken)


@contextmanager
def running_upstream(thread: Thread) -> Iterator[Upstream]:
    upstream = Upstream()
    upstream.dialects["/responses"] = respond_with_response
    upstream.dialects["/messages"] = respond_with_message
    thread.run(upstream.start())
    try:
        yield upstream
    finally:
        thread.run(upstream.stop())


@contextmanager
def running_gateway(
    thread: Thread, directory: Path, base_url: str, policies: dict[str, Any] = POLICIES, **changes: Any
) -> Iterator[Client]:
    """A gateway in front of one upstream; `upstream_settings`, `timings` and any other setting may be given."""
    policy_directory = directory / "policies"
    policy_directory.mkdir(parents=True, exist_ok=True)
    (policy_directory / "all.yaml").write_text(to_yaml(policies))
    scripted = {"kind": "openai", "base_url": base_url, "api_key": "sk-upstream", "retries": 0}
    scripted |= changes.pop("upstream_settings", {})
    timings = changes.pop("timings", DEFAULT_TIMINGS)
    data = {
        "policies": str(policy_directory),
        "store": "memory:",
        "secret": "a secret of the tests",
        "upstreams": {"scripted": scripted},
        "semantic": {"enabled": False},  # loading a model for every gateway would take most of the tests' time
        "routes": [{"model": "*", "upstream": "scripted"}],
        "defaults": {"model": "m-large"},
        "limits": dict(PATIENT if "store" not in changes else BRIEF),
        "log": {"exchanges": False},
        **changes,
    }
    settings = Settings.model_validate(data)
    app = thread.run(Gateway.open(settings, timings))
    try:
        with serve_app(thread, app, settings) as port:
            yield Client(thread, app, port)
    finally:
        thread.run(app.close())


@contextmanager
def serve_app(thread: Thread, app: Gateway, settings: Settings) -> Iterator[int]:
    plug = socket.create_server(("127.0.0.1", 0))
    server = PromptServer(build_server(app.build_app(draining=lambda: False), settings).config)
    running = asyncio.run_coroutine_threadsafe(server.serve([plug]), thread.loop)
    try:
        wait_for(lambda: server.started or running.done())
        yield plug.getsockname()[1]
    finally:
        server.stop()
        running.result(30)
        plug.close()


@contextmanager
def follow_store(client: Client) -> Iterator[Client]:
    """A node that looks at the store as a running one does."""
    task = asyncio.run_coroutine_threadsafe(client.app.policies.follow(), client.thread.loop)
    try:
        yield client
    finally:
        task.cancel()


Start = Callable[..., Client]
