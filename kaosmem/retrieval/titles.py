"""Names of sources as a question may write them: FY2018 of 3M for 3M_2018_10K, Euler Hermes for eulerhermes-nda."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

from kaosmem.memos import register_memo

_WORD = re.compile(r"[^\W_]+")
_TEST = re.compile(
    r"(?:^|[/\\])(?:tests?|__tests__|spec)[/\\]|(?:^|[/\\])test_[^/\\]*\.\w+$|[^/\\][_.](?:test|spec)s?\.\w+$|Tests?\.\w+$"
)
_BORDER = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


@lru_cache(maxsize=1 << 14)
def title_terms(name: str, analyze: Callable[[str], list[str]]) -> frozenset[str]:
    """Return the terms of a source's name, those of its letters and of its digits among them."""
    return frozenset((*analyze(name), *analyze(_BORDER.sub(" ", name))))


register_memo(title_terms.cache_clear)


@lru_cache(maxsize=1 << 14)
def is_test_name(name: str) -> bool:
    """Return whether a file's path is that of a test: `test/x.py`, `test_x.py`, `x_test.go`, `x.spec.ts`.

    >>> is_test_name("tests/cache.py"), is_test_name("cache_test.go"), is_test_name("attestation.pdf")
    (True, True, False)
    """
    return bool(_TEST.search(name))


register_memo(is_test_name.cache_clear)


def asked_terms(query: str, analyze: Callable[[str], list[str]]) -> frozenset[str]:
    """Return the terms under which a query may name a source: two or three of its words may be one of the name's."""
    words = _WORD.findall(query)
    joined = [*map("".join, pairwise(words)), *map("".join, zip(words, words[1:], words[2:], strict=False))]
    return title_terms(query, analyze).union(*map(analyze, joined))
