"""The archive of a section: versions that have left, and evicted items whose texts are in files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.types import JSONDict, JSONObject, JSONValue
from kaosmem.types.items import Item, StoredItem


@dataclass(frozen=True, slots=True)
class Archived:
    """A version that has left a section.

    Attributes:
        ordinal: How many items the section had taken before it; None if that is not known.
        unit: Of an item that was evicted and may be recalled, the first ordinal of its unit.
        updated: Number of the last update before it left; 0 if never updated.
        ended: When it stopped to hold, and when the session was told: of an item that was
            superseded or removed. A version that is taken back before it begins ends then.
        corrected: When an update took its place.
    """

    item: Item
    ordinal: int | None = None
    unit: int | None = None
    updated: int = 0
    ended: tuple[datetime, datetime] | None = None
    corrected: datetime | None = None

    @property
    def position(self) -> int | None:
        """Return its ordinal if it may be recalled."""
        if self.unit is None:
            return None
        return self.ordinal

    @property
    def valid_until(self) -> datetime | None:
        """Return when it stopped to hold, None if nothing took its place."""
        if self.ended:
            return self.ended[0]
        return None

    def to_dict(self) -> JSONDict:
        """Return the version as JSON values."""
        stored = self.item.to_dict()
        if self.unit is not None:
            stored |= {"position": self.ordinal, "unit": self.unit}
        elif self.ordinal is not None:
            stored["ordinal"] = self.ordinal
        if self.updated:
            stored["updated"] = self.updated
        if self.ended is not None:
            stored["ended"] = stored_end(self.ended)
        if self.corrected is not None:
            stored["corrected"] = self.corrected.isoformat()
        return stored

    @classmethod
    def from_dict(cls, stored: JSONObject, section: str) -> Archived:
        """Return the version that `to_dict` stored. Raises InvalidArgumentError."""
        unit = stored.get("unit")
        ordinal = stored.get("ordinal" if unit is None else "position")
        known = [0, *(place for place in (unit, ordinal) if place is not None)]
        is_torn = ("position" in stored) != (unit is not None)
        if is_torn or {*map(type, known)} != {int} or known != sorted(known):
            raise InvalidArgumentError(
                "a version that has left its section does not say where it stood"
            )
        updated = check_updated(stored["updated"]) if "updated" in stored else 0
        ended = check_end(stored["ended"]) if "ended" in stored else None
        corrected = parse_time(stored["corrected"]) if "corrected" in stored else None
        return cls(Item.from_dict(stored, section), ordinal, unit, updated, ended, corrected)


def stored_end(ended: tuple[datetime, datetime]) -> JSONValue:
    """Return the end of a version as JSON values, which `check_end` reads."""
    return [time.isoformat() for time in ended]


def check_end(times: object) -> tuple[datetime, datetime]:
    """Return when a stored version stopped to hold, and when that was told.

    Raises InvalidArgumentError.
    """
    match times:
        case [valid_until, told]:
            return parse_time(valid_until), parse_time(told)
    raise InvalidArgumentError("a version that has left its section does not say when it ended")


def parse_time(time: object) -> datetime:
    """Return an aware time as it was stored. Raises InvalidArgumentError."""
    try:
        found = datetime.fromisoformat(time) if isinstance(time, str) else None
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidArgumentError("a stored time is none, or has no zone")
    return found


def check_updated(number: object) -> int:
    """Return the number of an item's last update as it was stored.

    Raises InvalidArgumentError for any other value.
    """
    if type(number) is int and number > 0:
        return number
    raise InvalidArgumentError("a stored item was updated at a time that is none")


class EvictedFile(Protocol):
    """A file that holds evicted items."""

    def read(self, evicted: EvictedItem) -> JSONObject:
        """Return the stored item, from a disk of this machine. Raises CorruptionError."""
        ...


@dataclass(
    slots=True, eq=False
)  # not frozen: a session has as many as it ever evicted, and opens faster
class EvictedItem:
    """An evicted item whose text is in a file.

    Attributes:
        position, unit, updated, valid_until: As of an `Archived`.
        created_at, stated_from: Of an item with a key.
        line: Its number in the file, from 0.
    """

    id: str
    section: str
    tokens: int
    position: int
    unit: int
    updated: int
    key: str | None
    created_at: datetime | None
    stated_from: datetime | None
    valid_until: datetime | None
    file: EvictedFile = field(repr=False)
    line: int

    @property
    def item(self) -> EvictedItem:
        """Return itself, as an `Archived` has an item."""
        return self

    @property
    def valid_from(self) -> datetime:
        """Return when an item with a key began to hold."""
        assert self.created_at is not None
        return self.stated_from or self.created_at

    def read(self) -> Item:
        """Return the item with its text. Raises CorruptionError."""
        try:
            item = Item.from_dict(self.file.read(self), self.section)
        except InvalidArgumentError as error:
            raise CorruptionError(str(error)) from None
        if item.tokens == self.tokens:
            return item
        return replace(item, tokens=self.tokens)


class EvictedItems:
    """The evicted items of a section by ordinal. They may be recalled.

    Attributes:
        evicted: The items, as an EvictedItem if a file holds the text.
        evicted_used: The tokens of the items.
        texts: Items that only files hold and that were read, by ordinal: those read last.
        lost: The reasons why items can no longer be recalled, by their texts.
        unloaded: Number of further items in archive files, of which nothing else is known.
    """

    def __init__(self) -> None:
        self.evicted: dict[int, Item | EvictedItem] = {}
        self.evicted_used = 0
        self.texts: dict[int, Item] = {}
        self.lost: dict[str, CorruptionError] = {}
        self.unloaded = 0
        # Numbers by ordinal, and not an object for each item: the garbage collector passes over a
        # dict of numbers, and ranking reads those of hundreds of items scattered over all.
        self._tokens: dict[int, int] = {}  # of live and evicted items

    def whole(self, item: Item | StoredItem | EvictedItem | None) -> Item | None:
        """Return an item with its text; None, and note the loss, if it can't be read.

        Another thread may ask while the items change.
        """
        if isinstance(item, StoredItem):
            return item.item()
        if not isinstance(item, EvictedItem):
            return item
        try:
            return item.read()
        except CorruptionError as error:
            self.lost.setdefault(str(error), error)
            return None

    def _keep(self, items: Mapping[int, Item | EvictedItem]) -> None:
        """Keep evicted items, of which a session may have very many."""
        self.evicted.update(items)
        for ordinal, item in items.items():
            self._tokens[ordinal] = item.tokens
            self.evicted_used += item.tokens

    def in_files(self, before: int) -> list[EvictedItem]:
        """Return the evicted items before an ordinal whose texts only files hold."""
        rows = self.evicted.values()
        return [each for each in rows if isinstance(each, EvictedItem) and each.position < before]

    def evicted_among(self, item_ids: Container[str]) -> set[int]:
        """Return the ordinals under which any of these ids was evicted."""
        return {ordinal for ordinal, item in self.evicted.items() if item.id in item_ids}

    def place(self, evicted: EvictedItem) -> None:
        """Let go of an evicted item's text, which a file holds now."""
        known = self.evicted.get(evicted.position)
        if known is not None and (known.id, known.tokens) == (evicted.id, evicted.tokens):
            self.evicted[evicted.position] = evicted


class Archive:
    """The versions that have left a section: evicted, removed or replaced.

    They stay in memory until an archive file holds them.

    Attributes:
        on_disk: How many versions archive files hold and memory does not.
    """

    def __init__(self, on_disk: int = 0) -> None:
        self.on_disk = on_disk
        self._versions: deque[Archived] = deque()

    def __len__(self) -> int:
        """Return how many versions were ever archived."""
        return self.on_disk + len(self._versions)

    def newest(self, item_id: str) -> Archived | None:
        """Return the newest archived version of an item, if it is in memory."""
        for version in reversed(self._versions):
            if version.item.id == item_id:
                return version
        return None

    def get(self, item_id: str) -> Item | None:
        """Return an item as its newest archived version has it, if that is in memory."""
        version = self.newest(item_id)
        if version is None:
            return None
        return version.item

    def put(self, version: Archived) -> None:
        """Archive a version of an item."""
        self._versions.append(version)

    def in_memory(self) -> list[Archived]:
        """Return the versions in memory, oldest first."""
        return list(self._versions)

    def forget(self, item_ids: Container[str], count: int) -> None:
        """Erase all versions of items.

        Args:
            count: Number of all versions. Archive files hold those that are not in memory.
        """
        versions = list(self._versions)
        self._versions = deque(version for version in versions if version.item.id not in item_ids)
        in_memory = len(versions) - len(self._versions)
        self.on_disk = max(0, self.on_disk - max(0, count - in_memory))

    def recount(self, count: Callable[[Item], int]) -> None:
        """Measure anew all items in memory."""
        versions = (
            replace(version, item=replace(version.item, tokens=count(version.item)))
            for version in self._versions
        )
        self._versions = deque(versions)

    def release(self, written: Iterable[Archived]) -> None:
        """Let go of the oldest versions in memory that an archive file holds now."""
        for version in written:
            if not self._versions or self._versions[0] is not version:
                return
            self._versions.popleft()
            self.on_disk += 1
