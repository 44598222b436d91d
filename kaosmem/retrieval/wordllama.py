"""WordLlama, a table of 32,000 word pieces' vectors of 16 MB: the extra `dense`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.errors import MissingExtraError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class WordLlamaEmbedder:
    """Embeds a text as the mean of its word pieces' vectors, some 2,000 texts a second. Raises MissingExtraError."""

    name = "wordllama-l2-256"
    dimensions = 256

    def __init__(self) -> None:
        _folder()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of texts, shape (len(texts), 256)."""
        encode = _encoder()
        return np.array(list(map(encode, texts)), np.float32).reshape(len(texts), self.dimensions)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions, which are embedded as texts are."""
        return self.embed(texts)


@cache
def _folder() -> Path:
    """Return where the package is, without importing it: that would set up logging and clients for downloads."""
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("word embeddings need the extra 'dense': pip install 'kaosmem[dense]'")
    return Path(spec.submodule_search_locations[0])


@cache
def _encoder() -> Callable[[str], NDArray[np.float32]]:
    """Return the function that embeds one text."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    table = load_file(_folder() / "weights/l2_supercat_256.safetensors")["embedding.weight"]
    tokenizer = Tokenizer.from_file(str(_folder() / "tokenizers/l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def encode(text: str) -> NDArray[np.float32]:
        encodable = text if text.isascii() else text.encode("utf-8", "replace").decode()
        pieces = tokenizer.encode(encodable, add_special_tokens=False).ids
        total: NDArray[np.float32] = table[pieces].sum(axis=0, dtype=np.float32)
        length = np.linalg.norm(total)
        return total / length if length else total

    return encode
