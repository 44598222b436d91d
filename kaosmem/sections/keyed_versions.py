"""The versions of a section's keys: live, evicted and removed ones, and when each holds."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from kaosmem.sections.archive import EvictedItem
from kaosmem.types.items import Item
from kaosmem.types.versions import Version, in_order, is_taken_back


class KeyedVersion(NamedTuple):
    """A version of a key: its id, when it began to hold, and when that was told."""

    id: str
    valid_from: datetime
    created_at: datetime


class KeyedVersions:
    """The versions of each key of a section, by their ordinals.

    Args:
        known: Returns the item of an ordinal, live or evicted.

    Attributes:
        several: The keys of several live versions: one that holds, and announced ones.
        evicted: The ordinals of the evicted versions, by key, the oldest first, without those that
            were taken back before they began.
        ended: When an evicted version ceased to hold, by ordinal.
        removed: By key, the newest version that was removed, until one comes that states no begin,
            or the same.
    """

    def __init__(self, known: Callable[[int], Item | EvictedItem]) -> None:
        self._known = known
        self._live: dict[str, tuple[int, ...]] = {}  # oldest first
        self.several: dict[str, None] = {}  # in an order that is the same in every process
        self.evicted: dict[str, list[int]] = {}
        self.ended: dict[int, datetime] = {}
        self.removed: dict[str, KeyedVersion] = {}

    def live(self, key: str | None) -> tuple[int, ...]:
        """Return the ordinals of the live versions of a key, oldest first."""
        if key is None:
            return ()
        return self._live.get(key, ())

    def newest(self, key: str) -> int | None:
        """Return the ordinal of the newest version of a key, live or evicted, None for none."""
        evicted = self.evicted[key][-1] if key in self.evicted else None
        if key not in self._live:
            return evicted
        live = self._live[key][-1]
        if evicted is not None and is_older(self._known(live), self._known(evicted)):
            return evicted
        return live

    def all_of(self, key: str) -> list[int]:
        """Return the ordinals of the versions of a key, live or evicted, in order."""
        return sorted([*self.evicted.get(key, ()), *self.live(key)])

    def versions(self, key: str) -> list[Version[int]]:
        """Return the versions of a key by ordinal, live or evicted, oldest first."""
        removed = self.removed.get(key)

        def ended(at: int) -> datetime | None:
            end = self.ended.get(at)
            if removed is None or self._known(at).valid_from > removed.valid_from:
                return end
            if end is None:
                return removed.valid_from
            return min(end, removed.valid_from)

        return in_order(
            self.all_of(key),
            stated=lambda at: self._known(at).stated_from,
            known_from=self._created_at,
            ended=ended,
        )

    # Which version holds.

    def superseded_by(self, item: Item, now: datetime | None) -> list[int]:
        """Return the ordinals of the live versions of an item's key that it supersedes.

        These are all versions that began no later. An announced item supersedes only one that is
        to begin at the same time: the version that holds stays until then.
        """
        superseded = []
        for at in self.live(item.key):
            other = self._known(at)
            if is_announced(item, now):
                is_superseded = other.stated_from == item.stated_from
            else:
                is_superseded = not is_older(item, other)
            if is_superseded and other.id != item.id:
                superseded.append(at)
        return superseded

    def ends_by(
        self,
        item: Item,
        superseded: Iterable[int],
        now: datetime | None,
    ) -> dict[str, tuple[datetime, datetime]]:
        """Return when the versions end that an item supersedes, and when that was told, by id.

        One that is yet to begin is taken back as the session is told.
        """
        ends = {}
        told = item.created_at
        for ordinal in superseded:
            older = self._known(ordinal)
            if is_announced(older, now):
                ends[older.id] = told, told
            else:
                ends[older.id] = max(older.valid_from, item.valid_from), told
        return ends

    def begun(self, key: str, now: datetime | None) -> list[tuple[int, int]]:
        """Return the live versions of a key whose successors have begun, each with its successor.

        If nobody knows the present, none has: the versions stay as they are.
        """
        if now is None:
            return []
        begun = [at for at in self.live(key) if not is_announced(self._known(at), now)]
        return [*pairwise(begun)]

    def later_than(self, item: Item, now: datetime | None) -> KeyedVersion | None:
        """Return the newest version of an item's key that has begun, if the item began before it.

        It may be live, evicted or removed.
        """
        key = item.key
        if key is None:
            return None
        removed = self.removed.get(key)
        if removed is not None and is_older(item, removed):
            return removed
        newest = self.newest(key)
        if newest is not None and is_announced(self._known(newest), now):
            every = self.all_of(key)
            begun = [at for at in every if not is_announced(self._known(at), now)]
            newest = max(begun, key=self._began, default=None)
        if newest is None:
            return None
        other = self._known(newest)
        if other.id == item.id and newest in self.live(key):
            return None
        if not is_older(item, other):
            return None
        return KeyedVersion(other.id, other.valid_from, self._created_at(newest))

    # Changes.

    def add_live(
        self,
        key: str,
        ordinal: int,
        item: Item,
    ) -> None:
        """Note that a version is live."""
        live = self.live(key)
        place = len(live)
        while place and is_older(item, self._known(live[place - 1])):
            place -= 1
        self._set_live(key, (*live[:place], ordinal, *live[place:]))
        removed = self.removed.get(key)
        # A version that is known to begin later may be taken back, and tells nothing of those
        # before the removed one.
        if removed is not None and item.stated_from in (None, removed.valid_from):
            del self.removed[key]

    def drop_live(self, key: str, ordinal: int) -> None:
        """Note that a version is live no longer."""
        self._set_live(key, tuple(at for at in self.live(key) if at != ordinal))

    def _set_live(self, key: str, live: tuple[int, ...]) -> None:
        self.several.pop(key, None)
        if len(live) > 1:
            self.several[key] = None
        if live:
            self._live[key] = live
        else:
            self._live.pop(key, None)

    def add_evicted(
        self, items: Mapping[int, Item | EvictedItem], ended: Mapping[int, datetime]
    ) -> None:
        """Note evicted items, of which a session may have very many, and when they ended."""
        self.ended.update(ended)
        for ordinal, item in items.items():
            if item.key is not None and not self._is_taken_back(ordinal):
                insort(self.evicted.setdefault(item.key, []), ordinal, key=self._began)

    def drop_evicted(self, ordinals: Iterable[int]) -> None:
        """Note that evicted items, which are known yet, are about to be gone."""
        for ordinal in ordinals:
            key = self._known(ordinal).key
            is_version = key is not None and not self._is_taken_back(ordinal)
            self.ended.pop(ordinal, None)
            if key is not None and is_version:
                self.evicted[key].remove(ordinal)
                if not self.evicted[key]:
                    del self.evicted[key]

    def note_removal(self, item: Item, ended: datetime | None) -> None:
        """Note that a version was removed: one that is older does not hold, told when it may be.

        This is not so if it was taken back before it began.
        """
        if item.key is None or is_taken_back(item.stated_from, ended):
            return
        known = self.removed.get(item.key)
        if known is None or not is_older(item, known):
            self.removed[item.key] = KeyedVersion(item.id, item.valid_from, item.created_at)

    def forget(self, item_ids: Container[str]) -> None:
        """Erase removed versions."""
        removed = self.removed.items()
        self.removed = {key: each for key, each in removed if each.id not in item_ids}

    def _is_taken_back(self, ordinal: int) -> bool:
        return is_taken_back(self._known(ordinal).stated_from, self.ended.get(ordinal))

    def _began(self, ordinal: int) -> tuple[datetime, int]:
        return self._known(ordinal).valid_from, ordinal

    def _created_at(self, ordinal: int) -> datetime:
        created_at = self._known(ordinal).created_at
        assert created_at is not None  # as of all with a key
        return created_at


def is_announced(item: Item | EvictedItem, now: datetime | None) -> bool:
    """Return whether an item is a version that is yet to begin by its own timestamp.

    So is an item that has expired before it began. If nobody knows the present, all have begun.
    """
    begin = item.stated_from
    if now is None or begin is None:
        return False
    return now < begin or (isinstance(item, Item) and item.is_expired(begin))


def is_older(item: Item | EvictedItem, other: Item | EvictedItem | KeyedVersion) -> bool:
    """Return whether an item is an older version than another one with its key.

    Its own timestamp decides.
    """
    begin = item.stated_from
    return begin is not None and begin < other.valid_from
