"""Sends a search over HTTP: no cookies, no proxies, no compression, no redirects, and a bounded answer."""

import aiohttp
from yarl import URL

from gateway.links.fetch import open_session
from gateway.links.guard import LinkGuard, LinkRefused
from gateway.retrievers.answers import RetrieverError
from gateway.retrievers.http_retriever import SearchRequest

CHUNK_BYTES = 64 * 1024


async def fetch_answer(request: SearchRequest, guard: LinkGuard | None, max_bytes: int) -> bytes:
    """The body of a successful answer; raises RetrieverError. Whoever calls sets the time."""
    try:
        link = await guard.admit(request.url) if guard is not None else None
    except LinkRefused as fault:
        raise RetrieverError(f"the endpoint may not be asked: {fault}") from fault
    url = link.url if link is not None else URL(request.url)
    try:
        async with (
            open_session(link.addresses if link is not None else None) as session,
            session.request(
                request.method,
                url.update_query(request.query) if request.query else url,
                data=request.body,
                headers=request.headers,
                allow_redirects=False,
            ) as response,
        ):
            return await read_answer(response, max_bytes)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise RetrieverError(f"the endpoint cannot be reached ({type(error).__name__})") from error


async def read_answer(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    if 300 <= response.status < 400:
        raise RetrieverError(f"the endpoint redirects elsewhere (HTTP {response.status}), which is not followed")
    if response.status != 200:
        raise RetrieverError(f"the endpoint answered HTTP {response.status}")
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise RetrieverError("the endpoint sent a compressed body, which was not requested")
    body = bytearray()
    async for chunk in response.content.iter_chunked(CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            raise RetrieverError(f"the answer has more than {max_bytes} bytes")
    return bytes(body)
