"""Texts for benchmarks: seeded ones, whose words are distributed like those of prose, and real ones."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

from kaosmem.types.items import Item

# The sounds of a syllable and the endings of a word; "-" is none.
_ONSETS = (
    "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p pl pr qu r s sh sl sp st str t th tr v w"
)
_NUCLEI = "a e i o u ai ea ee oa ou"
_CODAS = "- - - b ck d g l m n nd ng nt p r rd rt s st t x"
_ENDINGS = "- - - - s ed ing er ly ness ment able ation ity"
# Frequent words are short: so many of all words have up to so many syllables.
_WORDS_BY_SYLLABLES = {1: 1_000, 2: 12_000, 3: 60_000}
_FUNCTION_WORDS = "the of and to in a is that for it as was with be by on not this are or"
_FUNCTION_SHARE = 0.42
_SENTENCE_WORDS = 6, 24


def seeded_texts(n: int, *, seed: int = 0, words: int = 150) -> list[str]:
    """Return `n` texts in sentences, each of `words` words, more or less by half.

    About 4 words in 10 are function words; the rest follow Zipf's law over 60,000 pronounceable
    words, the same for every seed.
    """
    rng = random.Random(seed)
    vocabulary, weights = _all_words()
    lengths = (rng.randint(words // 2, words + words // 2) for _ in range(n))
    return [
        _sentences(rng.choices(vocabulary, cum_weights=weights, k=length), rng)
        for length in lengths
    ]


def seeded_queries(n: int, *, seed: int = 0, words: int = 10) -> list[str]:
    """Return `n` queries of `words` words, none of them a function word."""
    rng = random.Random(seed)
    content, weights = _content_words()
    return [" ".join(rng.choices(content, cum_weights=weights, k=words)) for _ in range(n)]


def real_texts(*, words: int = 120) -> list[str]:
    """Return the items of the data sets in the folder KAOSMEM_DATA as texts of `words` words, in a seeded order.

    The list is empty where KAOSMEM_DATA names no folder.
    """
    folder = Path(os.environ.get("KAOSMEM_DATA") or os.devnull)
    texts = []
    for file in sorted(folder.glob("*/*.items.jsonl")):
        with file.open(encoding="utf-8") as lines:
            all_words = [word for line in lines for word in json.loads(line)["text"].split()]
        texts += [
            " ".join(all_words[start : start + words]) for start in range(0, len(all_words), words)
        ]
    random.Random(0).shuffle(texts)
    return texts


def real_queries(texts: Iterable[str], *, words: int = 8) -> list[str]:
    """Return a query for each text: `words` of its words, common ones included."""
    rng = random.Random(1)
    return [" ".join(rng.sample(each, min(words, len(each)))) for each in map(str.split, texts)]


def text_item(text: str) -> Item:
    """Return an item with this text, for an index that looks at nothing else."""
    return Item("i", "documents", "", text, 0, datetime(2024, 1, 1, tzinfo=UTC))


def _sentences(words: list[str], rng: random.Random) -> str:
    ends = [0]
    while ends[-1] < len(words):
        ends.append(ends[-1] + rng.randint(*_SENTENCE_WORDS))
    return " ".join(" ".join(words[start:end]).capitalize() + "." for start, end in pairwise(ends))


@cache
def _all_words() -> tuple[list[str], list[float]]:
    """Return content and function words, and their cumulative weights."""
    content, weights = _content_words()
    function = _FUNCTION_WORDS.split()
    each = weights[-1] * _FUNCTION_SHARE / (1 - _FUNCTION_SHARE) / len(function)
    return [*content, *function], [
        *weights,
        *(weights[-1] + each * (i + 1) for i in range(len(function))),
    ]


@cache
def _content_words() -> tuple[list[str], list[float]]:
    """Return words, the most frequent first, and their cumulative weights."""
    rng = random.Random(0)
    onsets, nuclei, codas, endings = (
        sounds.replace("-", "").split(" ") for sounds in (_ONSETS, _NUCLEI, _CODAS, _ENDINGS)
    )
    words: dict[str, None] = {}
    for syllables, size in _WORDS_BY_SYLLABLES.items():
        while len(words) < size:
            words.setdefault(
                "".join(map(rng.choice, [onsets, nuclei, codas] * syllables + [endings]))
            )
    return list(words), list(accumulate(1 / (rank + 10) for rank in range(len(words))))
