"""An index that is made when a section is first ranked, and catches up before each ranking."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import TYPE_CHECKING

from kaosmem.sections.holdings import Holdings

if TYPE_CHECKING:
    from kaosmem.retrieval import Index, Ranker


class LazyIndex:
    """A ranker's index over holdings: made when first asked, then told of changes in batches, just before it ranks."""

    def __init__(self, ranker: Ranker | None, held: Holdings) -> None:
        self._ranker = ranker
        self._held = held
        self._index: Index | None = None
        self._stale: dict[int, bool] = {}  # held ordinal, new or changed -> whether the index has it
        self._gone: list[int] = []  # ordinals that the index has still

    def added(self, ordinal: int) -> None:
        """Note a new item."""
        if self._index is not None:
            self._stale[ordinal] = False

    def changed(self, ordinal: int) -> None:
        """Note an item's new version."""
        if self._index is not None:
            self._stale.setdefault(ordinal, True)

    def removed(self, ordinal: int) -> None:
        """Note that an item is gone."""
        if self._index is not None and self._stale.pop(ordinal, True):
            self._gone.append(ordinal)

    def inherit(self, other: LazyIndex, shared: int) -> None:
        """Take another's index, and note what differs: any of the first `shared` items may, and all later ones do."""
        if other._index is None:
            return
        self._index = other.synced()
        before, now = ({*chain(each._held.past, each._held)} for each in (other, self))
        kept = {ordinal for ordinal in before & now if ordinal < shared}
        self._gone = list(before - kept)
        self._stale = dict.fromkeys(now - kept, False)
        self._stale |= {ordinal: True for ordinal in kept if self._held[ordinal] != other._held[ordinal]}

    def rank(self, query: str, limit: int, *, among: Collection[int] | None = None) -> list[tuple[int, float]]:
        """Return at most `limit` (ordinal, score), best first, of all items or of those `among` these ordinals."""
        return self.synced().rank(query, limit, among=among)

    def synced(self) -> Index:
        """Return the index, which has all changes."""
        if self._index is None:
            self._index = self._made()
            self._stale = dict.fromkeys(chain(self._held.past, self._held), False)
        self.purge()
        for ordinal, indexed in self._stale.items():
            if indexed:
                self._index.update(ordinal, self._held[ordinal])
        self._index.add((ordinal, self._held[ordinal]) for ordinal, indexed in self._stale.items() if not indexed)
        self._stale.clear()
        return self._index

    def purge(self) -> None:
        """Take what is gone out of the index, which would keep it until it is asked again."""
        while self._index is not None and self._gone:  # each once, also where a later one raises
            self._index.remove(self._gone.pop())

    def _made(self) -> Index:
        if self._ranker is None:
            from kaosmem.retrieval.linear import LinearRanker

            self._ranker = LinearRanker()
        return self._ranker.index()
