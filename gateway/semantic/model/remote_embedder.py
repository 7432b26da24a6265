"""Embeds through an OpenAI-compatible endpoint."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

import aiohttp
import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.semantic.model.embedder import EmbedderUnavailable, SearchTimeout
from gateway.semantic.model.onnx_model import normalise_vectors

BACKGROUND_SECONDS = 60.0
BATCH = 64  # texts per call of background work
CONNECTIONS = 8
MAX_REPLY = 64 * 1024 * 1024


class EmbeddingEndpoint(msgspec.Struct, frozen=True):
    """Where and what to ask; its id contains no secret."""

    base_url: str
    model: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"EmbeddingEndpoint({self.base_url!r}, {self.model!r})"  # headers hold keys

    @property
    def id(self) -> str:
        return hashlib.sha256(f"openai {self.base_url.rstrip('/')} {self.model}".encode()).hexdigest()


class _EmbeddingRow(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingReply(msgspec.Struct):
    data: list[_EmbeddingRow]


class RemoteEmbedder:
    """An Embedder over HTTP; the connection is made on first use."""

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        self._endpoint = endpoint
        self._session: aiohttp.ClientSession | None = None

    @property
    def id(self) -> str:
        return self._endpoint.id

    def normalise(self, text: str) -> str:
        return text  # nothing is known of the model

    async def embed(
        self, texts: Sequence[str], within: float | None = None, workspace: str = ""
    ) -> NDArray[np.float32]:
        batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        try:
            async with asyncio.timeout(within):
                return np.concatenate([await self._request_vectors(batch) for batch in batches])
        except TimeoutError:
            raise SearchTimeout("The embeddings endpoint did not answer in time.") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EmbedderUnavailable(f"The embeddings endpoint cannot be reached: {error}.") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _request_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        session = self._session = self._session or _open_session(self._endpoint)
        body = {"model": self._endpoint.model, "input": list(texts), "encoding_format": "float"}
        url = f"{self._endpoint.base_url.rstrip('/')}/embeddings"
        async with session.post(url, data=msgspec.json.encode(body), allow_redirects=False) as reply:
            if reply.status != 200:
                raise EmbedderUnavailable(f"The embeddings endpoint answered with status {reply.status}.")
            return _decode_vectors(await _read_body(reply), len(texts))


def _open_session(endpoint: EmbeddingEndpoint) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS),
        timeout=aiohttp.ClientTimeout(total=BACKGROUND_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"content-type": "application/json", **endpoint.headers},
    )


async def _read_body(reply: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in reply.content.iter_any():
        body += piece
        if len(body) > MAX_REPLY:
            raise EmbedderUnavailable(f"The embeddings endpoint answered with more than {MAX_REPLY} bytes.")
    return bytes(body)


def _decode_vectors(body: bytes, count: int) -> NDArray[np.float32]:
    """The rows of a reply in the order of the texts; raises EmbedderUnavailable for anything else."""
    try:
        rows = sorted(msgspec.json.decode(body, type=_EmbeddingReply).data, key=lambda row: row.index)
        vectors = np.array([row.embedding for row in rows], np.float32)
    except ValueError as error:  # invalid JSON, or rows of different lengths
        raise EmbedderUnavailable(f"The embeddings endpoint answered with an invalid body: {error}.") from error
    if [row.index for row in rows] != list(range(count)) or vectors.ndim != 2:
        raise EmbedderUnavailable(f"The embeddings endpoint did not return one vector for each of {count} texts.")
    return normalise_vectors(vectors)
