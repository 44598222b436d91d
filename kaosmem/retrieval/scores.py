"""Scores of all entries by the words of a query, the best of them, and the names of sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import UNITS
from kaosmem.memos import register_memo

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.postings import Postings


FLOOR_SHARE = 8
"""From so many times the wanted scores on, it pays to look for a floor before sorting."""


def floor(scores: NDArray[np.floating], limit: int) -> float:
    """Return a score above 0 that at least `limit` of the scores reach, or 0.

    It is at most the limit-th best.
    """
    # The limit-th best of the maxima of blocks is at most the limit-th best score, and much cheaper
    # to find.
    width = len(scores) // (FLOOR_SHARE * limit)
    if width == 0:
        return 0.0
    maxima = scores[: len(scores) // width * width].reshape(width, -1).max(axis=0)
    return max(0.0, float(np.partition(maxima, -limit)[-limit]))


def best(
    ordinals: NDArray[np.int64], scores: NDArray[np.float64], limit: int, *, decimals: int = 9
) -> list[tuple[int, float]]:
    """Return the `limit` best (ordinal, score) in the order that `Index.rank` promises.

    ordinals, scores: shape (n,). Scores are rounded to `decimals`; scores of 0 or less are left
        out.
    """
    if limit < 1 or not len(scores):
        return []
    # A little below the floor: a score that rounds to the last one's is compared by ordinal.
    least = 10.0**-decimals
    (kept,) = np.nonzero(scores >= max(floor(scores, limit) - least, least / 10))
    scale = 10.0**decimals
    kept_ordinals = ordinals[kept]
    rounded = np.rint(scores[kept] * scale) / scale
    order = np.lexsort((kept_ordinals, rounded))[: -limit - 1 : -1]
    order = order[rounded[order] > 0]
    return list(zip(kept_ordinals[order].tolist(), rounded[order].tolist(), strict=True))


def is_tied(ranked: Sequence[tuple[int, float]], place: int) -> bool:
    """Return whether the entries on both sides of a place in a ranking have one score."""
    return len(ranked) > place and ranked[place - 1][1] == ranked[place][1]


def scaled(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores as shares of the best, as they are where none is above 0."""
    most = scores.max(initial=0.0)
    return scores / most if most > 0 else scores


_CHUNK = 1 << 14  # numbers that stay in a processor's cache from one step of a formula to the next


def by_chunks(scores_of: Callable[[slice], NDArray[np.float64]], size: int) -> NDArray[np.float64]:
    """Return the scores of all slots, worked out in chunks, in half the time of all at once."""
    scores = np.empty(size)
    for start in range(0, size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        scores[chunk] = scores_of(chunk)
    return scores


class EntryScores:
    """The scores of all slots for some terms.

    Rare terms are found by their postings. Common terms are scored only for the slots that are
    asked for. The addend of each term is rounded to whole numbers of 1 / UNITS, so that a sum is
    the same in any order. The scores view the index: release them before the next change.

    Args:
        weights: Weights by term.
        norms: Returns the addend to a term's occurrences in BM25's divisor, of slots.
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        postings: Postings,
        norms: Callable[[NDArray[np.int64] | slice], NDArray[np.float64]],
        size: int,
    ) -> None:
        self._postings = postings
        self._norms = norms
        in_units = {term: weight * UNITS for term, weight in weights.items()}
        self._common = {
            term: weight for term, weight in in_units.items() if postings.is_common(term)
        }
        rare = {term: weight for term, weight in in_units.items() if term not in self._common}
        slots, occurrences, sizes = postings.unpacked(rare)
        by_posting = np.repeat(np.fromiter(rare.values(), np.float64, len(rare)), sizes)
        self._given = slots, np.rint(occurrences * by_posting / (occurrences + norms(slots)))
        self._size = size

    def at(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return the scores of some slots, in whole numbers of 1 / UNITS."""
        if not self._common and not isinstance(slots, slice):
            return self._found(slots)
        scores = self._rare[slots]
        if self._common:
            norms = self._norms(slots)
            common = np.zeros(len(norms))
            for term, weight in self._common.items():
                occurrences = self._postings.column(term)[slots]
                common += np.rint(occurrences * weight / (occurrences + norms))
            scores = scores + common
        return scores

    def shares(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return the scores of some slots as shares of the best score of all slots.

        If no score is above 0, they stay as they are.
        """
        scores = self._all[slots] if self._common else self.at(slots)
        return scores / self._most if self._most > 0 else scores / UNITS

    @cached_property
    def _rare(self) -> NDArray[np.float64]:
        """The scores of all slots by rare terms."""
        scores = np.zeros(self._size)
        np.add.at(scores, *self._given)
        return scores

    @cached_property
    def _sums(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The slots that have a rare term, in order, and their scores by rare terms."""
        slots, scores = self._given
        order = np.argsort(slots)
        slots = slots[order]
        is_new = np.diff(slots, prepend=-1) > 0
        return slots[is_new], np.bincount(np.cumsum(is_new) - 1, scores[order]).astype(
            np.float64, copy=False
        )

    def _found(self, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of some slots by rare terms."""
        having, scores = self._sums
        if slots is having:
            return scores
        if not len(having):
            return np.zeros(len(slots))
        places = np.minimum(np.searchsorted(having, slots), len(having) - 1)
        return np.where(having[places] == slots, scores[places], 0.0)

    @cached_property
    def _all(self) -> NDArray[np.float64]:
        return by_chunks(self.at, self._size)

    @cached_property
    def _most(self) -> float:
        return float((self._all if self._common else self._sums[1]).max(initial=0.0))

    @property
    def scored(self) -> NDArray[np.int64] | None:
        """The slots of entries with any of the terms, in order; None if these are most entries."""
        return None if self._common else self._sums[0]

    def contenders(self, limit: int) -> NDArray[np.int64] | slice:
        """Return the slots whose scores may be among the `limit` best."""
        if self.scored is not None:
            return self.scored
        if self._size < FLOOR_SHARE * limit:
            return slice(None)
        rough, error = self._rough()
        return np.flatnonzero(rough >= floor(rough, limit) - error - UNITS * 1e-9)

    def _rough(self) -> tuple[NDArray[np.float32], float]:
        """Return the scores of all slots at half the precision, and their largest error.

        That takes half the time.
        """
        rough = self._rare.astype(np.float32)
        norms = self._norms(slice(None)).astype(np.float32)
        for term, weight in self._common.items():
            shares = self._postings.column(term).astype(np.float32)
            divisors = shares + norms
            shares *= weight
            shares /= divisors
            rough += shares
        # Each step may be off by 2**-24 of a score, which is at most all the weights, here as at a
        # floor.
        most = float(self._rare.max(initial=0.0)) + sum(map(abs, self._common.values()))
        return rough, 2**-22 * (8 + len(self._common)) * most


_WORD = re.compile(r"[^\W_]+")
_TEST = re.compile(
    r"(?:^|[/\\])(?:tests?|__tests__|spec)[/\\]"
    r"|(?:^|[/\\])test_[^/\\]*\.\w+$|[^/\\][_.](?:test|spec)s?\.\w+$|Tests?\.\w+$"
)
_BORDER = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


@lru_cache(maxsize=1 << 14)
def title_terms(name: str, analyze: Callable[[str], list[str]]) -> frozenset[str]:
    """Return the terms of a source's name, those of its letters and of its digits among them."""
    return frozenset((*analyze(name), *analyze(_BORDER.sub(" ", name))))


register_memo(title_terms.cache_clear)


@lru_cache(maxsize=1 << 14)
def is_test_name(name: str) -> bool:
    """Return whether the path of a file is that of a test, such as `test/x.py` or `x.spec.ts`.

    >>> is_test_name("tests/cache.py"), is_test_name("cache_test.go")
    (True, True)
    >>> is_test_name("attestation.pdf")
    False
    """
    return bool(_TEST.search(name))


register_memo(is_test_name.cache_clear)


def asked_terms(query: str, analyze: Callable[[str], list[str]]) -> frozenset[str]:
    """Return the terms under which a query may name a source.

    Two or three words of the query may be one word of the name.
    """
    words = _WORD.findall(query)
    joined = [
        *map("".join, pairwise(words)),
        *map("".join, zip(words, words[1:], words[2:], strict=False)),
    ]
    return title_terms(query, analyze).union(*map(analyze, joined))


_CLAUSE_END = re.compile(r"(?<=[.;:?!])\s+")
_ASKS_FOR_NUMBER = re.compile(
    r"\b(how many|how much|amount|ratio|margin|percent|percentage|usd|million|billion|average"
    r"|total|number|rate|revenue|growth|change)\b"
)
# "How do I" and "can you" ask for work, not for a fact.
_ASKS_FOR_FACT = re.compile(
    r"(?:^|[.!?;:,]\s+)(?:and |but |so "
    r")?(?:who|whom|whose|what|when|where|which|why|is|are|was|were|do|does|did|has"
    r"|have|had|how (?:many|much|long|often|old|far|did|does|has|have|had|was|were|is|are))\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r'"([^"]{2,200})"|“([^”]{2,200})”|`([^`]{2,200})`')
# An identifier as programs write it: dotted, with underscores or inner capitals, or called.
_IDENTIFIER = re.compile(
    r"\b(?:[^\W\d]\w+\.)+[^\W\d]\w+|\b[^\W_]\w*_\w+|\b_+[^\W\d]\w+"
    r"|\b[A-Z]?[a-z]+[A-Z]\w+|\b[^\W\d]\w+(?=\(\))"
)


_MISSPELT_CHARS, _ALIKE = 5, 0.8
"""A shorter term may be any other word.

Two terms are alike if so much of their letters is the same, in order.
"""


class QueryTerms:
    """The terms of a query, read once.

    terms: of the whole query. clause: of its last clause with a term; a question before any other
        clause.
    last: the text of that clause.
    """

    def __init__(self, text: str, analyze: Callable[[str], list[str]]) -> None:
        self.text = text
        self.terms = analyze(text)
        self._analyze = analyze
        self.counts = Counter(self.terms)
        # How to answer is often said after the question.
        clauses = sorted(_CLAUSE_END.split(text.strip()), key=lambda each: each.endswith("?"))
        found = ((each, analyze(each)) for each in reversed(clauses))
        self.last, self.clause = next((each for each in found if each[1]), (text, self.terms))
        self.is_for_number = bool(_ASKS_FOR_NUMBER.search(text.casefold()))
        self.is_for_fact = bool(_ASKS_FOR_FACT.search(text))

    def respell(self, known: Collection[str]) -> None:
        """Replace terms by the known terms that are spelt almost the same, if no term is known.

        >>> asked = QueryTerms("mongod", str.split)
        >>> asked.respell({"mongodb", "redis"})
        >>> asked.terms
        ['mongodb']
        """
        if not any(term in known for term in self.counts):
            spelt = {}
            for term in self.counts:
                for match in _spelt_alike(term, known):
                    spelt[term] = match
            self.terms = [spelt[term] for term in self.terms if term in spelt]
            self.clause = [spelt[term] for term in self.clause if term in spelt] or self.terms
            self.counts = Counter(self.terms)

    @cached_property
    def quoted(self) -> list[list[str]]:
        """The terms of each phrase in double quotes or backticks."""
        phrases = (self._analyze("".join(groups)) for groups in _QUOTED.findall(self.text))
        return [terms for terms in phrases if terms]

    @cached_property
    def names(self) -> list[str]:
        """The first term of the last part of each identifier, as of `functools.lru_cache`."""
        parts = (
            self._analyze(found.rpartition(".")[2]) for found in _IDENTIFIER.findall(self.text)
        )
        return list(dict.fromkeys(terms[0] for terms in parts if terms))

    @cached_property
    def titles(self) -> frozenset[str]:
        """The terms under which the query may name a source."""
        return asked_terms(self.text, self._analyze)


def _spelt_alike(term: str, known: Iterable[str]) -> list[str]:
    """Return the known term nearest to a misspelt one, if any.

    Numbers and short words are never misspelt.
    """
    if len(term) < _MISSPELT_CHARS or not term.isalpha():
        return []
    return get_close_matches(
        term, [each for each in known if each.startswith(term[:2])], n=1, cutoff=_ALIKE
    )


@dataclass(frozen=True)
class QueryScores:
    """The scores of all slots by a query's words, valid until the next change.

    sources: by number. numbers: of the source of each slot.
    """

    asked: QueryTerms
    words: EntryScores
    clause: EntryScores
    sources: NDArray[np.float64]
    numbers: NDArray[np.int32]

    def proposed(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return the scores that choose the candidates among slots and order the other entries."""
        clause = self.clause.shares(slots)
        half = 0.5 * self.sources[self.numbers[slots]]
        # Shares chosen by hand: who is a candidate depends on them.
        return self.words.shares(slots) + 0.6 * clause + half + clause * half

    def contenders(self, limit: int) -> NDArray[np.int64] | None:
        """Return the slots that may be among the `limit` best proposed; None if all may be."""
        slots = self.words.scored
        in_clause = self.clause.scored
        if slots is None or in_clause is None:
            return None
        others = [] if in_clause is slots else [in_clause]
        if self.sources.any():
            # Without a word of the query an entry is proposed for its source alone: few sources do
            # as well as entries.
            least = max(floor(self.proposed(slots), limit) - 1e-9, 1e-10)
            others.append(np.flatnonzero((0.5 * self.sources >= least)[self.numbers]))
        else:
            # Those beside the others are in the order of this share.
            shares = self.words.shares(slots)
            slots = slots[shares >= floor(shares, limit) - 1e-9]
        if not others:
            return slots
        is_one = np.zeros(len(self.numbers), np.bool_)
        for each in (slots, *others):
            is_one[each] = True
        return np.flatnonzero(is_one)


@dataclass(frozen=True)
class Chosen:
    """The candidates.

    Attributes:
        numbers: The numbers of their sources.
        near: By step, the slots of their neighbours, -1 for none.
    """

    ordinals: list[int]
    slots: NDArray[np.int64]
    numbers: NDArray[np.int32]
    near: Mapping[int, NDArray[np.int64]]
