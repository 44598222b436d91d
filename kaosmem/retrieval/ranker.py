"""The Ranker and Index protocols, and checks that every index shares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kaosmem.types.items import Item


def no_signals(_: int) -> Mapping[str, float]:
    """Return no parts of a score: the index does not tell them."""
    return {}


@dataclass(frozen=True, slots=True)
class Ranking:
    """The ranked entries of an index, with the parts of their scores.

    Attributes:
        matches: (ordinal, score), best first.
        signals: Returns the parts of an ordinal's score, by name.
    """

    matches: Sequence[tuple[int, float]] = ()
    signals: Callable[[int], Mapping[str, float]] = field(
        default=no_signals, repr=False, compare=False
    )


class Index(Protocol):
    """The items of one section, each under its ordinal: an int from 0 up, larger for a newer entry.

    An index may have four more members:
    `ranking`, with the arguments of `rank`, returns a `Ranking` with the parts of its scores.
    `frequencies` returns the number of entries with each of the terms that `analyze` finds in a
    query, without the messages that are the query itself. It returns None if the index analyses
    texts otherwise.
    `is_exact` is True if the scores are the same on every machine, since they come from whole
    numbers.
    `is_quick` is True if a text is added in far less than a millisecond. Then a session adds a few
    in the event loop. Otherwise it adds them in another thread.
    """

    def __len__(self) -> int:
        """Return the number of entries."""

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        """Add entries of (ordinal, item).

        Raises:
            ValueError: If an ordinal is negative or taken.
        """

    def update(self, ordinal: int, item: Item) -> None:
        """Put another item, or a version of the item, in an entry's place.

        Raises:
            KeyError: If no entry has this ordinal.
        """

    def remove(self, ordinal: int) -> None:
        """Remove an entry, and every word that it alone has.

        Raises:
            KeyError: If no entry has this ordinal.
        """

    def rank(
        self,
        query: str,
        limit: int,
        *,
        among: Collection[int] | None = None,
    ) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score), best first.

        There are none if no entry has a word of the query, or a word that stands for it. Scores are
        above 0. Of equal scores, the newest entry comes first. The same entries and query give the
        same answer, whatever changes led to the entries. Scores need no rounding: `ranking_of`
        rounds them wherever an index is asked.

        Args:
            among: The ordinals to choose from. Unknown ordinals are passed over. None is all. If an
                index scores each entry alone, `among` changes no score.
        """


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """The figures of a collection, of which an index may hold a sample.

    Attributes:
        entries: Number of entries in the collection.
        terms: Number of terms of all entries, repeated ones too.
        frequencies: Number of entries with a term. A term that is missing is judged by the sample.
    """

    entries: int
    terms: int
    frequencies: Mapping[str, int] = field(default_factory=dict, repr=False)


@runtime_checkable
class SampleIndex(Index, Protocol):
    """An index that can score a sample as the whole collection would score it.

    Attributes:
        collection: The collection that the entries are from. None: the entries are all there are.
    """

    collection: CollectionStatistics | None


class StorableIndex(Index, Protocol):
    """An index that can be kept in a file.

    Reading it back takes a fraction of the time that making it takes. It keeps no item.
    """

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """Return the ordinals of the entries, ascending: shape (n,)."""

    def dump(self) -> Iterator[bytes] | None:
        """Return the index as it is now, in bytes.

        The bytes may be asked for later, and in another thread. The same entries give the same
        bytes, whatever changes led to them.

        Returns:
            None if the ranker has an analysis of the caller's: nobody can tell whether a reader
            would have the same terms.
        """


@runtime_checkable
class Ranker(Protocol):
    """Orders candidates for a query, by an index of its own for each section."""

    @property
    def name(self) -> str:
        """Return the name of the method and its parameters, such as `bm25-lucene`."""

    def index(self) -> Index:
        """Return a new, empty index."""


@runtime_checkable
class StorableRanker(Ranker, Protocol):
    """A ranker whose indexes can be stored."""

    def index(self) -> StorableIndex:
        """Return a new, empty index."""

    def load(self, data: bytes | memoryview) -> StorableIndex:
        """Return the index of a dump.

        The bytes are kept as they are until the index is changed. Nothing in a dump depends on the
        ranker's parameters or weights.

        Raises:
            CorruptionError: If the dump is of another kind of index, another version or another
                analysis, or is damaged so that it would fail later. Other damage gives wrong
                scores, so check the bytes before.
        """


_DIGITS = ".14g"
"""Scores keep 14 significant digits: their last bits differ between machines."""


def ranking_of(
    index: Index,
    query: str,
    limit: int,
    *,
    among: Collection[int] | None = None,
) -> Ranking:
    """Return the ranking of an index for a query, in order of rounded scores.

    Of equal scores, the newest entry comes first. Two machines that work out a score in floats
    seldom agree in its last bits.
    """
    # Looked up by name: isinstance of a Protocol costs more than the rest of a small query.
    if hasattr(index, "ranking"):
        found: Ranking = index.ranking(query, limit, among=among)
    else:
        found = Ranking(index.rank(query, limit, among=among))
    if getattr(index, "is_exact", False):
        return found
    matches = [(ordinal, float(format(score, _DIGITS))) for ordinal, score in found.matches]
    matches.sort(key=_best_first)

    def signals(ordinal: int) -> Mapping[str, float]:
        return {name: round(value, 9) for name, value in found.signals(ordinal).items()}

    return Ranking(matches, signals)


def _best_first(match: tuple[int, float]) -> tuple[float, int]:
    ordinal, score = match
    return -score, -ordinal


MAX_ORDINALS = 1 << 31
"""A section numbers its items from 0 up. An index has a few bytes for each number up to its last."""


def check_new(entries: Iterable[tuple[int, Item]], taken: Container[int]) -> list[tuple[int, Item]]:
    """Return the entries as a list.

    Raises:
        ValueError: If an ordinal is negative, taken or given twice.
    """
    checked: dict[int, Item] = {}
    for ordinal, item in entries:
        if not 0 <= ordinal < MAX_ORDINALS:
            raise ValueError(f"ordinal {ordinal} is out of range; number entries from 0 up")
        if ordinal in taken or ordinal in checked:
            raise ValueError(f"ordinal {ordinal} is taken; give a new one, or update the entry")
        checked[ordinal] = item
    return list(checked.items())


def unknown_ordinal(ordinal: int) -> KeyError:
    """Return the error for an ordinal that no entry has."""
    return KeyError(f"no entry has ordinal {ordinal}; add it first")
