"""Cutting the newest results of a history where the units that must be shown do not fit its cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kaosmem.compaction.outline import MessageSizes
from kaosmem.compaction.shortening import with_shorter_results
from kaosmem.sections import Candidate
from kaosmem.tokens import count_content, get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.items import Item

_FOR_FORMATS = 0.75
"""The part of a cap that required units may take: a format adds tokens that a source does not know."""


def with_fitting_results(
    candidates: Sequence[Candidate],
    cap: int,
    counter: TokenCounter | None = None,
) -> tuple[Candidate, ...]:
    """Return candidates of which the required ones fit a cap, by results that are cut evenly.

    The results of the newest required unit that has any are cut to one length. Their items keep
    their ids, under which the source gives the whole. If this does not help, nothing is cut.

    Args:
        cap: The tokens of the source.
        counter: None is the default one.
    """
    required = sorted((unit for unit in candidates if unit.must), key=lambda unit: unit.position)
    most = int(cap * _FOR_FORMATS)
    if sum(unit.tokens for unit in required) <= most:
        return tuple(candidates)
    counter = counter or get_counter(None)
    items = [item for unit in required for item in unit.items]
    messages = [replace(item.message, id=item.id, pinned=item.pinned) for item in items]
    units = []
    begin = 0
    for unit in required:
        units.append(range(begin, begin + len(unit.items)))
        begin += len(unit.items)
    shorter = with_shorter_results(messages, most, MessageSizes(counter).total, units)
    if shorter is None:
        return tuple(candidates)
    cut = {}
    for item, message in zip(items, shorter, strict=True):
        if message.content != item.content:
            tokens = count_content(message.content, counter)
            cut[item.id] = replace(item, content=message.content, tokens=tokens)
    return tuple(_with_items(unit, cut) for unit in candidates)


def _with_items(unit: Candidate, cut: Mapping[str, Item]) -> Candidate:
    """Return a unit with the items that were cut."""
    if cut.keys().isdisjoint(item.id for item in unit.items):
        return unit
    items = tuple(cut.get(item.id, item) for item in unit.items)
    return unit._replace(items=items, tokens=sum(item.tokens for item in items))
