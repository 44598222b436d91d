"""The part of a section that its formation keeps: marks, proposals, refusals and outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from kaosmem.errors import InvalidArgumentError
from kaosmem.types import JSONValue
from kaosmem.types.items import Item

MAX_RUNS = 100
"""A procedure is judged by its newest runs, so many at most."""


@dataclass
class FormationState:
    """How far a section was formed, and the proposals that wait for a person.

    Attributes:
        marks: By the name of a mark, the number of items of another section that were formed. All
            later items were not.
        pending: The proposals that wait for a decision, by id. No context shows them.
        refused: The number of refused proposals by reason.
        outcomes: By the id of a procedure and the name of a run, whether the run succeeded.
    """

    marks: dict[str, int] = field(default_factory=dict)
    pending: dict[str, Item] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, dict[str, bool]] = field(default_factory=dict)

    def advance(self, mark: str, until: int) -> None:
        """Move a mark forward."""
        if mark:
            self.marks[mark] = max(until, self.marks.get(mark, 0))

    def count_refusals(self, reasons: Iterable[str]) -> None:
        """Count refusals by reason."""
        for reason in reasons:
            self.refused[reason] = self.refused.get(reason, 0) + 1

    def settle(self, item_ids: Iterable[str]) -> None:
        """Drop proposals that were decided, or whose sources were forgotten."""
        for item_id in item_ids:
            self.pending.pop(item_id, None)

    def known_among(self, item_ids: Set[str]) -> set[str]:
        """Return which of these ids are those of open proposals, or name counted runs."""
        known = self.pending.keys() & item_ids
        for runs in self.outcomes.values():
            known |= runs.keys() & item_ids
        return known

    def count_outcome(self, item_id: str, run: str, *, worked: bool) -> None:
        """Count a run of a procedure, once. Each procedure keeps its newest runs."""
        runs = self.outcomes.setdefault(item_id, {})
        runs.setdefault(run, worked)
        if len(runs) > MAX_RUNS:
            del runs[next(iter(runs))]

    def forget_runs(self, item_ids: Set[str]) -> list[str]:
        """Drop forgotten procedures and runs. Return the ids of procedures that lost a run."""
        for item_id in self.outcomes.keys() & item_ids:
            del self.outcomes[item_id]
        changed = []
        for item_id, runs in self.outcomes.items():
            for run in runs.keys() & item_ids:
                del runs[run]
                changed.append(item_id)
        return changed

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the state as JSON values, empty if nothing was ever formed."""
        stored: dict[str, JSONValue] = {}
        if self.marks:
            stored["marks"] = dict(self.marks)
        if self.pending:
            stored["pending"] = [item.to_dict() for item in self.pending.values()]
        if self.refused:
            stored["refused"] = dict(self.refused)
        if self.outcomes:
            stored["outcomes"] = {item_id: dict(runs) for item_id, runs in self.outcomes.items()}
        return stored

    @classmethod
    def from_dict(cls, stored: Mapping[str, JSONValue], section: str) -> FormationState:
        """Return the state that `to_dict` stored.

        Raises:
            InvalidArgumentError: If the value is not the value of a state.
        """
        marks = check_numbers(stored.get("marks", {}))
        refused = check_numbers(stored.get("refused", {}))
        pending = {}
        for entry in stored.get("pending", ()):
            item = Item.from_dict(entry, section)
            pending[item.id] = item
        outcomes = {}
        for item_id, runs in stored.get("outcomes", {}).items():
            outcomes[item_id] = {run: bool(worked) for run, worked in runs.items()}
        return cls(marks, pending, refused, outcomes)


def check_numbers(stored: JSONValue) -> dict[str, int]:
    """Return numbers by name as they were stored.

    Raises:
        InvalidArgumentError: If the value is none.
    """
    if not isinstance(stored, dict):
        raise InvalidArgumentError("a section's formation has no numbers by name")
    if not all(type(number) is int and number >= 0 for number in stored.values()):
        raise InvalidArgumentError("a section's formation has a number that is none")
    return dict(stored)
