"""The units that may be recalled after an eviction, and their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kaosmem.filters import MetadataFilter
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.past import EvictedItem


def recallable(held: Holdings, firsts: Iterable[int], *, wanted: MetadataFilter | None = None) -> Iterator[int]:
    """Yield the units that may be shown: of those evicted under one id one alone, and none that is live again.

    wanted: what was evicted has to pass it.
    """
    past, evicted = held.past, set[str]()
    if not past:
        yield from firsts
        return
    for first in firsts:
        if items := past.known_unit(first):
            ids = [item.id for item in items]
            if not evicted.isdisjoint(ids) or any(map(held.__contains__, ids)):
                continue
            # What is not read yet may pass: it is read since it is proposed.
            if wanted is not None and not any(isinstance(item, EvictedItem) or wanted(item.metadata) for item in items):
                continue
            evicted.update(ids)
        yield first


def superseded_last(held: Holdings, firsts: Sequence[int]) -> Iterable[int]:
    """Return units in order, but what was superseded after what supersedes it, which it must not stand for."""
    if not held.past.has_keys:
        return firsts
    ranks: dict[int, int] = {first: rank for rank, first in enumerate(firsts)}

    def place(first: int) -> tuple[int, bool]:
        successors = (ranks.get(successor, -1) for successor in _successors(held, first))
        last = max(successors, default=-1)
        return max(last, ranks[first]), last > ranks[first]

    return sorted(firsts, key=place)


def _successors(held: Holdings, first: int) -> list[int]:
    """Return the first ordinals of the live units with keys of an evicted one."""
    past = held.past
    ordinals = map(held.keyed, past.keys(first) if first in past else ())
    return held.firsts(ordinal for ordinal in ordinals if ordinal is not None)
