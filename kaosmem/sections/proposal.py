"""A source's proposal for a window: units in order of value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kaosmem.sections.past import EvictedItem
from kaosmem.types import Item, aware


class Candidate(NamedTuple):
    """One unit that a source proposes: a tuple, since hundreds are made in each turn.

    items: in stored order. position, offset: items and tokens the section had ever taken before the first of them.
    cut: whether a history may start with it. must: whether it must be shown. orphan: whether it is nothing but
    results without a call. rank: its place in the order of want, from 1. score: what the query gives it, None
    where it was not ranked. tokens: of all its items. recalled: whether it is shown as an earlier one, evicted or from
    before the place where a history is cut.
    """

    items: tuple[Item, ...]
    position: int
    offset: int
    cut: bool
    must: bool
    orphan: bool
    rank: int
    score: float | None
    tokens: int
    recalled: bool = False


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a source would like to be shown.

    candidates: in order of want. earlier: of a history, what may be recalled, in order of worth.
    total, taken: tokens and items that the section has ever taken; without a total a history is cut by the positions of
    its units, and their offsets mean nothing. evicted: items that it holds no more, and may recall.
    signals: what made up the score of the candidate at a position, by name; nothing where the ranker does not say.
    unread: evicted items whose texts it takes to propose; as long as there are any, the rest is none to be shown.
    error: the name of the type of what went wrong, where it is less than it should be.
    """

    candidates: tuple[Candidate, ...]
    earlier: tuple[Candidate, ...] = ()
    total: int | None = 0
    taken: int = 0
    evicted: int = 0
    signals: Callable[[int], Mapping[str, float]] = field(default=lambda _: {}, repr=False, compare=False)
    unread: tuple[EvictedItem, ...] = ()
    error: str = ""

    @classmethod
    def of(cls, ranked: Iterable[tuple[Item, float | None]]) -> Proposal:
        """Return a proposal of items that stand alone.

        ranked: the items, best first, each with its score, None for one not ranked. If each item has a `timestamp`,
            the items are shown in the order of these times, oldest first; else they are shown best first.
        """
        listed = list(ranked)
        positions = _positions([item for item, _ in listed])
        return cls(
            tuple(
                Candidate((item,), position, 0, False, False, False, place, score, item.tokens)
                for place, (position, (item, score)) in enumerate(zip(positions, listed, strict=True), 1)
            )
        )


def _positions(items: Sequence[Item]) -> Sequence[int]:
    """Return the position of each item among these, by time; their own order if one has no timestamp."""
    timed = [(aware(item.timestamp), place) for place, item in enumerate(items) if item.timestamp]
    if len(timed) < len(items):
        return range(len(items))
    return [position for _, position in sorted((place, at) for at, (_, place) in enumerate(sorted(timed)))]
