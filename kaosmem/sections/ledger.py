"""The ledger of a section: how far it was formed, and how its items were used and tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from kaosmem.types import JSONDict, JSONObject

if TYPE_CHECKING:
    from pydantic import AwareDatetime, TypeAdapter

NOT_ON_SHELF_YET = -1
"""The state of a formed item that a shelf does not have yet, as far as it is known."""
MAX_RUNS = 100
"""A procedure is judged by its newest runs, so many at most."""
_MANY_SHOWS = 8
"""An item that so many turns showed, and no reply used, is less important than a new one."""


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
        shelved: By the id of an item on a shelf, the number of its last update when it came there,
            and `NOT_ON_SHELF_YET` if it is yet to come.
    """

    marks: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    credited: Counter[str] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)
    used_at: dict[str, AwareDatetime] = field(default_factory=dict)
    verified_at: dict[str, AwareDatetime] = field(default_factory=dict)
    outcomes: dict[str, dict[str, bool]] = field(default_factory=dict)
    shelved: dict[str, int] = field(default_factory=dict)

    def note(
        self,
        credited: Sequence[str],
        shown: Sequence[str],
        verified: Sequence[str],
        at: datetime,
    ) -> None:
        """Count uses and shows, and note times. They only move forward, whatever two clocks say."""
        self.credited.update(credited)
        self.shown.update(shown)
        for times, item_ids in ((self.used_at, credited), (self.verified_at, verified)):
            for item_id in item_ids:
                times[item_id] = max(at, times.get(item_id, at))

    def note_run(
        self,
        item_id: str,
        run: str,
        *,
        worked: bool,
    ) -> None:
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
        if self.shown[item_id] >= _MANY_SHOWS:
            return -1
        return 0

    def _tables(self) -> list[dict[str, Any]]:
        """Return the tables by the ids of items, and by the names of runs."""
        counts = [self.credited, self.shown]
        times = [self.used_at, self.verified_at]
        return [*counts, *times, self.shelved, self.outcomes, *self.outcomes.values()]

    def known_among(self, item_ids: Set[str]) -> set[str]:
        """Return which of these ids the ledger has entries of, the names of runs included."""
        known: set[str] = set()
        return known.union(*(table.keys() & item_ids for table in self._tables()))

    def forget(self, item_ids: Set[str]) -> None:
        """Drop all entries of erased items, and of the runs that they name."""
        for table in self._tables():
            for item_id in table.keys() & item_ids:
                del table[item_id]

    def to_dict(self) -> JSONDict:
        """Return the tables that have entries, as JSON values."""
        stored = _stored_form().dump_python(self, mode="json")
        return {name: table for name, table in stored.items() if table}

    @classmethod
    def from_dict(cls, stored: JSONObject) -> Ledger:
        """Return the ledger that `to_dict` stored. Raises ValueError for any other values."""
        return _stored_form().validate_python(stored)


@cache
def _stored_form() -> TypeAdapter[Ledger]:
    # Here, since most programs have no ledger to store; pydantic finds the names of fields here.
    from pydantic import AwareDatetime, TypeAdapter  # noqa: F401

    return TypeAdapter(Ledger)
