"""Embedding through the gateway's embedder beside the same ONNX session run bare; prints figures as JSON.

Runs in a process of its own with one thread per session; the model is the one that the gateway would load.
"""

import statistics
import sys
import time

import numpy as np
import uvloop

from gateway.semantic.model.files import locate_model
from gateway.semantic.model.onnx_embedder import OnnxEmbedder
from gateway.semantic.model.onnx_model import OnnxModel
from gateway.semantic.search.query_cache import QueryCache
from scripts.benchmark.semantic_figures import Figure, print_figures, time_ms

WORDS = "how do I change the address of an order that has not been sent to the customer yet when she asks for it "
# MEASURED §3, the fused int8 form: milliseconds on another machine, for orientation only.
SIZES = {"query of 10 tokens": (10, 2.8), "query of 30 tokens": (30, 6.5), "query of 100 tokens": (100, 20.5)}
PASSAGE = "passage of 500 characters"
RATIO, CACHED_MS = 1.15, 0.1


def make_text(model: OnnxModel, tokens: int) -> str:
    """Words that make as many tokens as are wanted, with the two that every text gets."""
    words = WORDS.split() * (tokens // 10 + 1)
    count = next(n for n in range(1, len(words)) if len(model._tokenizer.encode(" ".join(words[:n])).ids) >= tokens)
    return " ".join(words[:count])


def build_feed(model: OnnxModel, text: str) -> dict[str, np.ndarray]:
    """What the session is fed for a text, made beforehand: nothing but the session's run is measured."""
    ids = np.array([model._tokenizer.encode(text).ids], np.int64)
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return {name: feed[name] for name in feed.keys() & model._inputs}


async def compare_with_session(embedder: OnnxEmbedder, model: OnnxModel, text: str, rounds: int) -> tuple[float, float]:
    """Median milliseconds through the embedder and bare; the former by the median of the ratios, pair by pair."""
    feed = build_feed(model, text)
    pairs = []
    for number in range(rounds + 1):
        plain = 0.0 if number % 2 else time_ms(lambda: model._session.run([model._output], feed))
        began = time.perf_counter()
        await embedder.embed([text], within=60)
        ours = (time.perf_counter() - began) * 1000
        plain = plain or time_ms(lambda: model._session.run([model._output], feed))
        pairs.append((ours, plain))
    pairs = pairs[1:]  # the first runs fill the caches
    ratio = statistics.median(ours / plain for ours, plain in pairs)
    plain = statistics.median(plain for _, plain in pairs)
    return plain * ratio, plain


async def measure_cached(embedder: OnnxEmbedder, rounds: int) -> float:
    cache, sentence = QueryCache(), "Where can I download the invoice of last month?"
    await cache.embed(embedder, "w", [sentence], 60)
    samples = []
    for _ in range(rounds):
        began = time.perf_counter()
        await cache.embed(embedder, "w", [sentence], 60)
        samples.append((time.perf_counter() - began) * 1000)
    return statistics.median(samples)


async def measure(rounds: int) -> list[Figure]:
    embedder = OnnxEmbedder(locate_model())
    began = time.perf_counter()
    await embedder.embed(["warm up"])
    figures = [Figure("model loaded, with its libraries", (time.perf_counter() - began) * 1000, "ms")]
    model = embedder._model
    assert isinstance(model, OnnxModel)
    texts = {name: (make_text(model, tokens), known) for name, (tokens, known) in SIZES.items()}
    texts[PASSAGE] = ((WORDS * 6)[:500], 22.0)
    for name, (text, known) in texts.items():
        # Short ones take as long as a thread may have to wait for a busy machine: only many of them tell.
        ours, plain = await compare_with_session(embedder, model, text, rounds * 4 if len(text) < 200 else rounds)
        figures.append(Figure(f"{name} (MEASURED: {known:g} ms)", ours, "ms", plain, "bare session", RATIO))
    figures.append(Figure("query that was asked before", await measure_cached(embedder, 2000), "ms", target=CACHED_MS))
    await embedder.close()
    return figures


if __name__ == "__main__":
    print_figures(uvloop.run(measure(int(sys.argv[1]))))
