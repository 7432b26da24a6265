"""A model endpoint on loopback that keeps every request, also those of retrievers and of an HTTP tool."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.support.upstream import Reaction, say

SUMMARY_MODEL = "m-summaries"
SUMMARY = "In short: every rule opens one door at dawn."
FOUND: dict[str, Any] = {
    "text": "Invoice 4711 was paid by Halden in March.",
    "title": "Ledger",
    "source": "ledger.pdf",
    "score": 0.9,
}


class RecordingEndpoint:
    """Listens while it is entered; answers chat requests with the next step of the script, or with a word."""

    def __init__(self) -> None:
        self.chats: list[dict[str, Any]] = []
        self.summaries: list[dict[str, Any]] = []
        self.searches: list[dict[str, Any]] = []
        self.script: deque[Reaction] = deque()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "RecordingEndpoint":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, request: dict[str, Any]) -> bytes:
        if path.startswith("/search"):
            self.searches.append(request)
            return json.dumps({"results": [FOUND]}).encode()
        if path.startswith("/weather"):
            return b'{"forecast": "rain"}'
        if request.get("model") == SUMMARY_MODEL:
            self.summaries.append(request)
            return read_answer(say(SUMMARY), request)
        self.chats.append(request)
        return read_answer(self.script.popleft() if self.script else say("Fine."), request)

    def _make_handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                self._send(endpoint.answer(self.path, json.loads(raw) if raw else {}))

            def do_GET(self) -> None:
                self._send(endpoint.answer(self.path, {}))

            def _send(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nobody reads it."""

        return Handler


def read_answer(step: Reaction, request: dict[str, Any]) -> bytes:
    """What a step of a script says, as one JSON document."""
    response = step.respond(request, 1)
    assert response is not None
    return b"".join(piece for piece in response.pieces if isinstance(piece, bytes))
