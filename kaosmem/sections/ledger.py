"""The ledger of a section: how far it was formed, and how its items were used and tried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime

from kaosmem.errors import InvalidArgumentError
from kaosmem.sections.archive import parse_time
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

MAX_RUNS = 100
"""A procedure is judged by its newest runs, so many at most."""
_MANY_SHOWS = 8
"""An item that so many turns showed, and no reply used, is less important than a new one."""
_NUMBERS = ("marks", "refused", "credited", "shown")
_TIMES = ("used_at", "verified_at")
_BY_ITEM = ("pending", "credited", "shown", "used_at", "verified_at", "outcomes")


@dataclass
class Ledger:
    """How far a section was formed, and how its items were used. Archived items keep their entries.

    Attributes:
        marks: By the name of a mark, the number of items of another section that were formed. All
            later items were not.
        refused: The number of refused proposals by reason.
        pending: The proposals that wait for a decision, by id. No context shows them.
        credited: The number of turns whose reply used an item, by its id.
        shown: The number of turns that showed it, of those whose reply was credited.
        used_at: When a reply last used it.
        verified_at: When a fact was last said again, or confirmed by a person.
        outcomes: By the id of a procedure and the name of a run, whether the run succeeded.
    """

    marks: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    pending: dict[str, Item] = field(default_factory=dict)
    credited: dict[str, int] = field(default_factory=dict)
    shown: dict[str, int] = field(default_factory=dict)
    used_at: dict[str, datetime] = field(default_factory=dict)
    verified_at: dict[str, datetime] = field(default_factory=dict)
    outcomes: dict[str, dict[str, bool]] = field(default_factory=dict)

    def note_use(self, item_id: str, at: datetime) -> None:
        """Count that a reply used an item. Times only move forward, whatever two clocks say."""
        self.credited[item_id] = self.credited.get(item_id, 0) + 1
        self.used_at[item_id] = max(at, self.used_at.get(item_id, at))

    def note_verification(self, item_id: str, at: datetime) -> None:
        """Note that a fact was said again, or confirmed."""
        self.verified_at[item_id] = max(at, self.verified_at.get(item_id, at))

    def note_run(self, item_id: str, run: str, *, worked: bool) -> None:
        """Count a run of a procedure, once. Each procedure keeps its newest runs."""
        runs = self.outcomes.setdefault(item_id, {})
        runs.setdefault(run, worked)
        if len(runs) > MAX_RUNS:
            del runs[next(iter(runs))]

    def importance(self, item_id: str) -> int:
        """Return the importance of an item by its use: -1 to 3, and 0 for one without any.

        >>> ledger = Ledger(credited={"a": 2}, shown={"a": 8, "b": 8})
        >>> ledger.importance("a"), ledger.importance("b"), ledger.importance("c")
        (2, -1, 0)
        """
        credited = self.credited.get(item_id, 0)
        if credited:
            return min(3, credited.bit_length())
        return -1 if self.shown.get(item_id, 0) >= _MANY_SHOWS else 0

    def known_among(self, item_ids: Set[str]) -> set[str]:
        """Return which of these ids the ledger has entries of, the names of runs included."""
        known = self.pending.keys() | self.credited.keys() | self.shown.keys()
        known |= self.verified_at.keys()
        for runs in self.outcomes.values():
            known |= runs.keys()
        return known & item_ids

    def forget(self, item_ids: Iterable[str]) -> list[str]:
        """Drop all entries of erased items. Return the ids of procedures that lost a run."""
        erased = {*item_ids}
        for name in _BY_ITEM:
            entries = getattr(self, name)
            for item_id in entries.keys() & erased:
                del entries[item_id]
        changed = []
        for item_id, runs in self.outcomes.items():
            for run in runs.keys() & erased:
                del runs[run]
                changed.append(item_id)
        return changed

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the ledger as JSON values, empty if it has no entry."""
        stored: dict[str, JSONValue] = {}
        for name in (*_NUMBERS, "outcomes"):
            stored[name] = deepcopy(getattr(self, name))
        for name in _TIMES:
            stored[name] = {}
            for item_id, at in getattr(self, name).items():
                stored[name][item_id] = at.isoformat()
        stored["pending"] = [item.to_dict() for item in self.pending.values()]
        return {name: entries for name, entries in stored.items() if entries}

    @classmethod
    def from_dict(cls, stored: Mapping[str, JSONValue], section: str) -> Ledger:
        """Return the ledger that `to_dict` stored.

        Raises:
            InvalidArgumentError: If a number or a time is none.
            AttributeError: If there are no entries by name.
        """
        ledger = cls()
        for name in _NUMBERS:
            for entry, number in stored.get(name, {}).items():
                if type(number) is not int or number < 0:
                    raise InvalidArgumentError("a section's ledger has a number that is none")
                getattr(ledger, name)[entry] = number
        for name in _TIMES:
            for item_id, at in stored.get(name, {}).items():
                getattr(ledger, name)[item_id] = parse_time(at)
        for each in stored.get("pending", ()):
            item = Item.from_dict(each, section)
            ledger.pending[item.id] = item
        for item_id, runs in stored.get("outcomes", {}).items():
            for run, worked in runs.items():
                ledger.outcomes.setdefault(item_id, {})[run] = bool(worked)
        return ledger
