"""A query, read once: its terms, its clause that asks, and the kinds of answer it asks for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from difflib import get_close_matches
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from kaosmem.memos import register_memo

if TYPE_CHECKING:
    from kaosmem.retrieval.vocabulary import Vocabulary

_WORD = re.compile(r"[^\W_]+")
_TEST = re.compile(
    r"(?:^|[/\\])(?:tests?|__tests__|spec)[/\\]"
    r"|(?:^|[/\\])test_[^/\\]*\.\w+$|[^/\\][_.](?:test|spec)s?\.\w+$|Tests?\.\w+$"
)
_BORDER = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


def name_terms(name: str, analyze: Callable[[str], list[str]]) -> list[str]:
    """Return the terms of a source's name, those of its letters and of its digits among them."""
    return [*analyze(name), *analyze(_BORDER.sub(" ", name))]


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

    Attributes:
        terms: Of the whole query.
        clause: Of its last clause with a term; a question before any other clause.
        last: The text of that clause.
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

    def respell(self, known: Vocabulary) -> None:
        """Replace terms by the known terms that are spelt almost the same, if no term is known.

        >>> from kaosmem.retrieval.vocabulary import Vocabulary
        >>> known = Vocabulary(["mongodb", "redis"])
        >>> known.frequencies.values[1:] = 1
        >>> asked = QueryTerms("mongod", str.split)
        >>> asked.respell(known)
        >>> asked.terms
        ['mongodb']
        """
        if not any(map(known.has, self.counts)):
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

    def titles(self) -> set[str]:
        """Return the terms under which the query may name a source.

        Two or three words of the query may be one word of the name.
        """
        words = _WORD.findall(self.text)
        threes = zip(words, words[1:], words[2:], strict=False)
        joined = dict.fromkeys(map("".join, (*pairwise(words), *threes)))
        return {*name_terms(self.text, self._analyze), *self._analyze(" ".join(joined))}


def _spelt_alike(term: str, known: Vocabulary) -> list[str]:
    """Return the known term nearest to a misspelt one, if any.

    Numbers and short words are never misspelt.
    """
    if len(term) < _MISSPELT_CHARS or not term.isalpha():
        return []
    return get_close_matches(term, known.starting_with(term[:2]), n=1, cutoff=_ALIKE)
