"""The archive of a section: versions that have left, and evicted items whose texts are in files."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from kaosmem.errors import CorruptionError, InvalidArgumentError
from kaosmem.types import JSONValue
from kaosmem.types.items import Item


@dataclass(frozen=True, slots=True)
class Archived:
    """A version that has left a section.

    Attributes:
        position, unit: Of an item that was evicted and may be recalled, its ordinal and the first
            one of its unit.
        updated: The number of its last update then, 0 without one.
        ordinal: How many items the section had taken before it; None if that is not known.
        ended: When it stopped to hold, and when the session was told: of an item that was
            superseded or removed.
        corrected: When an update took its place.
    """

    item: Item
    position: int | None = None
    unit: int | None = None
    updated: int = 0
    ordinal: int | None = None
    ended: tuple[datetime, datetime] | None = None
    corrected: datetime | None = None

    @property
    def valid_until(self) -> datetime | None:
        """Return when it stopped to hold, None if nothing took its place."""
        return self.ended[0] if self.ended else None

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the version as JSON values."""
        stored = self.item.to_dict()
        if self.position is not None:
            stored |= {"position": self.position, "unit": self.unit}
        if self.updated:
            stored["updated"] = self.updated
        if self.ordinal is not None and self.position is None:
            stored["ordinal"] = self.ordinal
        if self.ended is not None:
            stored["ended"] = [time.isoformat() for time in self.ended]
        if self.corrected is not None:
            stored["corrected"] = self.corrected.isoformat()
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, JSONValue], section: str) -> Archived:
        """Return the version that `to_dict` stored. Raises InvalidArgumentError."""
        position = stored.get("position")
        unit = stored.get("unit")
        if not position is unit is None:
            check_place([position, unit])
        updated = check_updated(stored["updated"]) if "updated" in stored else 0
        ordinal = stored.get("ordinal", position)
        if not (ordinal is None or (type(ordinal) is int and ordinal >= 0)):
            raise InvalidArgumentError(
                "a version that has left its section does not say when it was taken"
            )
        ended = check_end(stored["ended"]) if "ended" in stored else None
        corrected = parse_time(stored["corrected"]) if "corrected" in stored else None
        return cls(
            Item.from_dict(stored, section),
            position,
            unit,
            updated,
            ordinal,
            ended,
            corrected,
        )


def check_place(place: object) -> tuple[int, int]:
    """Return an ordinal and the first one of its unit, as they were stored.

    Raises InvalidArgumentError.
    """
    match place:
        case [int(ordinal), int(unit)] if (
            type(ordinal) is type(unit) is int and 0 <= unit <= ordinal
        ):
            return ordinal, unit
    raise InvalidArgumentError("a version that has left its section does not say where it stood")


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

    def read(self, evicted: EvictedItem) -> Mapping[str, JSONValue]:
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
        is_results: It holds tool results only.
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
    is_results: bool
    file: EvictedFile = field(repr=False)
    line: int

    @property
    def item(self) -> EvictedItem:
        """Return itself, as an `Archived` has an item."""
        return self

    def read(self) -> Item:
        """Return the item with its text. Raises CorruptionError."""
        try:
            item = Item.from_dict(self.file.read(self), self.section)
        except InvalidArgumentError as error:
            raise CorruptionError(str(error)) from None
        return item if item.tokens == self.tokens else replace(item, tokens=self.tokens)


class Archive:
    """The versions that have left a section: evicted, removed or replaced.

    They stay in memory until an archive file holds them.

    Args:
        on_disk: How many versions archive files hold and memory does not.
    """

    def __init__(self, on_disk: int = 0) -> None:
        self.on_disk = on_disk
        self._versions: deque[Archived] = deque()

    def __len__(self) -> int:
        """Return how many versions were ever archived."""
        return self.on_disk + len(self._versions)

    def count_on_disk(self, versions: int) -> None:
        """Note how many versions archive files hold and memory does not."""
        self.on_disk = versions

    def get(self, item_id: str) -> Item | None:
        """Return the newest archived version of an item, if it is in memory."""
        for version in reversed(self._versions):
            if version.item.id == item_id:
                return version.item
        return None

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
