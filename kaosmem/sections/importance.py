"""Importance as a prior: of units that match a question about as well, the used ones come first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kaosmem.sections.holdings import Holdings
from kaosmem.types.items import Item

_NEAR = 7, 8
"""Two units match about as well if the worth of one is at least this share of the other's."""
_MILLIONTHS = 1_000_000
_OF_KIND = {"procedural": 1}
"""A rule is more important than a fact, since it holds for any question."""


def by_importance(
    held: Holdings,
    by_worth: Sequence[int],
    scores: Mapping[int, float],
) -> list[int]:
    """Return units in order of worth, those that match about as well in order of importance.

    Nothing changes until a reply used an item of the section. No unit comes before one with the
    best score, so that a popular item never hides the answer. All is decided in whole numbers.

    Args:
        by_worth: The first ordinals of units, best first.
        scores: Their scores. Units without one keep their places.
    """
    if not held.usage.credited or not scores:
        return [*by_worth]
    ordered: list[int] = []
    for group in _groups(held, by_worth, scores):
        if len(group) > 1:
            group.sort(key=lambda unit: -_importance(held, unit))
        ordered += group
    return ordered


def _groups(
    held: Holdings, by_worth: Sequence[int], scores: Mapping[int, float]
) -> Iterable[list[int]]:
    """Yield neighbours that match about as well as the first of them."""
    best = max(scores.values())
    group: list[int] = []
    for first in by_worth:
        is_near = bool(group) and first in scores and group[0] in scores
        if is_near:
            is_near = (scores[first] == best) == (scores[group[0]] == best)
        if not is_near or not _is_near(held, first, group[0], scores):
            if group:
                yield group
            group = []
        group.append(first)
    if group:
        yield group


def _is_near(held: Holdings, first: int, better: int, scores: Mapping[int, float]) -> bool:
    """Return whether a unit has nearly the worth of a better one: score over the root of tokens.

    Both sides are squared and multiplied out, so that no root and no division is rounded.
    """
    squares = []
    for unit, other in ((first, better), (better, first)):
        score = max(0, round(scores[unit] * _MILLIONTHS))
        squares.append(score * score * max(1, held.tokens(other)))
    least, of = _NEAR
    return squares[0] * of * of >= squares[1] * least * least


def _importance(held: Holdings, first: int) -> int:
    """Return the importance of a unit: the highest of its items."""
    found = []
    for ordinal in held.members(first):
        item = held.undecoded(ordinal)
        importance = held.usage.importance(item.id)
        if isinstance(item, Item):
            importance += _OF_KIND.get(str(item.metadata.get("kind")), 0)
        found.append(importance)
    return max(found)
