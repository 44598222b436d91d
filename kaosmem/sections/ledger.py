"""The ledger of a section: how far it was formed, and how its items were used and tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kaosmem.errors import InvalidArgumentError
from kaosmem.sections.archive import parse_time
from kaosmem.types import JSONValue

MAX_RUNS = 100
"""A procedure is judged by its newest runs, so many at most."""
_MANY_SHOWS = 8
"""An item that so many turns showed, and no reply used, is less important than a new one."""
_TIMES = ("used_at", "verified_at")
_OF_ITEMS = ("credited", "shown", "outcomes", *_TIMES)
"""The tables by the ids of items."""


@dataclass
class Ledger:
    """How far a section was formed, and how its items were used. Archived items keep their entries.

    Attributes:
        marks: By the name of a mark, the number of items of another section that were formed. All
            later items were not.
        refused: The number of refused proposals by reason.
        credited: The number of turns whose reply used an item, by its id.
        shown: The number of turns that showed it, of those whose reply was credited.
        used_at: When a reply last used it.
        verified_at: When a fact was last said again, or confirmed by a person.
        outcomes: By the id of a procedure and the name of a run, whether the run succeeded.
    """

    marks: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    credited: Counter[str] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)
    used_at: dict[str, datetime] = field(default_factory=dict)
    verified_at: dict[str, datetime] = field(default_factory=dict)
    outcomes: dict[str, dict[str, bool]] = field(default_factory=dict)

    def note(
        self, credited: Sequence[str], shown: Sequence[str], verified: Sequence[str], at: datetime
    ) -> None:
        """Count uses and shows, and note times. They only move forward, whatever two clocks say."""
        self.credited.update(credited)
        self.shown.update(shown)
        for times, item_ids in ((self.used_at, credited), (self.verified_at, verified)):
            for item_id in item_ids:
                times[item_id] = max(at, times.get(item_id, at))

    def note_run(self, item_id: str, run: str, *, worked: bool) -> None:
        """Count a run of a procedure, once. Each procedure keeps its newest runs."""
        runs = self.outcomes.setdefault(item_id, {})
        runs.setdefault(run, worked)
        if len(runs) > MAX_RUNS:
            del runs[next(iter(runs))]

    def importance(self, item_id: str) -> int:
        """Return the importance of an item by its use: -1 to 3, and 0 for one without any.

        >>> ledger = Ledger(credited=Counter(a=2), shown=Counter(a=8, b=8))
        >>> ledger.importance("a"), ledger.importance("b"), ledger.importance("c")
        (2, -1, 0)
        """
        if item_id in self.credited:
            return min(3, self.credited[item_id].bit_length())
        return -1 if self.shown[item_id] >= _MANY_SHOWS else 0

    def _tables(self) -> list[dict[str, Any]]:
        """Return the tables by the ids of items, and by the names of runs."""
        tables = [getattr(self, name) for name in _OF_ITEMS]
        return [*tables, *self.outcomes.values()]

    def known_among(self, item_ids: Set[str]) -> set[str]:
        """Return which of these ids the ledger has entries of, the names of runs included."""
        known: set[str] = set()
        return known.union(*(table.keys() & item_ids for table in self._tables()))

    def forget(self, item_ids: Iterable[str]) -> list[str]:
        """Drop all entries of erased items. Return the ids of procedures that lost a run."""
        erased = {*item_ids}
        changed = []
        for item_id, runs in self.outcomes.items():
            if item_id not in erased and not erased.isdisjoint(runs):
                changed.append(item_id)
        for table in self._tables():
            for item_id in table.keys() & erased:
                del table[item_id]
        return changed

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the ledger as JSON values, empty if it has no entry."""
        stored = {name: deepcopy({**table}) for name, table in vars(self).items() if table}
        for name in {*_TIMES} & stored.keys():
            stored[name] = {key: at.isoformat() for key, at in stored[name].items()}
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, JSONValue]) -> Ledger:
        """Return the ledger that `to_dict` stored.

        Raises:
            InvalidArgumentError: If a number or a time is none.
            AttributeError: If there are no entries by name.
        """
        ledger = cls()
        for name, entries in stored.items():
            table = getattr(ledger, name)
            for key, value in entries.items():
                table[key] = _read(name, value)
        return ledger


def _read(name: str, value: JSONValue) -> Any:
    """Return an entry of a table, as it was stored."""
    if name in _TIMES:
        return parse_time(value)
    if name == "outcomes":
        return {run: bool(worked) for run, worked in value.items()}
    if type(value) is not int or value < 0:
        raise InvalidArgumentError("a section's ledger has a number that is none")
    return value
