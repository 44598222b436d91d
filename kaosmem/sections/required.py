"""The units of a section that must be shown for any query."""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain, islice

from kaosmem.sections.holdings import Holdings
from kaosmem.sections.spec import SectionSpec
from kaosmem.types import Item, StoredItem
from kaosmem.units import Link


def is_required(spec: SectionSpec, item: Item | StoredItem) -> bool:
    """Return whether an item must be shown for its own sake: it is pinned, or of role system in a static section."""
    return item.pinned or (spec.placement == "static" and item.role == "system")


class Required:
    """The held items that must be shown: pinned ones, a static section's of role system, a history's newest question.

    It is told of every change. A history's newest unit must be shown too.
    """

    def __init__(self, spec: SectionSpec, held: Holdings) -> None:
        self._spec = spec
        self._held = held
        self._needed: set[int] = set()  # pinned, or of role system in a static section
        self._questions: OrderedDict[int, None] = OrderedDict()  # of a history: users' messages, ascending
        # An item that is not decoded is not pinned: in a `query` section it need not be shown.
        for ordinal in held.read() if spec.placement == "query" else held:
            self.note(ordinal)

    @property
    def newest_question(self) -> Item | None:
        """Return the newest item of role user with more than tool results, in a history."""
        return self._held[next(reversed(self._questions))] if self._questions else None

    def note(self, ordinal: int) -> None:
        """Note an item that is new or has changed."""
        item = self._held.as_stored(ordinal)
        needed = is_required(self._spec, item)
        (self._needed.add if needed else self._needed.discard)(ordinal)
        if self._spec.placement != "history" or item.role != "user" or Link.of(item).is_results:
            self._questions.pop(ordinal, None)
        elif ordinal not in self._questions:
            is_newest = ordinal > next(reversed(self._questions), -1)
            self._questions[ordinal] = None
            if not is_newest:
                self._questions = OrderedDict.fromkeys(sorted(self._questions))

    def drop(self, ordinal: int) -> None:
        """Note that an item is held no more."""
        self._needed.discard(ordinal)
        self._questions.pop(ordinal, None)

    def units(self) -> set[int]:
        """Return the first ordinals of the units that must be shown."""
        units = self._held.units
        must = {units.first(ordinal) for ordinal in chain(self._needed, islice(reversed(self._questions), 1))}
        if self._spec.placement == "history":
            shown = (first for first in self._held.newest_first() if not units.is_orphan(first))
            must |= set(islice(shown, 1))
        return {first for first in must if not units.is_orphan(first)}
