"""The HTTP side of MCP: only addresses that the guard admits, no cookies, no compression, bounded bodies."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import aiohttp
import httpx2

from gateway.links.fetch import PinnedResolver
from gateway.links.guard import LinkGuard, LinkRefused
from gateway.tools.long_messages import LineLimiter

CHUNK_BYTES = 64 * 1024
DROPPED = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})
MAX_ERROR = 64 * 1024  # bytes of a reply that is no success
# Messages are parsed on the event loop, which all workspaces share: a server that never stops talking is slowed down.
BURST, PER_SECOND = 200.0, 50.0  # messages of one reply at once, and then
LINE_COST, BYTES_PER_MESSAGE = 0.05, 40_000  # what any line counts as; a long message counts as several


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one connection; `report_failure` hears of everything that breaks."""

    def __init__(self, guard: LinkGuard | None, connect_seconds: float, report_failure: Callable[[], None]) -> None:
        self._guard = guard  # None: the operator named the address
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
        self._report_failure = report_failure

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        session = await self._open_session(str(request.url))
        headers = {name: value for name, value in request.headers.items() if name.lower() not in DROPPED}
        headers["Accept-Encoding"] = "identity"
        try:
            response = await session.request(
                request.method,
                str(request.url),
                data=await request.aread(),
                headers=headers,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            await session.close()
            self._report_failure()
            raise httpx2.ConnectError(f"the server cannot be reached ({type(error).__name__})") from error
        except BaseException:
            await session.close()
            raise
        stream = BoundedStream(session, response, self._report_failure)
        kept = [(name, value) for name, value in response.headers.items() if name.lower() not in DROPPED]
        return httpx2.Response(response.status, headers=kept, stream=stream, request=request)

    async def _open_session(self, url: str) -> aiohttp.ClientSession:
        connector = None
        if self._guard is not None:
            try:
                link = await self._guard.admit(url)
            except LinkRefused as error:
                raise httpx2.ConnectError(str(error)) from error
            resolver = PinnedResolver(link.addresses)
            connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            timeout=self._timeout,
        )


class MessagePace:
    """Makes whoever reads messages wait where there are too many of them."""

    def __init__(self) -> None:
        self._left, self._at = BURST, time.monotonic()

    async def wait(self, line: bytes) -> None:
        """Return when the next line may be read."""
        self._left -= LINE_COST + len(line) / BYTES_PER_MESSAGE + line.startswith(b"data:")
        if self._left < 0:
            now = time.monotonic()
            self._left, self._at = min(BURST, self._left + (now - self._at) * PER_SECOND), now
            if self._left < 0:
                await asyncio.sleep(-self._left / PER_SECOND)


class BoundedStream(httpx2.AsyncByteStream):
    """A reply's body: messages that are too long are shortened, in a stream of events and in a document alike."""

    def __init__(
        self, session: aiohttp.ClientSession, response: aiohttp.ClientResponse, report_failure: Callable[[], None]
    ) -> None:
        self._session, self._response, self._report_failure = session, response, report_failure

    async def __aiter__(self) -> AsyncIterator[bytes]:
        response = self._response
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            raise httpx2.ReadError("the server sent a compressed body, which was not requested")
        try:
            if response.status >= 300:
                yield await response.content.read(MAX_ERROR)
                return
            limiter, pace = LineLimiter(), MessagePace()
            streams = response.headers.get("Content-Type", "").lower().startswith("text/event-stream")
            async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                # A document counts as one line, whatever white space it has.
                for line in limiter.feed(chunk if streams else chunk.replace(b"\n", b" ")):
                    yield line + b"\n"
                    await pace.wait(line)
            yield limiter.finish()
        except (aiohttp.ClientError, OSError) as error:
            self._report_failure()
            raise httpx2.ReadError(f"the connection broke ({type(error).__name__})") from error

    async def aclose(self) -> None:
        self._response.close()
        await self._session.close()
