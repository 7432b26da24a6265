"""Every request leaves a line in the log and a count in the metrics, refused ones as well, and none tells too much."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.contract_policies import ask
from tests.support.gateway import Client, Start
from tests.support.upstream import Upstream, hang_up, raw_events, reply, say, status

ROUTES = {"chat", "models", "passthrough", "management", "health", "metrics", "other"}


def configured(name: str, **said: Any) -> dict[str, Any]:
    return {"name": name, "sha256": sha256(name.encode()).hexdigest(), **said}


KEYS = [
    configured("site-key-secret"),
    configured("boss", role="admin"),
    configured("once", limits={"requests": 1}),
    configured("thrifty", limits={"tokens": 100}),
    configured("many", limits={"tokens": 100_000}),
]


class Logged:
    """A gateway whose log is read."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.written: list[bytes] = []
        client.app.log._write = self.written.append

    async def ask(self, path: str, key: str | None = None, method: str = "GET", body: Any = None) -> int:
        headers = [("authorization", f"Bearer {key}")] if key else []
        return (await ask(self.client, headers, b"" if body is None else orjson.dumps(body), path, method)).status

    def lines(self) -> list[dict[str, Any]]:
        async def flush() -> None:
            self.client.app.recorder.flush()

        self.client.thread.run(flush())
        return [orjson.loads(line) for line in b"".join(self.written).splitlines()]

    def line(self) -> dict[str, Any]:
        return self.lines()[-1]

    async def count(self, route: str, code: int) -> float:
        text = (await ask(self.client, path="/metrics", method="GET")).raw.decode()
        wanted = f'gateway_requests_total{{route="{route}",status="{code}"}} '
        return sum(float(line.removeprefix(wanted)) for line in text.splitlines() if line.startswith(wanted))


@pytest.fixture
def logged(start: Start) -> Logged:
    return Logged(start(auth={"keys": KEYS}, log={"exchanges": True}))


CHAT = {"model": "m-large", "messages": [{"role": "user", "content": "the words of a person"}]}
EMBED = {"model": "m-embed", "input": "the words of a person"}
SITE = "site-key-secret"


@pytest.mark.parametrize(
    ("asked", "route", "code", "error"),
    [
        (("/v1/chat/completions", None, "POST", CHAT), "chat", 401, "invalid_api_key"),
        (("/v1/chat/completions", "a-wrong-key", "POST", CHAT), "chat", 401, "invalid_api_key"),
        (("/v1//chat/completions", "a-wrong-key", "POST", CHAT), "chat", 401, "invalid_api_key"),
        (("/v1/chat/completions", SITE, "GET"), "chat", 405, "method_not_allowed"),
        (("/v1/models", SITE), "models", 200, None),
        (("/v1/models", None), "models", 401, "invalid_api_key"),
        (("/v1/models/secret-model", SITE), "models", 404, "model_not_found"),
        (("/v1/embeddings", "a-wrong-key", "POST", EMBED), "other", 401, "invalid_api_key"),
        (("/v1/secret-path", SITE, "POST", EMBED), "other", 404, "unknown_endpoint"),
        (("/secret-path", SITE), "other", 404, "unknown_endpoint"),
        (("/v1/conversations", SITE, "POST", EMBED), "other", 501, "not_implemented"),
        (("/api/v1/keys", SITE), "management", 403, None),
        (("/api/v1/keys", None), "management", 401, "invalid_api_key"),
        (("/api/v1/keys", "boss"), "management", 200, None),
        (("/v1/embeddings", SITE, "POST", {"model": 5}), "passthrough", 400, "invalid_request"),
    ],
)
async def test_a_request_leaves_a_line_and_a_count(
    logged: Logged, upstream: Upstream, asked: tuple[Any, ...], route: str, code: int, error: str | None
) -> None:
    assert await logged.ask(*asked) == code
    line = logged.line()
    assert (line["event"], line["route"], line["http_status"]) == ("request", route, code)
    assert error is None or line["code"] == error
    assert (line["key"] is None) == (code in (401, 405))
    assert await logged.count(route, code) == 1
    assert "secret" not in orjson.dumps({name: value for name, value in line.items() if name != "principal"}).decode()


@pytest.mark.parametrize(
    ("sent", "code"),
    [(b"nonsense\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nhost: a\r\nx-long: " + b"x" * 70_000 + b"\r\n\r\n", 431)],
)
async def test_what_is_no_proper_request_leaves_a_line_and_a_count(
    logged: Logged, upstream: Upstream, sent: bytes, code: int
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", logged.client.port)
    writer.write(sent)
    assert (await reader.readline()).split()[1] == b"%d" % code
    writer.close()
    line = logged.line()
    assert (line["route"], line["http_status"]) == ("other", code)
    assert await logged.count("other", code) == 1


async def test_what_is_passed_through_leaves_a_line_and_a_count(logged: Logged, upstream: Upstream) -> None:
    upstream.will(say("Done."), status(500), hang_up())
    for code in (200, 500, 502):
        assert await logged.ask("/v1/embeddings", SITE, "POST", EMBED) == code
        line = logged.line()
        assert (line["route"], line["http_status"], line["model"]) == ("passthrough", code, "m-embed")
        assert (line["principal"], line["upstream"]) == (SITE, "scripted" if code != 502 else None)
        assert await logged.count("passthrough", code) == 1
    assert "words" not in str(logged.lines())


async def test_a_chat_leaves_one_line_and_one_count_however_its_path_is_written(
    logged: Logged, upstream: Upstream
) -> None:
    upstream.will(say("Done."), say("Done."))
    for path in ("/v1/chat/completions", "/v1//chat/completions"):
        assert await logged.ask(path, SITE, "POST", CHAT) == 200
    assert [line["event"] for line in logged.lines()] == ["exchange", "exchange"]
    assert await logged.count("chat", 200) == 2
    assert "words" not in str(logged.lines())


async def test_refusals_of_a_limit_are_logged_and_counted(logged: Logged, upstream: Upstream) -> None:
    upstream.will(say("Done."))
    assert await logged.ask("/v1/chat/completions", "once", "POST", CHAT) == 200
    assert await logged.ask("/v1/chat/completions", "once", "POST", CHAT) == 429
    assert (logged.line()["http_status"], await logged.count("chat", 429)) == (429, 1)
    assert await logged.ask("/v1/embeddings", "once", "POST", EMBED) == 429
    assert (logged.line()["code"], await logged.count("other", 429)) == ("rate_limited", 1)


async def test_health_and_metrics_are_counted_but_not_logged(logged: Logged, upstream: Upstream) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        assert await logged.ask(path) == 200
    assert logged.lines() == []
    assert await logged.count("health", 200) == 2


async def test_no_path_or_name_of_a_client_becomes_a_label(logged: Logged, upstream: Upstream) -> None:
    for number in range(20):
        await logged.ask(f"/v1/made-up-{number}", SITE)
        await logged.ask(f"/made-up-{number}", None)
        await logged.ask(f"/api/v1/made-up-{number}", "boss")
        await logged.ask(f"/v1/models/made-up-{number}", SITE)
    text = (await ask(logged.client, path="/metrics", method="GET")).raw.decode()
    routes = {part.split('"')[1] for part in text.split("route=")[1:]}
    assert routes <= ROUTES
    assert "made-up" not in text + str(logged.lines())


async def test_values_that_clients_choose_are_cut(logged: Logged, upstream: Upstream) -> None:
    long = "m" * 1_000_000
    usage = {"total_tokens": 3, "details": {f"key-{n}": n for n in range(10_000)}}
    upstream.will(say("Done.").but(usage=usage), say("Done."))
    assert await logged.ask("/v1/chat/completions", SITE, "POST", CHAT | {"model": long}) == 200
    assert await logged.ask("/v1/embeddings", SITE, "POST", EMBED | {"model": long}) == 200
    await logged.ask("/v1/chat/completions", SITE, "POST", CHAT | {"context": {"agent": long}})
    lines = logged.lines()
    assert len(lines) == 3
    assert all(len(orjson.dumps(line)) < 3000 for line in lines)
    assert lines[0]["model"].startswith("mmm")


@pytest.mark.parametrize("receipts", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_line_tells_the_usage_of_a_relayed_reply(
    start: Start, upstream: Upstream, stream: bool, receipts: bool
) -> None:
    logged = Logged(start(auth={"keys": KEYS}, log={"exchanges": True}, receipts={"enabled": receipts}))
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    upstream.will(say("Done.").but(usage=usage))
    asked = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    assert await logged.ask("/v1/chat/completions", SITE, "POST", CHAT | asked) == 200
    assert logged.line()["usage"] == usage


@pytest.mark.parametrize(("key", "statuses"), [("thrifty", [200, 200, 429, 429]), ("many", [200] * 4)])
async def test_the_tokens_of_what_is_passed_through_count(
    logged: Logged, upstream: Upstream, key: str, statuses: list[int]
) -> None:
    answer = reply(b'{"data": [], "usage": {"prompt_tokens": 50, "total_tokens": 50}}')
    upstream.will(*[answer] * statuses.count(200))
    assert [await logged.ask("/v1/embeddings", key, "POST", EMBED) for _ in range(3)] == statuses[:3]
    if statuses[3] == 200:
        upstream.reset()
        upstream.will(say("Done."))
    assert await logged.ask("/v1/chat/completions", key, "POST", CHAT) == statuses[3], "both count together"
    charged = [line["charged"] for line in logged.lines() if line.get("route") == "passthrough"]
    assert charged == [50] * len(charged)


async def test_what_is_passed_through_without_usage_is_not_free(logged: Logged, upstream: Upstream) -> None:
    streamed = raw_events([{"text": "word"}] * 50)
    upstream.will(reply(b'{"data": "' + b"x" * 200 + b'"}'), streamed)
    assert await logged.ask("/v1/completions", "thrifty", "POST", {"model": "m", "prompt": "x"}) == 200
    assert await logged.ask("/v1/completions", "thrifty", "POST", {"model": "m", "prompt": "x", "stream": True}) == 200
    assert await logged.ask("/v1/completions", "thrifty", "POST", {"model": "m", "prompt": "x"}) == 429
    first, second = (line["charged"] for line in logged.lines()[:2])
    assert (first >= 50, second >= 200) == (True, True)


async def test_readiness_is_explained_to_admins_alone(start: Start, upstream: Upstream) -> None:
    gateway = start(auth={"keys": KEYS})
    (Path(gateway.app.settings.policies) / "faulty.yaml").write_text("a_detail: 1")
    gateway.thread.run(gateway.app.reload())
    for headers in ([], [("authorization", "Bearer wrong")], [("authorization", f"Bearer {SITE}")]):
        answer = await ask(gateway, headers, path="/readyz", method="GET")
        assert (answer.status, answer.json) == (200, {"status": "ready", "not_ready": ["policies"]})
    answer = await ask(gateway, [("authorization", "Bearer boss")], path="/readyz", method="GET")
    assert "a_detail" in answer.json["policies"]["error"]
