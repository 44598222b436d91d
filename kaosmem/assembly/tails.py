"""The tail of a history: its newest messages, cut where a unit ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import filterfalse
from operator import attrgetter
from typing import NamedTuple

from kaosmem.assembly.allocation import FormatCosts, entries_of
from kaosmem.formats import HistoryEntry, Mark
from kaosmem.sections import Candidate
from kaosmem.sections.proposal import Proposal
from kaosmem.sections.spec import SectionSpec


@dataclass(frozen=True)
class HistoryTail:
    """A history from one of its places on: required units before it, a mark, and the tail.

    Args:
        shown: All units that are shown, in order.
        before: How many of them are required units before the tail.
        left_out: Number of messages that the mark stands for. With 0 there is no mark.
        used: The tokens as rendered, header and mark included.
    """

    shown: Sequence[Candidate] = ()
    before: int = 0
    left_out: int = 0
    used: int = 0

    @cached_property
    def positions(self) -> frozenset[int]:
        """The positions of the units that are shown."""
        return frozenset(map(attrgetter("position"), self.shown))

    def without_shown(self, units: Iterable[Candidate]) -> list[Candidate]:
        """Return the units that the tail does not show."""
        return [unit for unit in units if unit.position not in self.positions]

    @cached_property
    def entries(self) -> list[HistoryEntry]:
        """The messages that are shown, and the mark."""
        if self.left_out:
            mark = [Mark(self.left_out)]
        else:
            mark = []
        before = entries_of(self.shown[: self.before])
        return [*before, *mark, *entries_of(self.shown[self.before :])]


NO_TAIL = HistoryTail()
"""The tail of a section that is no history, or has no messages."""


class _Place(NamedTuple):
    """A place where a tail may begin.

    Attributes:
        unmarked: The tokens of all that is shown from it on, header included, without the mark.
        left_out: Number of messages that the mark stands for.
    """

    place: int
    unmarked: int
    left_out: int


class TailCutter:
    """Cuts one history to the longest tail that fits. A larger cap never gives a shorter tail.

    All costs are in tokens as rendered. A history of which messages were evicted always has a mark.

    Attributes:
        must: The least tokens that the history can be shown in.
        want: The tokens of the longest tail.
    """

    def __init__(
        self,
        spec: SectionSpec,
        proposal: Proposal,
        costs: FormatCosts,
    ) -> None:
        self._costs = costs
        shown = filterfalse(attrgetter("orphan"), proposal.candidates)
        units = sorted(shown, key=attrgetter("position"))
        self._units = units
        is_whole = proposal.is_all
        is_bare = is_whole and not proposal.evicted
        self._places: list[_Place] = []  # that of the longest tail first
        required = 0
        sizes = list(map(costs.entries, units))
        unmarked = costs.format.history_header_tokens(spec.title, costs.counter) + sum(sizes)
        last = _first_inseparable(units)
        for place, unit in enumerate(units[:last]):
            if unit.cut or (place == 0 and is_whole):
                left_out = max(0, unit.position - required)
                self._places.append(_Place(place, unmarked, left_out))
            if unit.must:
                required += len(unit.items)
            else:
                unmarked -= sizes[place]
        if last < len(units):
            begin = units[last].position
        else:
            begin = proposal.taken
        left_out = max(0, begin - required)
        self._places.append(_Place(last, unmarked, left_out))
        longest = self._places[0]
        if is_bare and longest.place == 0:
            # It has all messages that there ever were.
            self._places[0] = longest._replace(left_out=0)
        self.want = self._used(self._places[0])
        self.must = self._used(self._places[-1])
        if is_bare:
            self.must = min(self.must, self.want)

    def _used(self, at: _Place) -> int:
        """Return the tokens of the tail from a place on, as rendered."""
        if not self._units:
            return 0
        if not at.left_out:
            return at.unmarked
        mark = Mark(at.left_out)
        return at.unmarked + self._costs.format.entry_tokens(mark, self._costs.counter)

    def tokens_of_newest(self, count: int) -> int:
        """Return the tokens of the shortest tail of at least so many units, or of the longest."""
        for at in reversed(self._places):
            if len(self._units) - at.place >= count:
                return self._used(at)
        return self.want

    def cut(self, cap: int) -> HistoryTail:
        """Return the longest tail of at most `cap` tokens, or the shortest if none fits."""
        if not self._units:
            return NO_TAIL
        for at in self._places:
            if at.unmarked <= cap and self._used(at) <= cap:
                break
        before = [unit for unit in self._units[: at.place] if unit.must]
        shown = [*before, *self._units[at.place :]]
        return HistoryTail(shown, len(before), at.left_out, self._used(at))


def _first_inseparable(units: Sequence[Candidate]) -> int:
    """Return the last place where a tail may begin: the newest required units stay together.

    Return the number of units if the newest one is not required.
    """
    last = len(units)
    for index in range(len(units) - 1, -1, -1):
        if not units[index].must:
            break
        if units[index].cut:
            last = index
    return last
