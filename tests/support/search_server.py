"""A search endpoint on loopback that answers as a test says, and may mean no good."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

REFUNDS = {"title": "Refunds", "source": "handbook/refunds.md", "text": "Refunds take five days.", "score": 0.9}
RETURNS = {"title": "Returns", "source": "handbook/returns.md", "text": "Returns are free.", "score": 0.4}


@dataclass
class SearchCall:
    """What the endpoint was asked."""

    method: str
    path: str
    headers: dict[str, str]
    asked: Any  # the body, or the query of a GET


@dataclass
class SearchServer:
    """Answers every search in the same way until a test says otherwise."""

    address: str
    answer: Any = field(default_factory=lambda: {"results": [REFUNDS, RETURNS]})
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # in place of `answer`
    write: Callable[[Any], None] | None = None  # in place of both, to the open connection
    delay: float = 0.0
    calls: list[SearchCall] = field(default_factory=list)

    def reset(self) -> None:
        fresh = SearchServer(self.address)
        self.__dict__.update(fresh.__dict__)


@contextmanager
def serving_searches() -> Iterator[SearchServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer_search(dict(parse_qsl(urlsplit(self.path).query)))

        def do_POST(self) -> None:
            self.answer_search(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def answer_search(self, asked: Any) -> None:
            said = {name.lower(): value for name, value in self.headers.items()}
            served.calls.append(SearchCall(self.command, self.path, said, asked))
            time.sleep(served.delay)
            with contextlib.suppress(OSError):  # the gateway has left
                self.send_answer()

        def send_answer(self) -> None:
            if served.write is not None:
                served.write(self.wfile)
                return
            body = json.dumps(served.answer).encode() if served.body is None else served.body
            self.send_response(served.status)
            for name, value in {"content-type": "application/json", **served.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        served = SearchServer(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join(10)
