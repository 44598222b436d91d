"""The index of BM25 in floats that `LinearIndex` is made of."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from kaosmem.exact import UNITS, idf
from kaosmem.language.analysis import analyze
from kaosmem.retrieval.columns import Columns, StoredColumns, encode_columns, unusable
from kaosmem.retrieval.postings import FlatPostings, Postings
from kaosmem.retrieval.rank_bm25_index import item_terms
from kaosmem.retrieval.ranker import check_new, unknown
from kaosmem.retrieval.scores import EntryScores, best

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kaosmem.retrieval.ranker import TokensOf
    from kaosmem.types.items import Item


_NO_ORDINALS = np.empty(0, np.int64)


class Slots:
    """The ordinals of entries by slot.

    A new entry gets the next slot, and that of a removed one stays empty. The first slots may be
    settled: those of entries in order of ordinals, which are found without a table.
    """

    def __init__(self, settled: NDArray[np.int64] = _NO_ORDINALS) -> None:
        self._ordinals = array("q", settled.tobytes())
        self._settled = len(settled)
        self._full = bytearray(b"\1") * len(settled)
        self._empty = 0
        self._later: dict[int, int] = {}  # ordinal -> slot, of entries that are not settled

    def __len__(self) -> int:
        """Return the number of slots, empty ones too."""
        return len(self._ordinals)

    def __contains__(self, ordinal: object) -> bool:
        return isinstance(ordinal, int) and self.get(ordinal) >= 0

    @property
    def used(self) -> int:
        return len(self._ordinals) - self._empty

    @property
    def settled(self) -> int:
        """Return how many slots were settled."""
        return self._settled

    @property
    def unsettled(self) -> int:
        """Return the number of slots that are empty or not settled."""
        return len(self._ordinals) - self._settled + self._empty

    @property
    def ordinals(self) -> NDArray[np.int64]:
        """Return the ordinal of each slot, empty ones too.

        The array is a view. Release it before the next change.
        """
        return np.frombuffer(self._ordinals, np.int64)

    def in_order(self) -> NDArray[np.int64]:
        """Return the slots of the entries in order of ordinals."""
        used = np.flatnonzero(np.frombuffer(self._full, np.bool_))
        ordinals = self.ordinals[used]
        return used if (ordinals[1:] > ordinals[:-1]).all() else used[np.argsort(ordinals)]

    def get(self, ordinal: int) -> int:
        """Return the slot of an entry, -1 for an unknown ordinal."""
        slot = self._later.get(ordinal)
        if slot is not None:
            return slot
        slot = bisect_left(self._ordinals, ordinal, 0, self._settled)
        if slot < self._settled and self._ordinals[slot] == ordinal and self._full[slot]:
            return slot
        return -1

    def find(self, ordinal: int) -> int:
        """Return the slot of an entry. Raises KeyError for an unknown ordinal."""
        slot = self.get(ordinal)
        if slot < 0:
            raise unknown(ordinal)
        return slot

    def find_all(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slots of ordinals, -1 for each unknown ordinal: shape (n,)."""
        slots = self._find_settled(wanted) if self._settled else np.full(len(wanted), -1)
        if self._later:
            (others,) = np.nonzero(slots < 0)
            later = map(self._later.get, wanted[others].tolist(), repeat(-1))
            slots[others] = np.fromiter(later, np.int64, len(others))
        return slots

    def _find_settled(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the slots of settled entries, -1 for each other ordinal: shape (n,)."""
        settled = self.ordinals[: self._settled]
        last = self._settled - 1
        # Right where no ordinal before it is missing.
        near = np.minimum(np.maximum(wanted - settled[0], 0), last)
        if not np.array_equal(settled[near], wanted):
            (others,) = np.nonzero(settled[near] != wanted)
            near[others] = np.minimum(np.searchsorted(settled, wanted[others]), last)
        is_there = (settled[near] == wanted) & np.frombuffer(self._full, np.bool_)[near]
        return np.where(is_there, near, -1)

    def append(self, ordinal: int) -> None:
        """Put a new entry into the next slot."""
        self._later[ordinal] = len(self._ordinals)
        self._ordinals.append(ordinal)
        self._full.append(1)

    def empty(self, slot: int) -> None:
        """Note that the entry in a slot is gone."""
        self._later.pop(self._ordinals[slot], None)
        self._full[slot] = 0
        self._empty += 1


def places_of(slots: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return the place of each slot among `slots`, -1 for any other slot: shape (size,)."""
    places = np.full(size, -1)
    places[slots] = np.arange(len(slots))
    return places


# From so many entries on, sorting their terms together costs less than placing each; at most so
# many at a time, as the memory of the sorting stays in the process.
_MIN_BATCH, _MAX_BATCH = 32, 1024
_MIN_UNSETTLED = 8192


class BM25Index:
    """Entries by ordinal, whose texts are ranked by BM25 over exact statistics.

    No item is kept. To remove an entry, the index finds its terms in the statistics.

    Attributes:
        tokens_of: Returns the present tokens of entries, for signals. None is their tokens when
            they came.
    """

    is_exact = True
    _kind = "bm25"

    def __init__(
        self,
        *,
        k1: float,
        b: float,
        analyze: Callable[[str], list[str]],
        tokens_of: TokensOf | None = None,
    ) -> None:
        self._k1 = k1
        self._b = b
        self._analyze = analyze
        self.tokens_of = tokens_of
        self._slots = Slots()
        self._lengths = array("i")
        self._total_length = 0
        self._postings = Postings()

    def __len__(self) -> int:
        return self._slots.used

    @property
    def ordinals(self) -> NDArray[np.int64]:
        return self._slots.ordinals[self._slots.in_order()]

    def add(self, entries: Iterable[tuple[int, Item]]) -> None:
        new = check_new(entries, self._slots)
        if len(new) < _MIN_BATCH:
            for ordinal, item in new:
                terms = item_terms(item, self._analyze)
                self._append(ordinal, item, terms)
                self._postings.attach(terms)
        else:
            for start in range(0, len(new), _MAX_BATCH):
                self._add_batch(new[start : start + _MAX_BATCH])
        self._settle(share=2 if len(new) < _MIN_BATCH else 8)  # of a large batch that costs little

    def update(self, ordinal: int, item: Item) -> None:
        slot = self._slots.find(ordinal)
        terms = item_terms(item, self._analyze)
        self._detach(slot)
        self._append(ordinal, item, terms)
        self._postings.attach(terms)
        self._settle()

    def remove(self, ordinal: int) -> None:
        self._detach(self._slots.find(ordinal))
        self._settle()

    def dump(self) -> Iterator[bytes] | None:
        """Return the bytes of the index as it is now, or None with an analysis of the caller's."""
        if self._analyze is not analyze:
            return None
        return encode_columns(self._kind, self._frozen())

    def load(self, data: bytes | memoryview) -> None:
        """Take the entries of a dump into this index, which has none. Raises CorruptionError."""
        if self._analyze is not analyze:
            raise unusable("its terms are not those of the ranker's own analysis")
        self._restore(StoredColumns(data, self._kind))

    def rank(
        self, query: str, limit: int, *, among: Collection[int] | None = None
    ) -> list[tuple[int, float]]:
        weights = self._weights(query)
        if not weights or limit < 1:
            return []
        found = self._scores_of(weights)
        slots = found.contenders(limit) if among is None else self._slots_of(among)
        return best(self._slots.ordinals[slots], found.at(slots) / UNITS, limit)

    def frequencies(self, terms: Iterable[str]) -> dict[str, int] | None:
        """Return the number of entries with each term; None with an analysis of the caller's."""
        if self._analyze is not analyze:
            return None
        return {term: self._postings.frequency(term) for term in terms}

    def scores(self, query: str) -> dict[int, float]:
        """Return the score of every entry by ordinal, not rounded."""
        slots = self._slots.in_order()
        scores = self._scores_of(self._weights(query)).at(slots) / UNITS
        return dict(zip(self._slots.ordinals[slots].tolist(), scores.tolist(), strict=True))

    def _slots_of(self, ordinals: Collection[int]) -> NDArray[np.int64]:
        """Return the slots of the known ordinals, each once."""
        try:
            found = self._slots.find_all(np.fromiter(ordinals, np.int64, len(ordinals)))
        except OverflowError:
            slots = map(self._slots.get, ordinals)
            found = np.fromiter(slots, np.int64, len(ordinals))
        chosen = np.zeros(len(self._slots), np.bool_)
        chosen[found[found >= 0]] = True
        return np.flatnonzero(chosen)

    def _append(self, ordinal: int, item: Item, terms: list[str]) -> None:
        """Note an entry's ordinal and length in the next slot."""
        self._slots.append(ordinal)
        self._lengths.append(len(terms))
        self._total_length += len(terms)

    def _detach(self, slot: int) -> None:
        """Take an entry out, whose slot stays empty."""
        self._postings.detach(slot)
        self._total_length -= self._lengths[slot]
        self._lengths[slot] = 0
        self._slots.empty(slot)

    def _add_batch(self, entries: Sequence[tuple[int, Item]]) -> None:
        """Add many entries, whose terms are sorted together instead of placed one by one."""
        terms = [item_terms(item, self._analyze) for _, item in entries]
        for (ordinal, item), own in zip(entries, terms, strict=True):
            self._append(ordinal, item, own)
        self._postings.attach_many(terms)
        self._settle()

    def _settle(self, *, share: int = 2) -> None:
        """Make the index anew from its own columns if more than one entry in `share` has changed.

        The new index is smaller and faster.
        """
        if self._slots.unsettled > max(_MIN_UNSETTLED, self._slots.settled // share):
            self._rearrange(self._slots.in_order())

    def _rearrange(self, slots: NDArray[np.int64]) -> None:
        """Move the entries, which are in these slots, into the first ones in this order."""
        # Part by part, so that no more than one of them is there twice.
        self._postings = Postings(
            self._postings.frozen()(places_of(slots, len(self._slots))), len(slots)
        )
        self._lengths = array("i", np.array(self._lengths, np.int32)[slots].tobytes())
        self._slots = Slots(self._slots.ordinals[slots])

    def _frozen(self) -> Callable[[], Columns]:
        """Return a function that makes the columns of the entries as they are now."""
        slots = self._slots.in_order()
        size = len(self._slots)
        ordinals = self._slots.ordinals[slots]
        lengths = np.array(self._lengths, np.int32)[slots]
        postings = self._postings.frozen()

        def columns() -> Columns:
            flat = postings(places_of(slots, size))
            return {"ordinals": ordinals, "lengths": lengths, **flat.columns("")}

        return columns

    def _restore(self, columns: StoredColumns) -> None:
        """Have the entries that are in columns, and no others. Raises CorruptionError."""
        ordinals = columns.numbers("ordinals", np.int64, among=(0, 1 << 63))
        lengths = columns.numbers("lengths", np.int32, among=(0, 1 << 31), size=len(ordinals))
        if not (ordinals[1:] > ordinals[:-1]).all():
            raise unusable("its ordinals are not in order")
        postings = FlatPostings.stored(columns, "", len(ordinals))
        self._slots = Slots(ordinals)
        self._lengths = array("i", lengths.tobytes())
        self._total_length = int(lengths.sum(dtype=np.int64))
        self._postings = Postings(postings, len(ordinals))

    def _weights(self, query: str) -> dict[str, float]:
        return self._weights_of(self._analyze(query))

    def _weights_of(self, terms: Iterable[str]) -> dict[str, float]:
        """Return the weight of each known term of a query: its idf times its count times k1 + 1."""
        counts = {term: n for term, n in Counter(terms).items() if term in self._postings}
        return {
            term: idf(len(self), self._postings.frequency(term)) * n * (self._k1 + 1)
            for term, n in counts.items()
        }

    def _scores_of(self, weights: Mapping[str, float]) -> EntryScores:
        return EntryScores(weights, self._postings, self._norms, len(self._slots))

    def _norms(self, slots: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        """Return the addend to occurrences in the divisor, which is larger for longer entries."""
        lengths = np.frombuffer(self._lengths, np.int32)[slots].astype(np.float64)
        average_length = max(self._total_length, 1) / max(len(self), 1)
        if self._b == 1:
            lengths = np.maximum(lengths, 1)  # or an entry without terms would get 0 / 0
        norms = lengths * (self._k1 * self._b / average_length)
        norms += self._k1 * (1 - self._b)
        return norms
