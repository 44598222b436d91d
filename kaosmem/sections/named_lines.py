"""Lines of files that a question names, as a stack trace does."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from kaosmem.sections.item_table import ItemTable
from kaosmem.sections.ranking import Scores

MAX_NAMED = 5
"""So many passages with named lines come before all others."""

# The end of the id of a passage.
_LINES = re.compile(r"(\d+)-(\d+)")


def with_named_lines(
    scores: Scores,
    held: ItemTable,
    named: Sequence[tuple[str, int]],
    among: Collection[int] | None,
) -> Scores:
    """Return scores in which the passages that hold the lines named by a question are the best.

    Args:
        named: The files and lines, the most wanted first.
        among: The ordinals to choose from, None for all.
    """
    found = dict.fromkeys(
        held.units.firsts(at for at in _holding(held, named) if among is None or at in among)
    )
    best = [*found][:MAX_NAMED]
    most = max(scores.of.values(), default=1.0)
    return replace(
        scores,
        of={**scores.of, **dict.fromkeys(best, most)},
        by_worth=[*dict.fromkeys([*best, *scores.by_worth])],
        signals=lambda first: {} if first not in scores.of else scores.signals(first),
    )


def _holding(held: ItemTable, named: Sequence[tuple[str, int]]) -> Iterator[int]:
    """Yield the live passages that hold lines, in the order of the lines."""
    passages: dict[str, list[tuple[int, str, int, int]]] = {}
    names = {posixpath.basename(path) for path, _ in named}
    for item_id, ordinal in [*held.ordinals.items()]:  # another thread may add items
        source, _, lines = item_id.rpartition("#L")
        name = source.rpartition("/")[2]
        if name not in names:
            continue
        match = _LINES.match(lines)
        if match:
            passage = ordinal, f"/{source}", int(match[1]), int(match[2])
            passages.setdefault(name, []).append(passage)
    for path, line in named:
        for ordinal, source, first, last in sorted(passages.get(posixpath.basename(path), ())):
            is_file = f"/{path}".endswith(source) or source.endswith(f"/{path}")
            if is_file and first <= line <= last:
                yield ordinal
