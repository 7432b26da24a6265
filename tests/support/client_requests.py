"""The client's side of an exchange without a socket."""

from collections.abc import Sequence

from gateway.edge.paths import CHAT, DirectTarget
from gateway.edge.request import HeaderLines, RequestHead, body_too_large, check_body_headers


class ListWriter:
    """A client that takes everything that it is sent; `pieces` has it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    @property
    def data(self) -> bytes:
        return b"".join(self.pieces)

    def write(self, data: bytes) -> bool:
        if data:
            self.pieces.append(data)
        return True

    async def drain(self) -> None:
        raise AssertionError("there is always room")

    def end(self, data: bytes) -> None:
        self.write(data)


class MemoryRequest(ListWriter):
    """A request that is all there, and the response to it."""

    def __init__(self, headers: Sequence[tuple[bytes, bytes]], body: bytes, method: str = "POST") -> None:
        super().__init__()
        self.method, self.headers, self.target = method, headers, DirectTarget(CHAT)
        self.head: RequestHead | None = None
        self._body = body
        self.status = 0
        self.response_headers: dict[bytes, bytes] = {}
        self.finished = False

    async def read_body(self, head: RequestHead, max_bytes: int) -> bytes:
        check_body_headers(head, max_bytes)
        if len(self._body) > max_bytes:
            raise body_too_large(max_bytes)
        return self._body

    async def respond(self, status: int, headers: HeaderLines, body: bytes) -> None:
        self.start_stream(status, headers)
        self.end(body)

    def start_stream(self, status: int, headers: HeaderLines) -> None:
        assert not self.status, "a response begins once"
        self.status, self.response_headers = status, dict(headers)

    def end(self, data: bytes) -> None:
        if not self.finished:
            super().end(data)
            self.finished = True
