"""The part of a section that its formation keeps: marks, open proposals and counts of refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from kaosmem.errors import InvalidArgumentError
from kaosmem.types import JSONValue
from kaosmem.types.items import Item


@dataclass
class FormationState:
    """How far a section was formed, and the proposals that wait for a person.

    Attributes:
        marks: By the name of a mark, the number of items of another section that were formed. All
            later items were not.
        pending: The proposals that wait for a decision, by id. No context shows them.
        refused: The number of refused proposals by reason.
    """

    marks: dict[str, int] = field(default_factory=dict)
    pending: dict[str, Item] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

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

    def pending_among(self, item_ids: Set[str]) -> set[str]:
        """Return which of these ids are those of open proposals."""
        return self.pending.keys() & item_ids

    def to_dict(self) -> dict[str, JSONValue]:
        """Return the state as JSON values, empty if nothing was ever formed."""
        stored: dict[str, JSONValue] = {}
        if self.marks:
            stored["marks"] = dict(self.marks)
        if self.pending:
            stored["pending"] = [item.to_dict() for item in self.pending.values()]
        if self.refused:
            stored["refused"] = dict(self.refused)
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
        return cls(marks, pending, refused)


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
