"""An ONNX model in this process: one text in, one vector out; blocks, so threads call it."""

import math
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from gateway.semantic.model.embedder import EmbedderUnavailable
from gateway.semantic.model.files import ModelFiles

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

NOT_A_VECTOR = "The embedding model returned something that is not a vector."
LONGEST_TOKEN = 16  # characters; text beyond what the tokens can cover is not even tokenised


class OnnxModel:
    """A loaded model; several threads may use it at once."""

    def __init__(self, session: "InferenceSession", tokenizer: "Tokenizer", files: ModelFiles) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = {port.name for port in session.get_inputs()}
        self._output = session.get_outputs()[0].name
        self._pooling = files.pooling
        self._normalizer = tokenizer.normalizer
        self._added_tokens = [token.content.lower() for token in tokenizer.get_added_tokens_decoder().values()]
        self._max_characters = files.max_tokens * LONGEST_TOKEN

    @classmethod
    def load(cls, files: ModelFiles) -> Self:
        """Check and load the files; raises EmbedderUnavailable, or whatever the libraries raise for an invalid file."""
        from onnxruntime import InferenceSession, SessionOptions  # 0.2 s, and not everyone needs it
        from tokenizers import Tokenizer

        files.verify()
        options = SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3  # its warnings go past our log, to stderr
        session = InferenceSession(str(files.model), options, providers=["CPUExecutionProvider"])
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
        tokenizer.no_padding()
        tokenizer.enable_truncation(files.max_tokens)
        return cls(session, tokenizer, files)

    def normalise(self, text: str) -> str:
        """The text as the tokenizer reads it: for an uncased model, in lower case and without accents.

        Tokens such as `[SEP]` are found before that, so that a text with one of them stays as it is.
        """
        if self._normalizer is None or len(text) > self._max_characters:
            return text
        lower = text.lower()
        if any(token in lower for token in self._added_tokens):
            return text
        normal: str = self._normalizer.normalize_str(text.encode("utf-8", "replace").decode())
        return normal

    def embed_text(self, text: str) -> NDArray[np.float32]:
        """The text's vector, of length 1.

        One text per run: batches are no faster on one thread, they pay for padding, and int8 activations take their
        scale from the whole batch, so that a vector would depend on what others ask at the same moment.
        """
        encoded = self._tokenizer.encode(text[: self._max_characters].encode("utf-8", "replace").decode())
        # Without special tokens nothing is left of a blank text; one odd passage must not stop an index.
        ids = np.array([encoded.ids or [0]], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        output = self._session.run([self._output], {name: feed[name] for name in feed.keys() & self._inputs})[0]
        return normalise_vector(self._pool(np.asarray(output, np.float32)[0]))

    def _pool(self, hidden: NDArray[np.float32]) -> NDArray[np.float32]:
        """The direction of a text: a sum points where the mean does."""
        if hidden.ndim == 1:
            return hidden  # the graph pools by itself
        pooled: NDArray[np.float32] = hidden[0] if self._pooling == "cls" else np.add.reduce(hidden)
        return pooled


def normalise_vector(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale one vector to length 1, five times as fast as `normalise_vectors`: a short query is embedded in 2 ms."""
    length = math.sqrt(vector @ vector)
    if not 0 < length < math.inf:
        raise EmbedderUnavailable(NOT_A_VECTOR)
    return vector / np.float32(length)


def normalise_vectors(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale vectors to length 1; raises EmbedderUnavailable for what has no direction."""
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., None]
    if not (np.isfinite(lengths).all() and (lengths > 0).all()):
        raise EmbedderUnavailable(NOT_A_VECTOR)
    scaled: NDArray[np.float32] = vectors / lengths
    return scaled
