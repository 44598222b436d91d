"""The use of a section's items: how often replies used them, and when facts were last verified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

from kaosmem.sections.archive import parse_time
from kaosmem.sections.formation_state import check_numbers
from kaosmem.types import JSONValue

_MANY_SHOWS = 8
"""An item that so many turns showed, and no reply used, is less important than a new one."""


@dataclass
class Usage:
    """The use of a section's items, by their ids. Evicted and archived items keep theirs.

    Attributes:
        credited: The number of turns whose reply used an item.
        shown: The number of turns that showed it, of those whose reply was credited.
        used_at: When a reply last used it.
        verified_at: When a fact was last said again, or confirmed by a person.
    """

    credited: dict[str, int] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    used_at: dict[str, datetime] = field(default_factory=dict)
    verified_at: dict[str, datetime] = field(default_factory=dict)

    def count(
        self,
        at: datetime,
        *,
        credited: Iterable[str] = (),
        shown: Iterable[str] = (),
        verified: Iterable[str] = (),
    ) -> None:
        """Count one turn. Times only move forward, whatever the clocks of two writers say."""
        for item_id in credited:
            self.credited[item_id] = self.credited.get(item_id, 0) + 1
            self.used_at[item_id] = max(at, self.used_at.get(item_id, at))
        for item_id in shown:
            self.shown[item_id] = self.shown.get(item_id, 0) + 1
        for item_id in verified:
            self.verified_at[item_id] = max(at, self.verified_at.get(item_id, at))

    def forget(self, item_ids: Iterable[str]) -> None:
        """Drop the counts of erased items."""
        for item_id in item_ids:
            for values in (self.credited, self.shown, self.used_at, self.verified_at):
                values.pop(item_id, None)

    def among(self, item_ids: Set[str]) -> set[str]:
        """Return which of these ids have a count or a time."""
        known = self.credited.keys() | self.shown.keys() | self.verified_at.keys()
        return known & item_ids

    def importance(self, item_id: str) -> int:
        """Return the importance of an item by its use: -1 to 3, and 0 for one without any.

        >>> usage = Usage()
        >>> for day in range(1, 9):
        ...     usage.count(datetime(2026, 1, day), credited=["a"][day // 3 :], shown=["a", "b"])
        >>> usage.importance("a"), usage.importance("b"), usage.importance("c")
        (2, -1, 0)
        """
        credited = self.credited.get(item_id, 0)
        if credited:
            return min(3, credited.bit_length())
        return -1 if self.shown.get(item_id, 0) >= _MANY_SHOWS else 0

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the use as JSON values, empty if nothing was counted."""
        stored: dict[str, JSONValue] = {}
        for name, numbers in (("credited", self.credited), ("shown", self.shown)):
            if numbers:
                stored[name] = dict(numbers)
        for name, times in (("used_at", self.used_at), ("verified_at", self.verified_at)):
            if times:
                stored[name] = {item_id: at.isoformat() for item_id, at in times.items()}
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, JSONValue]) -> Usage:
        """Return the use that `to_dict` stored.

        Raises:
            InvalidArgumentError: If the value is not the value of a use.
        """
        return cls(
            check_numbers(stored.get("credited", {})),
            check_numbers(stored.get("shown", {})),
            _times(stored.get("used_at", {})),
            _times(stored.get("verified_at", {})),
        )


def _times(stored: JSONValue) -> dict[str, datetime]:
    if not isinstance(stored, dict):
        raise TypeError("times are no mapping")
    return {item_id: parse_time(at) for item_id, at in stored.items()}
