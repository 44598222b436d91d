"""Versions of one fact, each with the interval in which it held."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter, itemgetter
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


class Interval(NamedTuple):
    """The interval of a version that its label shows. None: the label does not name this end.

    start is the first moment, end is the first moment after.

    is_announced: Whether the fact has a version that is yet to begin. A label then names the days,
    whatever its section says of days: they tell at any time which version holds.
    """

    start: datetime | None = None
    end: datetime | None = None
    is_announced: bool = False

    @property
    def text(self) -> str:
        """Return the interval in words, "" for one without ends.

        >>> Interval(datetime(2023, 3, 1), datetime(2024, 6, 1)).text
        '1 March 2023 until 1 June 2024'
        >>> Interval(datetime(2024, 6, 1)).text
        'since 1 June 2024'
        """
        if self.start:
            start = day_text(self.start)
        else:
            start = ""
        if self.end:
            end = day_text(self.end)
        else:
            end = ""
        return interval_text(start, end)

    def covers(self, time: datetime) -> bool:
        """Return whether a time is in the interval. An end that is None is open."""
        if self.start is not None and time < aware(self.start):
            return False
        return self.end is None or time < aware(self.end)


@dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """One version of a fact: an item of a session, or a memory of a store.

    Attributes:
        valid_from: When it began to hold: its timestamp, else the time when it was added. Aware.
        valid_until: When its successor began to hold, or when it was removed. None: it has no end.
            Before `valid_from`: it was taken back before it began, and has never held.
        known_from: When the session or the store was told. Aware.

    >>> may, june = datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)
    >>> Version("1 Elm Street", may, june, known_from=may).holds_at(june)
    False
    """

    item: T
    valid_from: datetime
    valid_until: datetime | None
    known_from: datetime

    @property
    def is_current(self) -> bool:
        """Return whether no other version has replaced it. It may be yet to begin."""
        return self.valid_until is None

    @property
    def is_taken_back(self) -> bool:
        """Return whether it ended before it began, and so has never held."""
        return self.valid_until is not None and self.valid_until < self.valid_from

    def holds_at(self, time: datetime) -> bool:
        """Return whether the version held at a time."""
        if time < self.valid_from:
            return False
        return self.valid_until is None or time < self.valid_until


def is_taken_back(stated: datetime | None, ended: datetime | None) -> bool:
    """Return whether a version ended before it began by its own statement. So it never holds."""
    return stated is not None and ended is not None and ended < stated


def in_order(
    items: Iterable[T],
    *,
    stated: Callable[[T], datetime | None],
    known_from: Callable[[T], datetime],
    ended: Callable[[T], datetime | None] = lambda _: None,
) -> list[Version[T]]:
    """Return the versions of one fact, oldest first: each holds until the next one begins.

    A version that was taken back before it began ends no other version.

    Args:
        items: In the order in which they became known. If two begin at one time, the later known
            item is the successor.
        stated: Returns when a version began to hold by its own statement, None without one. A
            version without a statement began when it became known, but not before any version that
            was known by then: the clocks of two writers may differ.
        ended: Returns when a version ended without a successor, as by a removal, or None.

    >>> at = lambda number: datetime(2024, 6, number, tzinfo=UTC)
    >>> versions = in_order([4, 2], stated=at, known_from=at)
    >>> [(v.item, v.valid_until and v.valid_until.day) for v in versions]
    [(2, 4), (4, None)]
    """
    begins: list[tuple[datetime, T]] = []
    versions = []
    latest: datetime | None = None
    for item in items:
        begin = stated(item)
        end = ended(item)
        known = known_from(item)
        if begin is not None and is_taken_back(begin, end):
            versions.append(Version(item, begin, end, known))
            continue
        if latest is None:
            latest = begin or known
        if begin is None:
            begin = max(latest, known)
        latest = max(latest, begin)
        begins.append((begin, item))
    begins.sort(key=itemgetter(0))
    for place, (begin, item) in enumerate(begins, 1):
        successor = None
        if place < len(begins):
            successor = begins[place][0]
        ends = [max(begin, end) for end in (successor, ended(item)) if end is not None]
        versions.append(Version(item, begin, min(ends, default=None), known_from(item)))
    return sorted(versions, key=attrgetter("valid_from"))


def known_by(versions: Sequence[Version[T]], time: datetime) -> list[Version[T]]:
    """Return the versions of one fact that were known by a time, with the ends known then.

    The oldest version comes first.

    >>> at = lambda number: datetime(2024, 6, number, tzinfo=UTC)
    >>> versions = in_order([4, 2], stated=at, known_from=lambda day: at(9 - day))
    >>> [(v.item, v.known_from.day, v.valid_until) for v in known_by(versions, at(5))]
    [(4, 5, None)]
    """
    known = [version for version in versions if version.known_from <= time]
    later = {version.valid_from for version in versions if version.known_from > time}
    successors: list[datetime | None] = [*(version.valid_from for version in known[1:]), None]
    told = []
    for version, successor in zip(known, successors, strict=False):
        stated = None
        if version.valid_until not in later:
            stated = version.valid_until
        ends = [end for end in (successor, stated) if end is not None]
        told.append(replace(version, valid_until=min(ends, default=None)))
    return told


def interval_text(start: str, end: str) -> str:
    """Return the interval between two dates in words. An empty date is not stated."""
    if not end:
        return f"since {start}" if start else ""
    return f"{start} until {end}".lstrip()


def day_text(time: datetime) -> str:
    """Return the day of a time in words: `1 June 2024`."""
    return f"{time.day} {_MONTHS[time.month - 1]} {time.year}"


def aware(time: datetime) -> datetime:
    """Return a time with a zone: UTC if it has none."""
    if time.tzinfo is not None:
        return time
    return time.replace(tzinfo=UTC)
