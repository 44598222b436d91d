"""The units that may be recalled after an eviction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kaosmem.filters import MetadataFilter
from kaosmem.sections.holdings import Holdings
from kaosmem.sections.past import EvictedItem


def recallable(held: Holdings, firsts: Iterable[int], *, wanted: MetadataFilter | None = None) -> Iterator[int]:
    """Yield the units that may be shown: of those evicted under one id one alone, and none that is live again.

    wanted: the filter that evicted items have to pass.
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
            # An item that is not read yet may pass: it is read since it is proposed.
            if wanted is not None and not any(isinstance(item, EvictedItem) or wanted(item.metadata) for item in items):
                continue
            evicted.update(ids)
        yield first
