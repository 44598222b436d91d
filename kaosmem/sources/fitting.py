"""Cutting the newest results of a history where the units that must be shown do not fit its cap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kaosmem.compaction.outline import MessageSizes
from kaosmem.compaction.shortening import with_shorter_results
from kaosmem.sections import Candidate
from kaosmem.tokens import count_content, get_counter
from kaosmem.tokens.counters import TokenCounter
from kaosmem.types.content import ToolResultBlock

_FOR_FORMATS = 0.75
"""The part of a cap that required units may take: a format adds tokens that a source does not know."""


def with_fitting_results(
    candidates: Sequence[Candidate], cap: int, counter: TokenCounter | None = None
) -> tuple[Candidate, ...]:
    """Return candidates of which the required ones fit a cap, by results that are cut evenly.

    The results of the newest required unit that has any are cut to one length. Their items keep
    their ids, under which the source gives the whole. If this does not help, nothing is cut.

    Args:
        cap: The tokens of the source.
        counter: None is the default one.
    """
    required = [unit for unit in candidates if unit.must]
    most = int(cap * _FOR_FORMATS)
    if sum(unit.tokens for unit in required) <= most:
        return tuple(candidates)
    newest = max(filter(_has_results, required), key=lambda unit: unit.position, default=None)
    if newest is None:
        return tuple(candidates)
    counter = counter or get_counter(None)
    items = [item for unit in required for item in unit.items]
    its = {id(item) for item in newest.items}
    messages = [replace(item.message, id=item.id, pinned=item.pinned) for item in items]
    places = [place for place, item in enumerate(items) if id(item) in its]
    shorter = with_shorter_results(messages, places, most, MessageSizes(counter).total)
    if shorter is None:
        return tuple(candidates)
    cut = []
    for place in places:
        content = shorter[place].content
        item = items[place]
        if content != item.content:
            item = replace(item, content=content, tokens=count_content(content, counter))
        cut.append(item)
    tokens = sum(item.tokens for item in cut)
    fitting = newest._replace(items=tuple(cut), tokens=tokens)
    return tuple(fitting if unit is newest else unit for unit in candidates)


def _has_results(unit: Candidate) -> bool:
    return any(
        isinstance(block, ToolResultBlock) for item in unit.items for block in item.message.blocks
    )
