"""The state of a section in a damaged session, put together from the intact changes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from kaosmem.errors import InvalidArgumentError, UnsupportedVersionError
from kaosmem.names import shown_name
from kaosmem.retrieval import Ranker
from kaosmem.sections import Archive, Archived, Section, SectionSpec, check_time
from kaosmem.types import Item, JSONValue
from kaosmem.units import Link, Units

_KEPT = ("position", "uses", "last_use")
"""What an item keeps when its content is replaced."""


@dataclass
class Remains:
    """The items of a section in a log that has lost some of its changes.

    entries: live items by id, as in `Section.entries`. archived: items that left since the newest snapshot.
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

    def apply(self, op: str, data: Mapping[str, Any]) -> int:
        """Apply a change as far as its items exist. Return the number of its parts that had no effect.

        Raises UnsupportedVersionError for an op that is not known.
        """
        match op:
            case "add" | "update":
                return self._add(data)
            case "remove":
                self._archive([data.get("id")], removed_at=_time(data.get("at")))
            case "evict":
                self._archive(data.get("ids"), evicted=True)
            case "compact":
                return self._substitute(data.get("replaced"), data.get("items"), at=data.get("at"))
            case "expand":
                return self._substitute(data.get("ids"), data.get("versions"))
            case "use":
                self._use(data.get("ids"))
            case "replace":
                return self._replace(data)
            case "forget":
                self._forget(data)
            case _:
                raise UnsupportedVersionError(
                    f"section {self.spec.name!r} cannot repeat the change {shown_name(op)}; "
                    "open it with a newer kaosmem"
                )
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
        return Section.restore(self.spec, state, entries, archive=archive, ranker=ranker)

    def _item(self, stored: Any) -> Item | None:
        try:
            return Item.from_dict(stored, self.spec.name) if isinstance(stored, dict) else None
        except InvalidArgumentError:
            return None

    def _put(self, item: Item, place: Mapping[str, int]) -> None:
        entry = item.to_dict() | {"position": self.taken} | dict(place)
        self.entries[item.id] = entry
        self.taken = max(self.taken, entry["position"] + 1)

    def _add(self, data: Mapping[str, Any]) -> int:
        item = self._item(data.get("item"))
        self._archive(data.get("evicted"), evicted=True, successor=item)
        if item is None:
            return 1
        old = self.entries.get(item.id)
        if old is not None:
            version = Archived.from_dict(_without_place(old), self.spec.name)
            at = old["position"]
            self.archived.append(replace(version, ordinal=at, corrected=_time(data.get("at"))))
        self._put(item, {name: old[name] for name in _KEPT if name in old} if old else {})
        return 0

    def _archive(
        self,
        item_ids: object,
        *,
        evicted: bool = False,
        successor: Item | None = None,
        removed_at: datetime | None = None,
    ) -> None:
        """Move items to the archive, evicted ones with their places, where they may be recalled.

        successor: the item that supersedes the item with its key. removed_at: when they were removed.
        """
        taken = [self.entries.pop(item_id) for item_id in texts(item_ids) if item_id in self.entries]
        placed = sorted((entry["position"], Item.from_dict(entry, self.spec.name)) for entry in taken)
        firsts = _grouped(placed)[0] if evicted and self.spec.recalls else {}
        for at, item in placed:
            ended = (removed_at, removed_at) if removed_at else None
            if successor is not None and item.key == successor.key is not None:
                ended = successor.valid_from, successor.created_at
            position, unit = (at, firsts[at]) if firsts else (None, None)
            self.archived.append(Archived(item, position, unit, ordinal=at, ended=ended))

    def _substitute(self, item_ids: object, items: object, *, at: object = None) -> int:
        """Let items take the places of others, or their own. Return the number of items without effect.

        at: the positions of the others, by id.
        """
        places: dict[str, Mapping[str, Any]] = {}
        if isinstance(at, dict):
            places = {item_id: {"position": each} for item_id, each in at.items() if type(each) is int and each >= 0}
        places |= {item_id: self.entries[item_id] for item_id in texts(item_ids) if item_id in self.entries}
        self._archive(item_ids)
        useless = 0
        for stored in items if isinstance(items, list) else ():
            if (item := self._item(stored)) is None:
                useless += 1
                continue
            place = places.get(stored.get("place"), {})
            if (came_from := _position(stored)) is not None:
                place = {"position": came_from}
                self.returned.add(came_from)
            self._put(item, {"position": place["position"]} if place else {})
        return useless

    def _use(self, item_ids: object) -> None:
        self.clock += 1
        for item_id in texts(item_ids):
            if item_id in self.entries:
                entry = self.entries[item_id]
                entry |= {"uses": entry.get("uses", 0) + 1, "last_use": self.clock}

    def _replace(self, data: Mapping[str, Any]) -> int:
        useless = 0
        for stored in data.get("archived") or ():
            try:
                self.archived.append(Archived.from_dict(stored, self.spec.name))
            except (AttributeError, InvalidArgumentError):
                useless += 1
        self.entries = {}
        return useless + self.find(data.get("state"), data.get("entries") or ())

    def _forget(self, data: Mapping[str, Any]) -> None:
        before = len(self.archived), sum(version.position is not None for version in self.archived)
        self.forget(set(texts(data.get("ids"))))
        after = len(self.archived), sum(version.position is not None for version in self.archived)
        self.stored = max(0, self.stored - max(0, _count(data, "archived") - (before[0] - after[0])))
        self.evicted = max(0, self.evicted - max(0, _count(data, "evicted") - (before[1] - after[1])))

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


def _position(stored: Mapping[str, Any]) -> int | None:
    """Return the place that an archived version had, if it says one."""
    try:
        place = Archived.from_dict(stored, "").place
    except InvalidArgumentError:
        return None
    return None if place is None else place[0]


def _time(stored: object) -> datetime | None:
    """Return a stored time, None for any other value."""
    try:
        return check_time(stored)
    except InvalidArgumentError:
        return None


def texts(values: object) -> list[str]:
    """Return the texts of a value that should be a list of texts."""
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _count(state: Mapping[str, Any] | None, name: str) -> int:
    value = state.get(name) if isinstance(state, dict) else None
    return value if type(value) is int and value > 0 else 0
