"""Lines of files that a question names, as a stack trace does."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import chain

from kaosmem.sections.item_table import ItemTable
from kaosmem.sections.ranking import Scores

MAX_NAMED = 5
"""So many passages with named lines come before all others."""

_PATH = r"(?<![\w./\\~@+-])(?P<path>[\w./\\~@+-]*\w\.\w{1,8})"
# Such as `File "app.py", line 12`. The call that failed is the last of these.
_FRAME = re.compile(rf'File "{_PATH}", line (?P<line>\d{{1,7}})\b')
# Such as `app.py:12:5`, `App.java(12)`, `app.py line 12` and `app.py#L12`, and `line 12 of app.py`.
_AFTER = re.compile(rf"{_PATH}[`\"']?(?::|\(|#L|,? line )(?P<line>\d{{1,7}})\b")
_BEFORE = re.compile(rf"\blines? (?P<line>\d{{1,7}})\b[\d -]{{0,12}}(?:of|in) [`\"']?{_PATH}")
# The end of the id of a passage.
_LINES = re.compile(r"(\d+)-(\d+)")


def named_lines(text: str) -> list[tuple[str, int]]:
    """Return the lines that a text names with their files, the most wanted first.

    >>> named_lines("What fails in src/app.py:12, and what is line 3 of util.py?")
    [('src/app.py', 12), ('util.py', 3)]
    """
    frames = [*_FRAME.finditer(text)]
    found = chain(reversed(frames), _AFTER.finditer(text), _BEFORE.finditer(text))
    named = [(match["path"].replace("\\", "/"), int(match["line"])) for match in found]
    return [*dict.fromkeys(named)]


def with_named_lines(
    scores: Scores,
    held: ItemTable,
    text: str,
    among: Collection[int] | None,
) -> Scores:
    """Return scores in which the passages that hold the lines named by a question are the best.

    Args:
        among: The ordinals to choose from, None for all.
    """
    named = named_lines(text)
    if not named:
        return scores
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


def _holding(held: ItemTable, named: list[tuple[str, int]]) -> Iterator[int]:
    """Yield the live passages that hold lines, in the order of the lines."""
    passages: dict[str, list[tuple[int, str, int, int]]] = {}
    names = {posixpath.basename(path) for path, _ in named}
    for item_id, ordinal in [*held.ordinals.items()]:  # another thread may add items
        source, _, lines = item_id.rpartition("#L")
        name = source.rpartition("/")[2]
        match = _LINES.match(lines) if name in names else None
        if match:
            passage = ordinal, f"/{source}", int(match[1]), int(match[2])
            passages.setdefault(name, []).append(passage)
    for path, line in named:
        for ordinal, source, first, last in sorted(passages.get(posixpath.basename(path), ())):
            is_file = f"/{path}".endswith(source) or source.endswith(f"/{path}")
            if is_file and first <= line <= last:
                yield ordinal
