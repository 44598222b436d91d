"""Corrections: later items of the same speaker or source that give a subject another value.

Two statements are of one subject if they share three of the words before their values. Two texts of
one sentence are if three quarters of their words agree. They are not if each names something else
beside the value: see `statements`.

An item that says that it corrects, as in "make that 40" (`correction_cues.toml`), corrects items
shortly before it: one that shares two words with it, and without a subject of its own the values
that were told last.

Nothing is learned and nothing is asked of a model. Values in words ("noon", "Oslo") are found in
texts of one sentence alone.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import cache, reduce
from itertools import chain
from math import ceil
from operator import or_

from kaosmem.language.statements import (
    WORDS_IN_COMMON,
    Statement,
    are_of_one_subject,
    has_value,
    is_short,
    names_of,
    statements,
)
from kaosmem.language.tables import toml_table
from kaosmem.types.items import Item, once_per_item
from kaosmem.types.versions import aware


@cache
def _cues() -> re.Pattern[str]:
    """Return the pattern of the words by which a text says that it corrects, in any language."""
    languages = toml_table("correction_cues.toml")
    # Only at the beginning of a word: looking for them at each character takes 7 times as long.
    return re.compile(rf"\b(?:{'|'.join(chain.from_iterable(languages.values()))})")


def says_it_corrects(text: str) -> bool:
    """Return whether a text says that it corrects an earlier one.

    >>> says_it_corrects("Make that 40,000."), says_it_corrects("Make it two nights in Oslo?")
    (True, False)
    """
    return _cues().search(text.lower()) is not None


def without_cues(text: str) -> str:
    """Return a text without the words that say that it corrects."""
    return _cues().sub(" ", text.lower())


MAX_CORRECTIONS = 5
"""An item is shown with so many of its corrections, the newest ones, and with theirs.

A text may look like a correction and be none. With fewer, these keep the real one out.
"""

_MIN_SHARED_RATIO = 0.75
_MAX_COMPARED = 64
"""So many texts that share the words of a subject are compared with an item, the newest ones."""

CORRECTION_REACH = 5
"""An item that says that it corrects something speaks of so many items before it."""
_MIN_WORDS_IN_COMMON = 2
_SHORT_CORRECTION_REACH = 2
"""One of fewer than three words, such as "make that 40", speaks of the values told in so many items
before it.
"""


@once_per_item
def may_take_part(item: Item) -> bool:
    """Return whether an item may correct another one or be corrected.

    It has a speaker or a time.
    """
    if not (item.role or item.timestamp):
        return False
    return bool(statements(item)) or (
        is_short(item) and (has_value(item.text) or is_explicit(item))
    )


@once_per_item
def is_explicit(item: Item) -> bool:
    """Return whether an item that may correct others says that it does."""
    if not (item.role or item.timestamp) or not is_short(item):
        return False
    return says_it_corrects(item.text)


def _named(item: Item) -> frozenset[str]:
    """Return the words of an item that may name a subject, numbers and days among them."""
    return names_of(without_cues(item.text))


class Corrections:
    """Which of some items correct which: items by ordinal.

    Of two items, the one that began to hold later is later.

    Of two that began to hold at the same time, the one with the larger ordinal is later.

    Every statement is a row, the newest ones first. A set of rows is an integer with one bit a row,
    so that the rows which share words with a statement are found at once, however many there are.
    """

    def __init__(self, items: Mapping[int, Item] | None = None) -> None:
        self._items: dict[int, Item] = {}
        self.add(items or {})

    def __contains__(self, ordinal: object) -> bool:
        return ordinal in self._items

    def add(self, items: Mapping[int, Item]) -> None:
        """Add items.

        An item that states nothing, or has neither a speaker nor a time, is not kept.
        """
        for at, item in items.items():
            if may_take_part(item):
                self._items[at] = item
        self._ordinals: list[int] = []  # of the item that states each row
        self._rows: list[Statement] = []
        self._stated_by: dict[int, int] = {}  # the rows of each item
        self._told_by: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._keyed = 0
        self._words: defaultdict[str, int] = defaultdict(int)
        self._values: defaultdict[str, int] = defaultdict(int)
        # By number of words; 0 for a value in a longer text.
        self._sizes: defaultdict[int, int] = defaultdict(int)
        self._marks: defaultdict[str, int] = defaultdict(int)
        # The rows by their number of marks.
        self._mark_counts: defaultdict[int, int] = defaultdict(int)
        self._are_marks_indexed = False
        several = _tellers_of_several_times(self._items.values())
        telling = []
        for at, item in self._items.items():
            if not several.isdisjoint(_tellers(item)):
                telling.append((_began(item), at))
        self._age: dict[int, int] = {}
        for _, at in sorted(telling, reverse=True):  # newest first
            self._age[at] = len(self._age)
            self._append(at, self._items[at])

    def _append(self, at: int, item: Item) -> None:
        """Append the statements of an item that is older than all so far."""
        rows = 0
        for statement in statements(item):
            row = 1 << len(self._ordinals)
            self._ordinals.append(at)
            self._rows.append(statement)
            rows |= row
            for word in statement.words:
                self._words[word] |= row
            self._values[statement.value] |= row
            self._sizes[len(statement.words) if statement.is_whole else 0] |= row
        self._stated_by[at] = rows
        self._keyed |= rows if item.key else 0
        for teller in _tellers(item):
            self._told_by[teller] |= rows

    def of(self, ordinal: int) -> tuple[int, ...]:
        """Return the newest corrections of an item, at most `MAX_CORRECTIONS`, oldest first."""
        item = self._items.get(ordinal)
        if item is None:
            return ()
        found = {*self._restated(ordinal, item), *self._announced(ordinal, item)}
        return tuple(sorted(found, key=self._age.__getitem__, reverse=True)[-MAX_CORRECTIONS:])

    def _restated(self, ordinal: int, item: Item) -> list[int]:
        """Return the newest items that state another value of a subject of an item."""
        own = self._stated_by.get(ordinal, 0)
        if not own:
            return []
        possible = reduce(or_, (self._told_by[teller] for teller in _tellers(item)))
        possible &= (own & -own) - 1  # later ones
        possible &= ~self._keyed if item.key else -1
        if not possible:
            return []
        alike: list[tuple[Statement, int]] = []
        rows = 0
        for statement in statements(item):
            same = self._alike(statement, possible & ~self._values[statement.value])
            if same:
                alike.append((statement, same))
                rows |= same
        # Few items share the words of a statement. Marks are looked at first only where not all
        # would be compared.
        if rows.bit_count() > _MAX_COMPARED:
            alike = [(statement, self._unmarked(statement, same)) for statement, same in alike]
            rows = reduce(or_, (same for _, same in alike), 0)
        found: list[int] = []
        for _ in range(_MAX_COMPARED):
            if not rows or len(found) == MAX_CORRECTIONS:
                break
            row = rows & -rows
            rows ^= row
            number = row.bit_length() - 1
            at = self._ordinals[number]
            if not any(
                same & row and are_of_one_subject(each, self._rows[number]) for each, same in alike
            ):
                continue
            if may_correct(self._items[at], item):
                rows &= ~self._stated_by[at]
                found.append(at)
        return found

    def _announced(self, ordinal: int, item: Item) -> Iterator[int]:
        """Yield the items soon after an item that say that they correct it."""
        for at in range(ordinal + 1, ordinal + CORRECTION_REACH + 1):
            later = self._items.get(at)
            if later is None or not is_explicit(later) or not may_correct(later, item):
                continue
            if self._age[at] > self._age[ordinal]:
                continue
            named = _named(later)
            is_next = at <= ordinal + _SHORT_CORRECTION_REACH and len(named) < WORDS_IN_COMMON
            if is_next and has_value(later.text) and has_value(item.text):
                yield at
                continue
            if len(named & _named(item)) >= _MIN_WORDS_IN_COMMON:
                yield at

    def _unmarked(self, statement: Statement, among: int) -> int:
        """Return the rows that do not name another thing than a statement does, among some rows.

        They have all of its marks, or no mark that it lacks.
        """
        if not statement.marks or not among:
            return among
        if not self._are_marks_indexed:
            self._index_marks()
        # The rows that have at least 0, 1, 2, ... of its marks.
        having = [among] + [0] * len(statement.marks)
        for mark in statement.marks:
            marked = self._marks[mark]
            for count in range(len(statement.marks), 0, -1):
                having[count] |= having[count - 1] & marked
        rows = having[-1]
        for count, marked in self._mark_counts.items():
            if count < len(having):
                rows |= having[count] & marked
        return rows

    def _index_marks(self) -> None:
        """Index the marks of all rows. Most questions need none of them."""
        for number, statement in enumerate(self._rows):
            row = 1 << number
            self._mark_counts[len(statement.marks)] |= row
            for mark in statement.marks:
                self._marks[mark] |= row
        self._are_marks_indexed = True

    def _alike(self, statement: Statement, among: int) -> int:
        """Return the rows of the subject of a statement, among some rows."""
        if not among:
            return 0
        size = len(statement.words)
        sizes = [0]
        if statement.is_whole:
            sizes = [each for each in self._sizes if each and _MIN_SHARED_RATIO * each <= size]
        alike: dict[int, int] = {}
        for each in sizes:
            alike[each] = max(
                min(WORDS_IN_COMMON, size), ceil(_MIN_SHARED_RATIO * max(size, each)) if each else 0
            )
        most = size - min(alike.values(), default=size)
        # The rows that lack at most 0, 1, 2, ... of the words so far.
        lacking = [among] * (most + 1)
        for word in statement.words:
            having = self._words[word]
            for count in range(most, 0, -1):
                lacking[count] = lacking[count] & having | lacking[count - 1]
            lacking[0] &= having
            if not lacking[most]:
                return 0
        return reduce(
            or_, (lacking[size - least] & self._sizes[each] for each, least in alike.items()), 0
        )

    def words(self, ordinals: Iterable[int], limit: int) -> list[str]:
        """Return the most frequent words of the statements of items."""
        counts = Counter(
            word for at in ordinals for each in statements(self._items[at]) for word in each.words
        )
        return [
            word for word, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:limit]
        ]


def may_correct(later: Item, earlier: Item) -> bool:
    """Return whether an item may correct an earlier one, by speaker or source, time, trust and key.

    Of one speaker the later item does. Of one source it does if its `timestamp` is later: passages
    of a document are not newer than one another. Items with neither are of one source. An
    item that is trusted less corrects nothing.
    Items with keys are different facts.
    """
    if later.trust < earlier.trust or (later.key and earlier.key):
        return False
    before = earlier.timestamp
    after = later.timestamp
    if before is not None and after is not None and aware(after) < aware(before):
        return False
    shared = {*_tellers(later)} & {*_tellers(earlier)}
    if any(kind == "role" for kind, _ in shared):
        return True
    is_later = before is not None and after is not None and aware(before) < aware(after)
    return is_later and bool(shared)


@once_per_item
def _began(item: Item) -> datetime:
    """Return when an item began to hold."""
    return item.valid_from


@once_per_item
def _tellers(item: Item) -> tuple[tuple[str, str], ...]:
    """Return the speaker and the source of an item that has them, else the nameless source."""
    source = "source", _source(item)
    named = tuple(each for each in (("role", item.role), source) if each[1])
    return named or (source,)


def _tellers_of_several_times(items: Iterable[Item]) -> set[tuple[str, str]]:
    """Return the speakers of several items, and the sources of items of several times.

    Items of other speakers and sources correct nothing.
    """
    first: dict[tuple[str, str], Item] = {}
    several: set[tuple[str, str]] = set()
    for item in items:
        for teller in _tellers(item):
            known = first.setdefault(teller, item)
            if known is not item and (
                teller[0] == "role"
                or known.metadata.get("timestamp") != item.metadata.get("timestamp")
            ):
                several.add(teller)
    return several


def _source(item: Item) -> str:
    source = item.metadata.get("source")
    return source if isinstance(source, str) else ""
