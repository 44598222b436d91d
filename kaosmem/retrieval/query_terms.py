"""A query, read once: its terms, its clause that asks, and the documents that it may be about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.language.scripts import MARKS
from kaosmem.memos import memoized
from kaosmem.retrieval.bm25 import SHARE_BITS, idf_q16, share_of
from kaosmem.retrieval.scores import ONE, product, share_of_best
from kaosmem.retrieval.vocabulary import common_terms, near_terms

if TYPE_CHECKING:
    from kaosmem.language.analysis import Analyzer
    from kaosmem.retrieval.columns import Int32s, Int64s
    from kaosmem.retrieval.text_index import TextIndex
    from kaosmem.retrieval.vocabulary import Vocabulary

_WORD = re.compile(r"[^\W_]+")
_TEST = re.compile(
    r"(?:^|[/\\])(?:tests?|__tests__|spec)[/\\]"
    r"|(?:^|[/\\])test_[^/\\]*\.\w+$|[^/\\][_.](?:test|spec)s?\.\w+$|Tests?\.\w+$"
)
_BORDER = re.compile(r"(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)")


def name_terms(name: str, analyze: Analyzer) -> list[str]:
    """Return the terms of a source's name, those of its letters and of its digits among them."""
    return [*analyze(name), *analyze(_BORDER.sub(" ", name))]


@memoized(1 << 14)
def is_test_name(name: str) -> bool:
    """Return whether the path of a file is that of a test, such as `test/x.py` or `x.spec.ts`.

    >>> is_test_name("tests/cache.py"), is_test_name("cache_test.go")
    (True, True)
    >>> is_test_name("attestation.pdf")
    False
    """
    return bool(_TEST.search(name))


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


_SHORT_QUERY = 5
"""A query of so many different terms says little."""
_MISSPELT_CHARS = 5
"""A shorter word may be any other."""
_MAX_MISSPELT = 10
_BLOCK = 128
"""So many characters that follow each other in Unicode hold one alphabet."""
_MAX_BLOCKS = 3
"""Vietnamese words have letters of three blocks. One of many is none that was misspelt."""
_SPELT = re.compile(rf"(?:[^\W\d_]|[{MARKS}])+")


class QueryTerms:
    """The terms of a query, read once.

    Attributes:
        terms: Of the whole query.
        clause: Of its last clause with a term; a question before any other clause.
        last: The text of that clause.
    """

    def __init__(self, text: str, analyze: Analyzer) -> None:
        self.text = text
        self.terms = analyze(text)
        self._analyze = analyze
        self.counts = Counter(self.terms)
        # How to answer is often said after the question.
        self.last = text
        self.clause = self.terms
        is_question = False
        for clause in _CLAUSE_END.split(text.strip()):
            terms = analyze(clause)
            if terms and (clause.endswith("?") or not is_question):
                is_question = clause.endswith("?")
                self.last = clause
                self.clause = terms
        self.is_for_number = bool(_ASKS_FOR_NUMBER.search(text.casefold()))
        self.is_for_fact = bool(_ASKS_FOR_FACT.search(text))

    def respell(self, known: Vocabulary, is_known: Callable[[str], bool]) -> None:
        """Replace misspelt words by the known words that are one typing error away.

        A word is taken for misspelt if no entry and no title has it, and if it is no common English
        word. The last words of a pasted text are left as they are.

        Args:
            is_known: Whether an entry or a title has a term.

        >>> from kaosmem.retrieval.vocabulary import Vocabulary
        >>> known = Vocabulary(["mongodb", "redis"])
        >>> known.frequencies.values[1:] = 1
        >>> asked = QueryTerms("configure mongod", str.split)
        >>> asked.respell(known, {"mongodb", "redis"}.__contains__)
        >>> asked.terms
        ['configure', 'mongodb']
        """
        spelt: dict[str, str] = {}
        for term in islice(self._misspelt(is_known), _MAX_MISSPELT):
            meant = _one_error_away(term, known)
            if meant:
                spelt[term] = meant
        if spelt:
            self.terms = [spelt.get(term, term) for term in self.terms]
            self.clause = [spelt.get(term, term) for term in self.clause]
            self.counts = Counter(self.terms)

    def related(
        self,
        known: Vocabulary,
        is_known: Callable[[str], bool],
        *,
        is_spoken: bool,
    ) -> dict[int, int]:
        """Return the known terms that are near in meaning to words of the query, by number.

        They are near to words that no entry has. In a conversation, those near to any word of a
        short query count as well, but for less: people answer in words of their own. The value is
        the square of the cosine in Q16, the largest if there are several.

        Args:
            is_known: Whether an entry or a title has a term.
            is_spoken: Whether the entries are of a conversation.
        """
        is_short = is_spoken and len(self.counts) <= _SHORT_QUERY
        found: dict[int, int] = {}
        for term in self.counts:
            is_new = not is_known(term)
            if not is_new and not is_short:
                continue
            for other, share in near_terms(term):
                number = known.number_in_entries(other)
                if number and other not in self.counts:
                    if not is_new:
                        share = 2 * share // 5
                    found[number] = max(found.get(number, 0), share)
        return found

    def _misspelt(self, is_known: Callable[[str], bool]) -> Iterator[str]:
        """Yield the words that may be misspelt: numbers and short words never are."""
        for word in dict.fromkeys(self.text.split()):
            for term in self._analyze(word)[:1]:  # the others are parts of the word
                is_word = len(term) >= _MISSPELT_CHARS and bool(_SPELT.fullmatch(term))
                if is_word and not is_known(term) and term not in common_terms():
                    yield term

    @cached_property
    def quoted(self) -> list[list[str]]:
        """The terms of each phrase in double quotes or backticks."""
        phrases = map("".join, _QUOTED.findall(self.text))
        return [*filter(None, map(self._analyze, phrases))]

    @cached_property
    def names(self) -> list[str]:
        """The first term of the last part of each identifier, as of `functools.lru_cache`."""
        found: dict[str, None] = {}
        for identifier in _IDENTIFIER.findall(self.text):
            for term in self._analyze(identifier.rpartition(".")[2])[:1]:
                found[term] = None
        return [*found]

    def titles(self) -> set[str]:
        """Return the terms under which the query may name a source.

        Two or three words of the query may be one word of the name.
        """
        words = _WORD.findall(self.text)
        threes = zip(words, words[1:], words[2:], strict=False)
        joined = dict.fromkeys(map("".join, (*pairwise(words), *threes)))
        alone = name_terms(self.text, self._analyze)
        return {*alone, *self._analyze(" ".join(joined))}


def _one_error_away(term: str, known: Vocabulary) -> str:
    """Return the most frequent known term that is one typing error away, "" for none.

    The first letter is right. One letter is missing, wrong or too many, or two are exchanged.
    """
    found = {}
    for other in _with_errors(term):
        number = known.number_in_entries(other)
        if number and other != term:
            found[other] = int(known.frequencies.values[number])
    return min(found, key=lambda other: (-found[other], other), default="")


def _with_errors(term: str) -> Iterator[str]:
    letters = _letters_like(term)
    for place in range(1, len(term) + 1):
        head = term[:place]
        tail = term[place:]
        yield head + tail[1:]
        yield head + tail[1:2] + tail[:1] + tail[2:]
        for letter in letters:
            yield head + letter + tail
            yield head + letter + tail[1:]


def _letters_like(term: str) -> str:
    """Return the small letters of the alphabets that a term is written in."""
    blocks = sorted({ord(letter) // _BLOCK for letter in term})
    letters = []
    for block in blocks[:_MAX_BLOCKS]:
        for place in range(_BLOCK):
            letter = chr(block * _BLOCK + place)
            if _SPELT.match(letter) and not letter.isupper():
                letters.append(letter)
    return "".join(letters)


# The sources of an index that match a query.

NO_SOURCE = 0
"""The number of no source."""
_LENGTH_BITS = 30
_FIXED, _BY_LENGTH = 72, 48
"""The addends to occurrences in BM25's divisor, in hundredths, for k1 = 1.2 and b = 0.4.

The second one is multiplied by the length of a source in average lengths.
"""


class SourceMatches:
    """The matches of the sources of an index with a query. They are valid until the next change.

    Args:
        counts: How often the query has each term that some entry has, by number.

    Attributes:
        title_sums: The weights of the terms of each source's name that the query has, summed up.
        rarest_titles: The weight of the rarest of these terms, ONE for a term that no other name
            has.
    """

    def __init__(
        self,
        index: TextIndex,
        asked: QueryTerms,
        counts: Mapping[int, int],
    ) -> None:
        self._index = index
        self._count = len(index.sources)
        if self._count:
            self._asked = self._title_terms(asked)
        else:
            self._asked = {}
        self.title_sums, self.rarest_titles = self._match_titles()
        self.shares = self._matched(counts)

    def _title_terms(self, asked: QueryTerms) -> dict[int, int]:
        """Return the weights of the terms of the query that some name has, by number."""
        vocabulary = self._index.vocabulary
        found = {}
        for term in sorted(asked.titles()):
            number = vocabulary.number(term)
            frequency = int(vocabulary.title_frequencies.values[number])
            if frequency:
                found[number] = idf_q16(self._count, frequency)
        return found

    def _match_titles(self) -> tuple[Int64s, Int64s]:
        size = len(self._index.sources.names)
        sums = np.zeros(size, np.int64)
        rarest = np.zeros(size, np.int64)
        for number, weight in self._asked.items():
            sources = self._sources_named_by(number)
            sums[sources] += weight
            rarest[sources] = np.maximum(rarest[sources], weight)
        if not self._asked:
            return sums, rarest
        return sums, share_of_best(rarest, idf_q16(self._count, 1))

    def _matched(self, counts: Mapping[int, int]) -> Int64s:
        """Return how well each source matches, by number, from 0 to 1.

        Its content, scored by BM25 as one text, and its name count equally. The matches are cubed,
        so that few stand out.
        """
        if not self._count:
            return np.zeros(len(self._index.sources.names), np.int64)
        matches = share_of_best(self._content_scores(counts)) + share_of_best(self.title_sums)
        matches[NO_SOURCE] = 0
        shares = share_of_best(matches)
        return product(product(shares, shares), shares)

    def _content_scores(self, counts: Mapping[int, int]) -> Int64s:
        sources = self._index.sources
        size = len(sources.names)
        places, slots, times = self._index.postings(list(counts))
        # Sums of few whole numbers are exact in floats.
        held = np.bincount(places * size + sources.numbers[slots], times, size * len(counts))
        held.reshape(len(counts), size)[:, NO_SOURCE] = 0
        found = np.flatnonzero(held)
        rows = found // size
        numbers = found - rows * size
        frequencies = np.bincount(rows, minlength=len(counts)).tolist()
        weights = []
        for count, frequency in zip(counts.values(), frequencies, strict=True):
            weights.append(count * idf_q16(self._count, frequency))
        gains = share_of(held[found].astype(np.int64), self._norms()[numbers])
        gains *= np.array(weights, np.int64)[rows]
        scores = np.zeros(size, np.int64)
        np.add.at(scores, numbers, gains)
        return scores

    def _norms(self) -> Int64s:
        """Return the addend to the occurrences in each source in BM25's divisor, in Q16."""
        index = self._index
        numbers = index.sources.numbers
        lengths = np.bincount(numbers, index.facts.values["length"], len(index.sources.names))
        lengths = lengths.astype(np.int64)
        total = max(1, int(lengths[1:].sum()))
        shares = (lengths << _LENGTH_BITS) // total
        in_averages = (shares * self._count) >> (_LENGTH_BITS - SHARE_BITS)
        return ((_FIXED << SHARE_BITS) + _BY_LENGTH * in_averages) // 100

    def named(self) -> int:
        """Return how surely the query names a source, from 0 to ONE.

        A term names a source if few names have it, and if the texts that have it are those of the
        source. "sessions" names no page of a manual on sessions. A term of digits names its source,
        whatever other texts have it: each annual report has other years, too.
        """
        if not self._asked:
            return 0
        rarest = idf_q16(self._count, 1)
        shares = []
        for number, weight in self._asked.items():
            shares.append(weight * self._share_of_own(number) // rarest)
        return max(shares)

    def _share_of_own(self, number: int) -> int:
        """Return how surely texts with a term are those of the sources that are named by it.

        Returns:
            0 if it is at most half of them, ONE from three quarters on.
        """
        sources = self._index.sources
        _, slots, _ = self._index.postings([number])
        if self._index.vocabulary.are_digits.values[number] or not len(slots):
            return ONE
        is_named = np.zeros(len(sources.names), np.bool_)
        is_named[self._sources_named_by(number)] = True
        own = int(np.count_nonzero(is_named[sources.numbers[slots]]))
        return min(ONE, max(0, 4 * ONE * own // len(slots) - 2 * ONE))

    def _sources_named_by(self, number: int) -> Int64s:
        """Return the numbers of the sources whose names have a term."""
        titles = self._index.titles
        (at,) = np.nonzero(titles.values == number)
        return titles.starts.searchsorted(at, "right") - 1

    def title_shares(self, numbers: Int32s) -> Int64s:
        """Return the query's share of the names of sources; rare terms count more."""
        found = np.zeros(len(numbers), np.int64)
        (at,) = np.nonzero(self.title_sums[numbers])
        if len(at):
            sources, places = np.unique(numbers[at].astype(np.int64), return_inverse=True)
            shares = self.title_sums[sources] * ONE // self._title_weights(sources)
            found[at] = np.minimum(ONE, shares)[places]
        return found

    def _title_weights(self, sources: Int64s) -> Int64s:
        """Return the sum of the weights of the terms of the names of sources."""
        values, sizes = self._index.titles.gathered(sources)
        frequencies = self._index.vocabulary.title_frequencies.values[values]
        different, places = np.unique(frequencies, return_inverse=True)
        idfs = [idf_q16(self._count, frequency) for frequency in different.tolist()]
        weights = np.array(idfs, np.int64)[places]
        starts = np.cumsum(sizes) - sizes
        return np.add.reduceat(weights, starts)
