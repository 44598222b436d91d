"""Versions of one fact, each with the interval in which it held."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Interval(NamedTuple):
    """The interval of a version that its label shows. None: the label does not name this end.

    start is the first moment, end is the first moment after.
    """

    start: datetime | None = None
    end: datetime | None = None


@dataclass(frozen=True, slots=True)
class Version(Generic[T]):
    """One version of a fact: an item of a session, or a memory of a store.

    valid_from: when it began to hold: its timestamp, else the time when it was added. Aware.
    valid_until: when its successor began to hold, or when it was removed. None: it holds now.
    known_from: when the session or the store was told. Aware.

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
        """Return whether the version holds now."""
        return self.valid_until is None

    def holds_at(self, time: datetime) -> bool:
        """Return whether the version held at a time."""
        return self.valid_from <= time and (self.valid_until is None or time < self.valid_until)


def in_order(
    items: Iterable[T],
    *,
    valid_from: Callable[[T], datetime],
    known_from: Callable[[T], datetime],
    ended: Callable[[T], datetime | None] = lambda _: None,
) -> list[Version[T]]:
    """Return the versions of one fact, oldest first: each holds until the next one begins.

    items: in the order in which they became known. Of two that begin at one time, the one that became known later is
        the successor.
    ended: when a version ended without a successor, as by a removal; None if it did not.

    >>> day = lambda number: datetime(2024, 6, number, tzinfo=UTC)
    >>> [(v.item, v.valid_until and v.valid_until.day) for v in in_order([4, 2], valid_from=day, known_from=day)]
    [(2, 4), (4, None)]
    """
    ordered = sorted(items, key=valid_from)
    begins: list[datetime | None] = [*map(valid_from, ordered[1:]), None]
    versions = []
    for item, next_begin in zip(ordered, begins, strict=False):
        ends = [end for end in (next_begin, ended(item)) if end is not None]
        versions.append(Version(item, valid_from(item), min(ends, default=None), known_from(item)))
    return versions


def aware(time: datetime) -> datetime:
    """Return a time with a zone: UTC if it has none."""
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
