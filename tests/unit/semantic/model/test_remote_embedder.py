"""Embedding over HTTP, against a server of our own."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import numpy as np
import pytest
from aiohttp import web

from gateway.semantic.model.embedder import EmbedderUnavailable, SearchTimeout
from gateway.semantic.model.remote_embedder import BATCH, EmbeddingEndpoint, RemoteEmbedder

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[RemoteEmbedder]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    closing: list[Callable[[], Awaitable[None]]] = []

    async def started(handler: Handler) -> RemoteEmbedder:
        app = web.Application()
        app.router.add_post("/v1/embeddings", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        embedder = RemoteEmbedder(EmbeddingEndpoint(f"http://127.0.0.1:{port}/v1/", "m", {"authorization": "Bearer k"}))
        closing.extend([embedder.close, runner.cleanup])
        return embedder

    yield started
    for close in closing:
        await close()


async def answer(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    assert body["model"] == "m"
    assert request.headers["authorization"] == "Bearer k"
    rows = [{"index": n, "embedding": [len(text), 1, 0]} for n, text in enumerate(body["input"])]
    return web.json_response({"object": "list", "data": rows[::-1], "usage": {"total_tokens": 1}})


async def test_rows_come_in_the_order_of_the_texts_and_at_length_one(serve: Serve) -> None:
    embedder = await serve(answer)
    vectors = await embedder.embed(["a", "aaaa"], within=5)
    assert np.allclose(vectors, [[0.70710678, 0.70710678, 0], [0.9701425, 0.24253563, 0]])


async def test_many_texts_go_in_several_calls(serve: Serve) -> None:
    sizes = []

    async def counted(request: web.Request) -> web.StreamResponse:
        sizes.append(len((await request.json())["input"]))
        return await answer(request)

    embedder = await serve(counted)
    assert len(await embedder.embed(["x"] * (BATCH + 1))) == BATCH + 1
    assert sizes == [BATCH, 1]


async def test_a_slow_endpoint_is_late(serve: Serve) -> None:
    async def slow(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(5)
        raise AssertionError

    embedder = await serve(slow)
    with pytest.raises(SearchTimeout):
        await embedder.embed(["x"], within=0.05)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"{}",
        b'{"data": []}',
        b'{"data": [{"index": 1, "embedding": [1]}]}',
        b'{"data": [{"index": 0, "embedding": []}]}',
        b'{"data": [{"index": 0, "embedding": [0, 0]}]}',
        b'{"data": [{"index": 0, "embedding": ["NaN"]}]}',
        b'{"data": [{"index": 0, "embedding": [1e999]}]}',
        b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}',
    ],
)
async def test_anything_but_one_vector_per_text_is_refused(serve: Serve, body: bytes) -> None:
    async def odd(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    embedder = await serve(odd)
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed(["x"], within=5)


@pytest.mark.parametrize("status", [302, 401, 429, 500])
async def test_any_other_status_means_unavailable(serve: Serve, status: int) -> None:
    async def refusing(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=json.dumps({"error": "secret"}), headers={"location": "/v1/embeddings"})

    embedder = await serve(refusing)
    with pytest.raises(EmbedderUnavailable, match=str(status)):
        await embedder.embed(["x"], within=5)


async def test_nobody_listening_means_unavailable() -> None:
    embedder = RemoteEmbedder(EmbeddingEndpoint("http://127.0.0.1:9", "m"))
    with pytest.raises(EmbedderUnavailable, match="reached"):
        await embedder.embed(["x"], within=5)
    await embedder.close()


def test_the_id_names_endpoint_and_model_and_no_secret() -> None:
    ids = {
        EmbeddingEndpoint("http://a/v1", "m").id,
        EmbeddingEndpoint("http://b/v1", "m").id,
        EmbeddingEndpoint("http://a/v1", "n").id,
    }
    assert len(ids) == 3
    assert EmbeddingEndpoint("http://a/v1/", "m", {"authorization": "k"}).id == EmbeddingEndpoint("http://a/v1", "m").id
    assert "secret" not in repr(EmbeddingEndpoint("http://a", "m", {"authorization": "secret"}))
