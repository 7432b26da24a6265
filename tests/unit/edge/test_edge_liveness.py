"""`/livez` is answered before the site is loaded, and only as it always was."""

from typing import Any

import pytest

from gateway.edge.liveness import LivenessApp


async def ask(method: str, path: str) -> tuple[list[dict[str, Any]], list[str]]:
    """What an app sends, and the paths that reach its site."""
    sent: list[dict[str, Any]] = []
    passed_on: list[str] = []

    async def site(scope: Any, receive: Any, send: Any) -> None:
        passed_on.append(scope["path"])

    async def receive() -> Any:
        raise AssertionError("there is nothing to read")

    async def send(message: Any) -> None:
        sent.append(message)

    await LivenessApp(site)({"type": "http", "method": method, "path": path}, receive, send)
    return sent, passed_on


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_gateway_is_alive_without_its_site(method: str) -> None:
    (start, body), passed_on = await ask(method, "/livez")
    assert start["status"] == 200
    assert dict(start["headers"]) == {b"content-type": b"application/json", b"content-length": b"18"}
    assert body["body"] == b'{"status":"alive"}'
    assert passed_on == []


@pytest.mark.parametrize(("method", "path"), [("POST", "/livez"), ("GET", "/readyz"), ("GET", "/livez/")])
async def test_everything_else_is_up_to_the_site(method: str, path: str) -> None:
    assert await ask(method, path) == ([], [path])
