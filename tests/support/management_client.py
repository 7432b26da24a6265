"""A caller of the management API over a socket."""

from typing import Any

import aiohttp
import orjson
from yarl import URL

from tests.support.gateway import Client, ClientReply, read


async def manage(client: Client, method: str, path: str, body: Any = None, **headers: str) -> ClientReply:
    """One request below `/api/v1`; the path is sent as it is written. Header names are written with `_` for `-`."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
    if raw is not None:
        named.setdefault("content-type", "application/json")
    url = URL(f"http://127.0.0.1:{client.port}/api/v1{path}", encoded=True)
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20)) as session,
        session.request(method, url, data=raw, headers=named) as response,
    ):
        return await read(response)
