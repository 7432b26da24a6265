"""A small web server on loopback whose pages a test can change, and which counts who asks."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Pages:
    """Pages by path; a status in place of a text is answered as such."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.texts: dict[str, str | int] = {}
        self.asked: list[str] = []

    def __setitem__(self, path: str, text: str | int) -> None:
        self.texts[path] = text


@contextmanager
def serving_pages() -> Iterator[Pages]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages.asked.append(self.path)
            page = pages.texts.get(self.path, 404)
            content = page.encode() if isinstance(page, str) else b"no"
            self.send_response(200 if isinstance(page, str) else page)
            self.send_header("content-type", "text/plain; charset=utf-8")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        pages = Pages(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield pages
        finally:
            server.shutdown()
            thread.join(10)
