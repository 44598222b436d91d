"""The state of a section in a damaged session, put together from the intact changes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from kaosmem.errors import InvalidArgumentError
from kaosmem.retrieval import Ranker
from kaosmem.sections import Archive, Archived, Ledger, Section, SectionSpec
from kaosmem.sections.operations import (
    Add,
    Compact,
    Evict,
    Expand,
    Forget,
    Remove,
    Replace,
    SectionOperation,
    Update,
    Use,
)
from kaosmem.types import Item, JSONValue
from kaosmem.units import Link, Units

_KEPT = ("position", "uses", "last_use")
"""What an item keeps when its content is replaced."""


@dataclass
class Remains:
    """The items of a section in a log that has lost some of its changes.

    entries: live items by id, as `Holdings.entries` gives them. archived: items that left since the newest snapshot.
    taken, clock: as Holdings has them, at least. stored, evicted: how many versions archive files hold, and how
    many of them were evicted. returned: places of what was evicted and came back.
    """

    spec: SectionSpec
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    archived: list[Archived] = field(default_factory=list)
    taken: int = 0
    clock: int = 0
    stored: int = 0
    evicted: int = 0
    returned: set[int] = field(default_factory=set)

    def find(self, state: Mapping[str, JSONValue] | None, entries: Iterable[Any]) -> int:
        """Take in a state and the entries that are left of it, and return how many of these were of no use."""
        for name, own in (("taken", "taken"), ("clock", "clock"), ("archived", "stored")):
            setattr(self, own, max(getattr(self, own), _count(state, name)))
        self.evicted = max(self.evicted, _count(state, "evicted"))
        returned = state.get("returned") if isinstance(state, dict) else None
        self.returned |= {at for at in returned if type(at) is int and at >= 0} if isinstance(returned, list) else set()
        useless = 0
        for entry in entries:
            if (item := self._item(entry)) is None:
                useless += 1
                continue
            self.entries.pop(item.id, None)  # the newest state of it counts
            self._put(item, {name: entry[name] for name in _KEPT if type(entry.get(name)) is int and entry[name] >= 0})
        return useless

    def apply(self, operation: SectionOperation) -> int:
        """Apply a change as far as its items exist. Return the number of its parts that had no effect."""
        match operation:
            case Add(item=item, evicted=evicted):
                self._archive(evicted, evicted=True, successor=item)
                self._update(item, None)
            case Update(item=item, evicted=evicted, at=at):
                self._archive(evicted, evicted=True, successor=item)
                self._update(item, at)
            case Remove(id=item_id, at=at):
                self._archive([item_id], removed_at=at)
            case Evict(ids=ids):
                self._archive(ids, evicted=True)
            case Compact(change=change, at=places):
                taken = {item_id: entry["position"] for item_id, entry in self.entries.items()}
                self._archive(change.replaced)
                for place, item in change.items:
                    self._put_at(taken.get(place, places.get(place)), item)
            case Expand(ids=ids, versions=versions):
                self._archive(ids)
                for version in versions:
                    position = version.place[0] if version.place else None
                    self.returned |= set() if position is None else {position}
                    self._put_at(position, version.item)
            case Use(ids=ids):
                self._use(ids)
            case Replace(state=state, entries=entries, archived=archived):
                self.archived += archived
                self.entries = {}
                return self.find(state, entries)
            case Forget():
                self._forget(operation)
        return 0

    def forget(self, item_ids: Container[str]) -> None:
        """Erase all versions of items."""
        self.entries = {item_id: entry for item_id, entry in self.entries.items() if item_id not in item_ids}
        self.archived = [version for version in self.archived if version.item.id not in item_ids]

    def section(self, ranker: Ranker | None) -> Section:
        """Return the section that remains."""
        self._supersede()
        archive = Archive(on_disk=self.stored)
        entries = self._in_order()
        held = {entry["position"] for entry in entries}
        placed = 0
        for version in self.archived:
            if version.position is not None and (version.position in held or version.position >= self.taken):
                version = replace(version, position=None, unit=None)
            placed += version.position is not None
            archive.put(version)
        archive.drain()  # the log has them
        asking = self._group(entries)
        state: dict[str, JSONValue] = {"taken": self.taken, "clock": self.clock, "asking": asking}
        state |= {"archived": len(archive), "evicted": self.evicted + placed, "returned": sorted(self.returned)}
        ledger = Ledger.restore(self.spec, state, entries, archive=archive, ranker=ranker)
        return Section(self.spec, ranker=ranker, ledger=ledger)

    def _item(self, stored: Any) -> Item | None:
        try:
            return Item.from_dict(stored, self.spec.name) if isinstance(stored, dict) else None
        except InvalidArgumentError:
            return None

    def _put(self, item: Item, place: Mapping[str, int]) -> None:
        entry = item.to_dict() | {"position": self.taken} | dict(place)
        self.entries[item.id] = entry
        self.taken = max(self.taken, entry["position"] + 1)

    def _put_at(self, position: int | None, item: Item) -> None:
        self._put(item, {} if position is None else {"position": position})

    def _update(self, item: Item, at: datetime | None) -> None:
        old = self.entries.get(item.id)
        if old is not None:
            version = Archived.from_dict(_without_place(old), self.spec.name)
            self.archived.append(replace(version, ordinal=old["position"], corrected=at))
        self._put(item, {name: old[name] for name in _KEPT if name in old} if old else {})

    def _archive(
        self,
        item_ids: Iterable[str],
        *,
        evicted: bool = False,
        successor: Item | None = None,
        removed_at: datetime | None = None,
    ) -> None:
        """Move items to the archive, evicted ones with their places, where they may be recalled.

        successor: the item that supersedes the item with its key. removed_at: when they were removed.
        """
        taken = [self.entries.pop(item_id) for item_id in item_ids if item_id in self.entries]
        placed = sorted((entry["position"], Item.from_dict(entry, self.spec.name)) for entry in taken)
        firsts = _grouped(placed)[0] if evicted and self.spec.recalls else {}
        for at, item in placed:
            ended = (removed_at, removed_at) if removed_at else None
            if successor is not None and item.key == successor.key is not None:
                ended = successor.valid_from, successor.created_at
            position, unit = (at, firsts[at]) if firsts else (None, None)
            self.archived.append(Archived(item, position, unit, ordinal=at, ended=ended))

    def _use(self, item_ids: Iterable[str]) -> None:
        self.clock += 1
        for item_id in item_ids:
            if item_id in self.entries:
                entry = self.entries[item_id]
                entry |= {"uses": entry.get("uses", 0) + 1, "last_use": self.clock}

    def _forget(self, operation: Forget) -> None:
        before = len(self.archived), sum(version.position is not None for version in self.archived)
        self.forget({*operation.ids})
        after = len(self.archived), sum(version.position is not None for version in self.archived)
        self.stored = max(0, self.stored - max(0, operation.archived - (before[0] - after[0])))
        self.evicted = max(0, self.evicted - max(0, operation.evicted - (before[1] - after[1])))

    def _supersede(self) -> None:
        """Move items with a newer version of their key to the archive: the record of their leaving is lost."""
        newest: dict[str, Item] = {}
        keyed = [entry for entry in self.entries.values() if entry.get("key") is not None]
        placed = [(entry["position"], Item.from_dict(entry, self.spec.name)) for entry in keyed]
        for _, item in sorted(placed, key=lambda each: (each[1].valid_from, each[0])):
            if older := newest.get(str(item.key)):
                self._archive([older.id], evicted=True, successor=item)
            newest[str(item.key)] = item

    def _in_order(self) -> list[dict[str, Any]]:
        """Return the entries with places that ascend."""
        entries = sorted(self.entries.values(), key=lambda entry: entry["position"])
        position = -1
        for entry in entries:
            position = entry["position"] = max(position + 1, entry["position"])
        self.taken = max(self.taken, position + 1)
        return entries

    def _group(self, entries: Sequence[dict[str, Any]]) -> int | None:
        """Enter the unit of each entry, and return the one that waits for results."""
        items = [(entry["position"], Item.from_dict(entry, self.spec.name)) for entry in entries]
        firsts, asking = _grouped(items)
        for entry in entries:
            entry["unit"] = firsts[entry["position"]]
        return asking


def _grouped(items: Sequence[tuple[int, Item]]) -> tuple[dict[int, int], int | None]:
    """Return the first position of each item's unit by its own, ascending, and the position that waits for results."""
    units = Units()
    for position, item in items:
        units.add(position, Link.of(item))
    return {position: units.first(position) for position, _ in items}, units.asking


def _without_place(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in (*_KEPT, "unit")}


def _count(state: Mapping[str, Any] | None, name: str) -> int:
    value = state.get(name) if isinstance(state, dict) else None
    return value if type(value) is int and value > 0 else 0
