"""The index of a section: columns that are filled once, when an entry comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from kaosmem.errors import InvalidArgumentError
from kaosmem.language.analysis import Analyzer
from kaosmem.language.analysis import analyze as own_analysis
from kaosmem.language.duplicates import duplicate_key, duplicate_key_of_text
from kaosmem.language.query import ends_with_question, has_question_near_end
from kaosmem.language.rules import plain_rules_in
from kaosmem.retrieval.bm25 import (
    BM25,
    MAX_SLOTS,
    TIMES,
    TIMES_BITS,
    TIMES_MASK,
    Postings,
    Segment,
    frozen_segments,
    idf_q16,
    length_codes,
    segment_of,
    stored_segments,
)
from kaosmem.retrieval.columns import GrowingArray, LabelColumn, RaggedColumn, SlotTable
from kaosmem.retrieval.dumps import Columns, StoredColumns, encode_columns, unusable_dump
from kaosmem.retrieval.query_terms import name_terms
from kaosmem.retrieval.ranker import check_new
from kaosmem.retrieval.scores import Scored, top
from kaosmem.retrieval.vocabulary import TermReader, Vocabulary

if TYPE_CHECKING:
    from kaosmem.retrieval.bm25 import Saturation
    from kaosmem.retrieval.columns import Int8s, Int64s, UInt32s
    from kaosmem.retrieval.ranker import CollectionStatistics
    from kaosmem.types.items import Item

_BATCH = 1_024
"""Entries that are read at a time."""
_AVERAGE_BITS = 10
_LEAST_STALE = 8_192
"""So many slots may be empty before the index is made anew."""

ENTRY_FIGURES = np.dtype(
    [
        ("tokens", np.int64),
        ("length", np.int32),
        ("figures", np.int32),
        ("is_rule", np.int32),
        ("is_question", np.int32),
        ("ends_with_question", np.int32),
        ("statement", np.int64),
    ]
)
"""The numbers of each slot, all 0 for an empty slot.

tokens: how many tokens its item has.
length: how many terms it has.
figures: how many of its terms are made of digits alone.
is_rule: 1 if it states a standing rule.
is_question: 1 if it asks something.
ends_with_question: 1 if it asks something, and says nothing after that.
statement: the same number for texts that differ in case and white space alone.
"""
_RULE_CHARS = 4_096
"""Rules are looked for in so much of a text. A longer text is mostly pasted."""
_QUESTION_TOKENS = 128
_CHARS_A_TOKEN = 4
_NEVER_RULES = frozenset({"", "assistant", "tool"})
"""The roles that set no rules."""


def sets_rule(item: Item) -> bool:
    """Return whether an item states a standing rule."""
    return item.role not in _NEVER_RULES and any(plain_rules_in(item.text[:_RULE_CHARS]))


def is_question(item: Item) -> bool:
    """Return whether an item is a question. A long text that ends with one says more than it asks.

    Images beside the text do not count.
    """
    is_text = isinstance(item.content, str)
    if is_text:
        tokens = item.tokens
    else:
        tokens = len(item.text) // _CHARS_A_TOKEN
    return tokens <= _QUESTION_TOKENS and has_question_near_end(item.text)


def source_of(item: Item) -> str | None:
    """Return the name of an item's source, None if it has none."""
    name = item.metadata.get("source")
    if isinstance(name, str) and name:
        return name
    return None


class Embedded(NamedTuple):
    """The vectors of some entries.

    Attributes:
        digests: Of their texts.
        rows: Their vectors: shape (n, dimensions).
    """

    digests: Int64s
    rows: Int8s


class Echoes(NamedTuple):
    """The messages that say just what a query or a line of it says, but for case and white space.

    Such a message is the question itself, or was the same question earlier. So it does not count
    where the other entries are compared with the query.

    Attributes:
        slots: Of the entries.
        frequencies: How many of them have each term, by number.
    """

    slots: Int64s
    frequencies: Mapping[int, int]


NO_ECHOES = Echoes(np.empty(0, np.int64), {})


class TextIndex:
    """Entries by ordinal, whose texts are ranked by BM25.

    An entry has a slot: a row of every column. A new entry gets the next slot, and so does one that
    is updated. A removed entry leaves an empty slot, whose length is 0. No item is kept.

    Args:
        k1, b: Parameters of BM25.
        analyze: Splits a text into terms.

    Attributes:
        vocabulary: The terms, by number.
        slots: The ordinals of entries, by slot.
        sequences: The numbers of the terms of each slot, in order.
        sources: The source of each slot.
        titles: The numbers of the terms of each source's name, each once, by number of source.
        roles: The role of each slot.
        is_quick: Whether the analysis is our own. A caller's may take any time.
        facts: Numbers of each slot, as of FACTS.
    """

    is_exact = True
    _kind = "bm25"

    def __init__(
        self,
        *,
        k1: float = 1.5,
        b: float = 0.75,
        analyze: Analyzer = own_analysis,
    ) -> None:
        self.collection: CollectionStatistics | None = None
        self.analyze = analyze
        self._is_ours = analyze is own_analysis
        self.is_quick = self._is_ours
        self._parameters = BM25.of(k1, b)
        self._clear()

    def _clear(self, terms: Iterable[str] = ()) -> None:
        """Have no entries. terms: the first terms of the vocabulary."""
        self.vocabulary = Vocabulary(terms)
        self._reader = TermReader(self.vocabulary, self.analyze)
        self.slots = SlotTable()
        self.sequences = RaggedColumn()
        self.sources = LabelColumn()
        self.titles = RaggedColumn()
        self.titles.extend(np.empty(0, np.uint32), np.zeros(1, np.int64))  # of no source
        self.roles = LabelColumn()
        self.facts = GrowingArray(ENTRY_FIGURES)
        self._codes = GrowingArray(np.uint16)  # of lengths
        self._postings = Postings()
        self._total_length = 0
        self._most_times = 1  # one above the largest code of occurrences
        self._longest = 1  # one above the largest code of lengths
        self._table: tuple[tuple[int, int, int], Saturation] | None = None

    def __len__(self) -> int:
        return self.slots.used

    @property
    def size(self) -> int:
        """Return the number of slots, empty ones too."""
        return len(self.slots)

    @property
    def ordinals(self) -> Int64s:
        return self.slots.ordinals[self.slots.in_order()]

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        new = check_new(entries, self.slots)
        if self.size + len(new) > MAX_SLOTS:
            raise InvalidArgumentError(
                f"an index has room for {MAX_SLOTS:,} entries; use several sections"
            )
        for start in range(0, len(new), _BATCH):
            batch = dict(new[start : start + _BATCH])
            items = [*batch.values()]
            self._append([*batch], items, self._embedded(items))
        self._settle()

    def update(self, ordinal: int, item: Item) -> None:
        slot = self.slots.find(ordinal)
        embedded = self._embedded([item])
        self._detach(slot)
        self._append([ordinal], [item], embedded)
        self._settle()

    def remove(self, ordinal: int) -> None:
        self._detach(self.slots.find(ordinal))
        self._settle()

    def _embedded(self, items: Sequence[Item]) -> Embedded | None:
        """Return the vectors of new entries, made before anything is changed."""
        return None

    def _append(
        self,
        ordinals: list[int],
        items: list[Item],
        embedded: Embedded | None,
    ) -> None:
        """Put new entries into the next slots."""
        first = self.size
        values, sizes = self._reader.read(items)
        self.slots.extend(ordinals)
        self.sequences.extend(values, sizes)
        self._index(segment_of(values, sizes, first))
        self._note_lengths(sizes)
        facts = np.zeros(len(items), ENTRY_FIGURES)
        facts["length"] = sizes
        facts["tokens"] = [item.tokens for item in items]
        facts["figures"] = self._count_figures(values, sizes)
        facts["is_rule"] = [*map(sets_rule, items)]
        questions = [*map(is_question, items)]
        facts["is_question"] = questions
        facts["ends_with_question"] = [
            asked and ends_with_question(item.text)
            for asked, item in zip(questions, items, strict=True)
        ]
        facts["statement"] = [*map(duplicate_key, items)]
        self.facts.extend(facts)
        self.roles.extend([item.role for item in items])
        for name in self.sources.extend(list(map(source_of, items))):
            self._add_title(name)

    def _index(self, segment: Segment) -> None:
        self.vocabulary.count(segment.terms, segment.frequencies)
        self._postings.add(segment)
        codes = segment.packed & TIMES_MASK
        self._most_times = max(self._most_times, 1 + int(codes.max(initial=0)))

    def _note_lengths(self, sizes: Int64s) -> None:
        codes = length_codes(sizes)
        self._codes.extend(codes)
        self._total_length += int(sizes.sum())
        self._longest = max(self._longest, 1 + int(codes.max(initial=0)))

    def _count_figures(self, values: UInt32s, sizes: Int64s) -> Int64s:
        rows = np.repeat(np.arange(len(sizes)), sizes)
        are_digits = self.vocabulary.are_digits.values[values]
        return np.bincount(rows[are_digits], minlength=len(sizes))

    def _add_title(self, name: str) -> None:
        terms = dict.fromkeys(name_terms(name, self.analyze))
        numbers = np.array(list(map(self.vocabulary.given, terms)), np.uint32)
        self.vocabulary.count_titles(numbers)
        self.titles.extend(numbers, np.array([len(numbers)]))

    def _detach(self, slot: int) -> None:
        """Take an entry out, whose slot stays empty, and forget the words that only it has."""
        self._postings.own()
        self.vocabulary.lose(np.unique(self.sequences.of(slot)))
        self._reader.forget()
        self.sequences.erase(slot)
        self._total_length -= int(self.facts.values["length"][slot])
        self.facts.put(slot, 0)
        self._codes.put(slot, 0)
        source = self.sources.clear(slot)
        if source:
            self.vocabulary.lose(self.titles.of(source), of_title=True)
            self.titles.erase(source)
        self.roles.clear(slot)
        self.slots.empty(slot)

    def _settle(self) -> None:
        """Make the index anew from its own columns where too many slots are empty."""
        if self.size - len(self) > max(_LEAST_STALE, len(self)):
            data = b"".join(encode_columns(self._kind, self._frozen()))
            self._restore(StoredColumns(data, self._kind))

    def dump(self) -> Iterator[bytes] | None:
        """Return the bytes of the index as it is now, or None with an analysis of the caller's."""
        if not self._is_ours:
            return None
        return encode_columns(self._kind, self._frozen())

    def load(self, data: bytes | memoryview) -> Self:
        """Take the entries of a dump into this index, which has none, and return it.

        Raises CorruptionError.
        """
        if not self._is_ours:
            raise unusable_dump("its terms are not those of the ranker's own analysis")
        self._restore(StoredColumns(data, self._kind))
        return self

    def _frozen(self) -> Callable[[], Columns]:
        """Return a function that makes the columns of the entries as they are now.

        The entries are in order of ordinals, and terms and labels in order of their texts.
        """
        slots = self.slots.in_order()
        roles, role_places = self.roles.in_order()
        sources, source_places = self.sources.in_order()
        own: Columns = {
            "ordinals": self.slots.ordinals[slots],
            "facts": self.facts.values[slots],
            "roles": roles,
            "role_numbers": role_places[self.roles.numbers[slots]],
            "sources": sources,
            "source_numbers": source_places[self.sources.numbers[slots]],
        }
        titles = np.array(list(map(self.sources.number, sources)), np.int64)
        texts = self._frozen_terms(slots, titles)
        return lambda: {**own, **texts()}

    def _frozen_terms(self, slots: Int64s, titles: Int64s) -> Callable[[], Columns]:
        """Return a function that makes the columns of terms of some slots and titles."""
        numbers = self.vocabulary.in_order()
        terms = list(map(self.vocabulary.term, numbers.tolist()))
        places = np.zeros(self.vocabulary.size, np.uint32)
        places[numbers] = np.arange(1, len(numbers) + 1)
        values, sizes = self.sequences.gathered(slots)
        title_values, title_sizes = self.titles.gathered(titles)

        def columns() -> Columns:
            numbers = places[values]
            return {
                "terms": terms,
                **frozen_segments(numbers, sizes),
                "values": numbers,
                "sizes": sizes.astype(np.int32),
                "title_values": places[title_values],
                "title_sizes": title_sizes.astype(np.int32),
            }

        return columns

    def _restore(self, columns: StoredColumns) -> None:
        """Have the entries that are in columns, and no others."""
        self._clear(columns.texts("terms"))
        self.slots.extend(columns.numbers("ordinals", np.int64))
        sizes = columns.numbers("sizes", np.int32).astype(np.int64)
        self.sequences.take_over(columns.numbers("values", np.uint32), sizes)
        segments = stored_segments(columns)
        self._postings = Postings(segments)
        for segment in segments:
            self.vocabulary.count(segment.terms, segment.frequencies)
        self._most_times = len(TIMES)
        self._note_lengths(sizes)
        self.roles.take_over(columns.texts("roles"), columns.numbers("role_numbers", np.int32))
        sources = columns.texts("sources")
        self.sources.take_over(sources, columns.numbers("source_numbers", np.int32))
        titles = columns.numbers("title_values", np.uint32)
        self.titles.extend(titles, columns.numbers("title_sizes", np.int32).astype(np.int64))
        self.vocabulary.count_titles(titles)
        self.facts.take_over(columns.numbers("facts", ENTRY_FIGURES))

    def rank(
        self,
        query: str,
        limit: int,
        *,
        among: Collection[int] | None = None,
    ) -> Scored:
        return self.by_words(query, limit, among=among)

    def by_words(
        self,
        query: str,
        limit: int,
        *,
        among: Collection[int] | None = None,
    ) -> Scored:
        """Return at most `limit` (ordinal, score) by BM25 alone, best first, as `Index.rank` does."""
        numbers = self.numbers_of(self.analyze(query))
        weights = self.weights(filter(None, numbers), NO_ECHOES)
        if not weights or limit < 1:
            return []
        (scores,) = self.bm25(weights)
        if among is None:
            slots = top(scores, self.slots.ordinals, limit)
        else:
            chosen = self.slots.among(among)
            slots = chosen[top(scores[chosen], self.slots.ordinals[chosen], limit)]
        values = scores[slots] * self._parameters.unit
        return list(zip(self.slots.ordinals[slots].tolist(), values.tolist(), strict=True))

    def frequencies(self, query: str) -> dict[str, int] | None:
        """Return the number of entries with each term of a query, without its echoes.

        Return None with an analysis of the caller's.
        """
        if not self._is_ours:
            return None
        terms = self.analyze(query)
        echoes = self.echoes(query)
        found = {}
        for term in terms:
            found[term] = self._frequency(self.vocabulary.number(term), echoes)
        return found

    def echoes(self, query: str) -> Echoes:
        """Return the messages that say just what a query or a line of it says."""
        texts = {query, *query.splitlines()}
        numbers = [*map(duplicate_key_of_text, texts)]
        slots = np.flatnonzero(np.isin(self.facts.values["statement"], numbers))
        is_said = self.roles.numbers[slots] != self.roles.number("")
        slots = slots[is_said & (self.facts.values["length"][slots] > 0)]
        frequencies: Counter[int] = Counter()
        for slot in slots.tolist():
            frequencies.update({*self.sequences.of(slot).tolist()})
        return Echoes(slots, frequencies)

    def numbers_of(self, terms: Iterable[str]) -> list[int]:
        """Return the numbers of terms, 0 for a term that no entry has."""
        return [*map(self.vocabulary.number_in_entries, terms)]

    def weights(self, numbers: Iterable[int], echoes: Echoes) -> dict[int, int]:
        """Return the weight of each term of a query: its idf in Q16 times its count."""
        weights = {}
        for number, times in Counter(numbers).items():
            weights[number] = times * self.idf(number, echoes)
        return weights

    def idf(self, number: int, echoes: Echoes) -> int:
        """Return the weight of a term in Q16, larger for one that fewer entries have."""
        frequency = self._frequency(number, echoes)
        entries = len(self)
        if self.collection is None:
            return idf_q16(entries, frequency)
        size = max(entries, self.collection.entries)
        term = self.vocabulary.term(number)
        as_in_sample = frequency * size // max(1, entries)
        known = self.collection.frequencies.get(term, as_in_sample)
        return idf_q16(size, min(size, max(frequency, known)))

    def _frequency(self, number: int, echoes: Echoes) -> int:
        """Return how many entries have a term, without the echoes of the query."""
        return int(self.vocabulary.frequencies.values[number]) - echoes.frequencies.get(number, 0)

    def is_known(self, term: str, echoes: Echoes) -> bool:
        """Return whether a title or an entry has a term, without the echoes of the query."""
        number = self.vocabulary.number(term)
        is_title = bool(self.vocabulary.title_frequencies.values[number])
        return is_title or self._frequency(number, echoes) > 0

    def bm25(self, *queries: Mapping[int, int]) -> list[Int64s]:
        """Return the scores of all slots in Q32 for each query, 0 for an empty slot.

        Args:
            queries: Weights in Q16, by numbers of terms. A term of a later query is one of the
                first.
        """
        return self._postings.scores(queries, self._codes.values, self._saturation())

    def postings(self, numbers: Sequence[int]) -> tuple[Int64s, Int64s, Int64s]:
        """Return where terms stand, one term after another.

        Returns:
            The place of each posting's term among `numbers`, the slot of the entry, and how often
            it has the term.
        """
        packed, sizes = self._postings.of(numbers)
        places = np.repeat(np.arange(len(numbers)), sizes)
        slots = (packed >> TIMES_BITS).astype(np.int64)
        times = TIMES[packed & TIMES_MASK]
        if len(self) < self.size:
            is_there = self.slots.are_full[slots]
            return places[is_there], slots[is_there], times[is_there]
        return places, slots, times

    def neighbours(self, slots: Int64s, steps: Sequence[int]) -> Int64s:
        """Return the slots of the entries so many ordinals further in the same source, else -1.

        Returns:
            Shape (steps, slots).
        """
        wanted = self.slots.ordinals[slots] + np.array(steps)[:, None]
        found = self.slots.find_all(wanted)
        numbers = self.sources.numbers
        is_same = (found >= 0) & (numbers[found] == numbers[slots])
        return np.where(is_same, found, -1)

    def _saturation(self) -> Saturation:
        # Most changes of a large index leave ten digits of the average as they are, and the table.
        size = max(1, len(self))
        total = self._total_length
        if self.collection is not None:
            size = max(1, self.collection.entries)
            total = self.collection.terms
        exact = max(1, (256 * total + size // 2) // size)
        dropped = max(0, exact.bit_length() - _AVERAGE_BITS)
        key = exact >> dropped << dropped, self._most_times, self._longest
        if self._table is None or self._table[0] != key:
            self._table = key, self._parameters.saturation(*key)
        return self._table[1]
