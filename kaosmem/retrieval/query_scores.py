"""A query's terms and clause, and the scores of entries for its words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.retrieval.scores import floor
from kaosmem.retrieval.source_matcher import asked_terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.scores import EntryScores

_CLAUSE_END = re.compile(r"(?<=[.;:?!])\s+")
_ASKS_FOR_NUMBER = re.compile(
    r"\b(how many|how much|amount|ratio|margin|percent|percentage|usd|million|billion|average|total|number|rate|revenue"
    r"|growth|change)\b"
)
# "How do I" and "can you" ask for work, not for a fact.
_ASKS_FOR_FACT = re.compile(
    r"(?:^|[.!?;:,]\s+)(?:and |but |so )?(?:who|whom|whose|what|when|where|which|why|is|are|was|were|do|does|did|has"
    r"|have|had|how (?:many|much|long|often|old|far|did|does|has|have|had|was|were|is|are))\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r'"([^"]{2,200})"|“([^”]{2,200})”|`([^`]{2,200})`')
# An identifier as programs write it: dotted, with underscores or inner capitals, or called.
_IDENTIFIER = re.compile(
    r"\b(?:[^\W\d]\w+\.)+[^\W\d]\w+|\b[^\W_]\w*_\w+|\b_+[^\W\d]\w+|\b[A-Z]?[a-z]+[A-Z]\w+|\b[^\W\d]\w+(?=\(\))"
)


_MISSPELT_CHARS, _ALIKE = 5, 0.8
"""A shorter term may be any other word. Two terms are alike if so much of their letters is the same, in order."""


class QueryTerms:
    """The terms of a query, read once.

    terms: of the whole query. clause: of its last clause with a term; a question before any other clause.
    last: the text of that clause.
    """

    def __init__(self, text: str, analyze: Callable[[str], list[str]]) -> None:
        self.text, self.terms, self._analyze = text, analyze(text), analyze
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
            spelt = {term: match for term in self.counts for match in _spelt_alike(term, known)}
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
        """The first term of the last part of each identifier: `lru_cache` of `functools.lru_cache`."""
        parts = (self._analyze(found.rpartition(".")[2]) for found in _IDENTIFIER.findall(self.text))
        return list(dict.fromkeys(terms[0] for terms in parts if terms))

    @cached_property
    def titles(self) -> frozenset[str]:
        """The terms under which the query may name a source."""
        return asked_terms(self.text, self._analyze)


def _spelt_alike(term: str, known: Iterable[str]) -> list[str]:
    """Return the known term nearest to a misspelt one, if any. Numbers and short words are never misspelt."""
    if len(term) < _MISSPELT_CHARS or not term.isalpha():
        return []
    return get_close_matches(term, [each for each in known if each.startswith(term[:2])], n=1, cutoff=_ALIKE)


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
        """Return the scores that choose the candidates among some slots, and that order the others."""
        clause, half = self.clause.shares(slots), 0.5 * self.sources[self.numbers[slots]]
        # Shares chosen by hand: who is a candidate depends on them.
        return self.words.shares(slots) + 0.6 * clause + half + clause * half

    def contenders(self, limit: int) -> NDArray[np.int64] | None:
        """Return the slots that may be among the `limit` best proposed; None where these may be any."""
        slots, in_clause = self.words.scored, self.clause.scored
        if slots is None or in_clause is None:
            return None
        others = [] if in_clause is slots else [in_clause]
        if self.sources.any():
            # Without a word of the query an entry is proposed for its source alone: few sources do as well as entries.
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
    """The candidates: their slots, the numbers of their sources, and by step the slots of their neighbours or -1."""

    ordinals: list[int]
    slots: NDArray[np.int64]
    numbers: NDArray[np.int32]
    near: Mapping[int, NDArray[np.int64]]
