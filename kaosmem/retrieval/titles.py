"""Names of sources as a question may write them: FY2018 of 3M for 3M_2018_10K, Euler Hermes for eulerhermes-nda."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from kaosmem.memos import register_memo

_WORD = re.compile(r"[^\W_]+")
_BORDER = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


@lru_cache(maxsize=1 << 14)
def title_terms(name: str, analyze: Callable[[str], list[str]]) -> frozenset[str]:
    """Return the terms of a source's name, those of its letters and of its digits among them."""
    return frozenset((*analyze(name), *analyze(_BORDER.sub(" ", name))))


register_memo(title_terms.cache_clear)


def asked_terms(query: str, analyze: Callable[[str], list[str]]) -> frozenset[str]:
    """Return the terms under which a query may name a source: two or three of its words may be one of the name's."""
    words = _WORD.findall(query)
    joined = [*map("".join, pairwise(words)), *map("".join, zip(words, words[1:], words[2:], strict=False))]
    return title_terms(query, analyze).union(*map(analyze, joined))
