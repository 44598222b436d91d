"""The tail of a history: its newest messages, as many as fit beside those that are recalled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kaosmem.assembly.allocation import best_match, entries_of
from kaosmem.assembly.fitting import Share
from kaosmem.formats import HistoryEntry, Mark
from kaosmem.sections import Candidate


@dataclass(frozen=True, slots=True)
class HistoryTail:
    """The shown part of a history: required units, a mark for messages left out, and the tail.

    Attributes:
        left_out: Number of messages that the mark stands for. None if there is no mark.
        used: Tokens as rendered, header and mark included.
    """

    before: tuple[Candidate, ...]
    units: tuple[Candidate, ...]
    left_out: int | None
    used: int

    @property
    def shown(self) -> tuple[Candidate, ...]:
        """Return all units that are shown, in order."""
        return (*self.before, *self.units)


class _Start(NamedTuple):
    """A place where a tail may begin.

    Attributes:
        place: The place of its first unit.
        unmarked: The tokens of the history from there, required units before it included, without
            its mark.
        left_out: Number of messages that are not shown.
    """

    place: int
    unmarked: int
    left_out: int


class TailCutter:
    """Cuts one history to the longest tail that fits. A larger cap never gives a shorter tail.

    All costs are in tokens as rendered.

    Args:
        units: The proposed units without orphans, by position.
        taken: Number of items that the section ever took.
        is_whole: Whether these are all units of the history.
        evicted: Number of items that left the history. If there are any, it always has a mark.
        size: Returns the tokens of a unit.
        mark_size: Returns the tokens of a mark for a number of messages.
        header: Tokens of the section's header.

    Attributes:
        must: The least tokens that the history can be shown in.
        want: The tokens of the longest tail.
    """

    def __init__(
        self,
        units: Sequence[Candidate],
        *,
        taken: int,
        is_whole: bool,
        evicted: int = 0,
        size: Callable[[Candidate], int],
        mark_size: Callable[[int], int],
        header: int,
    ) -> None:
        self._units = units
        self._mark_size = mark_size
        is_bare = is_whole and not evicted
        self._starts: list[_Start] = []
        required = 0
        sizes = [size(unit) for unit in units]
        unmarked = header + sum(sizes)
        last = _first_inseparable(units)
        for index, unit in enumerate(units[:last]):
            if unit.cut or (index == 0 and is_whole):
                left_out = 0 if index == 0 and is_bare else max(0, unit.position - required)
                self._starts.append(_Start(index, unmarked, left_out))
            if unit.must:
                required += len(unit.items)
            else:
                unmarked -= sizes[index]
        begin = units[last].position if last < len(units) else taken
        left_out = 0 if last == 0 and is_bare else max(0, begin - required)
        self._starts.append(_Start(last, unmarked, left_out))
        self.must = 0
        self.want = 0
        if units:
            self.want = self._used(self._starts[0])
            self.must = self._used(self._starts[-1])
            if is_bare:
                self.must = min(self.must, self.want)

    @property
    def last_shown(self) -> Candidate | None:
        """Return the unit that the history ends with wherever it is cut, if there is one."""
        return self._units[-1] if self._starts[-1].place < len(self._units) else None

    def cut(self, cap: int) -> HistoryTail:
        """Return the longest tail of at most `cap` tokens, or the shortest if none fits."""
        if not self._units:
            return HistoryTail((), (), None, 0)
        for start in self._starts:
            if start.unmarked <= cap and self._used(start) <= cap:
                break
        before = [unit for unit in self._units[: start.place] if unit.must]
        units = tuple(self._units[start.place :])
        return HistoryTail(tuple(before), units, start.left_out or None, self._used(start))

    def _used(self, start: _Start) -> int:
        return start.unmarked + self._mark_size(start.left_out)


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


def tail_entries(tail: HistoryTail) -> list[HistoryEntry]:
    """Return the messages of a tail, and its mark."""
    entries: list[HistoryEntry] = [*entries_of(tail.before)]
    if tail.left_out is not None:
        entries.append(Mark(tail.left_out))
    entries += entries_of(tail.units)
    return entries


# The share for recall.


def cut_beside(
    share: Share,
    cutter: TailCutter,
    cap: int,
) -> HistoryTail:
    """Return the longest tail beside the earlier messages, which get up to the share for recall.

    The best match may take more than that share. Without any match, the tail takes all the room.

    As the cap grows, the tail takes in earlier messages and they need less. So the tail never
    becomes shorter. Messages that are left out for low confidence count too, so that the tail does
    not depend on them.
    """
    shortest = cutter.cut(cutter.must)
    best = best_alone(share, not_in(shortest, share.candidates))
    if not best:
        return cutter.cut(cap)
    recall = min(cap - cutter.must, max(int(share.spec.recall * cap), best))
    share.cap = recall
    reserved = recall
    while True:
        tail = cutter.cut(cap - reserved)
        needed = share.run_of(not_in(tail, share.candidates)).used
        if needed >= reserved:
            return tail
        reserved = needed


def best_alone(share: Share, units: Iterable[Candidate]) -> int:
    """Return the tokens of the best match among a history's earlier units alone, 0 for none."""
    best = best_match(units)
    return 0 if best is None else share.run_of([best]).used


def not_in(tail: HistoryTail, units: Iterable[Candidate]) -> list[Candidate]:
    """Return the units that a tail does not show."""
    visible = {unit.position for unit in tail.shown}
    return [unit for unit in units if unit.position not in visible]
