"""Cut points of a history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from kaosmem.errors import InvalidArgumentError
from kaosmem.units.link import Link
from kaosmem.units.units import Units


def cut_points(links: Sequence[Link]) -> list[int]:
    """Return where a history may be cut: the positions, 0 to n, with no unit on both sides."""
    units = Units()
    for position, link in enumerate(links):
        units.add(position, link)
    cuts = []
    reach = -1
    for position in range(len(links)):
        if reach < position:
            cuts.append(position)
        reach = max(reach, units.last(position))
    return [*cuts, len(links)]


def next_cut(cuts: Sequence[int], position: int) -> int:
    """Return the first of the cut points, ascending, from `position` on. Raises InvalidArgumentError past the last."""
    place = bisect_left(cuts, position)
    if place == len(cuts):
        raise InvalidArgumentError(f"no cut from {position} on: the last is {cuts[-1]}; cut there, or before it")
    return cuts[place]


def roundest_first(positions: Sequence[int]) -> list[int]:
    """Return the ranks of ascending positions where a history may be cut, those first that stay the roundest for long.

    A position is as round as the number that can be halved most often from it back to, and without, the one before. Of
    those in a range that moves on the roundest is the same for many moves, whoever looks and however much came before.
    """
    rounds = [
        (one ^ other).bit_length() for one, other in pairwise([*(each - 1 for each in positions[:1]), *positions])
    ]
    return sorted(range(len(positions)), key=lambda rank: (-rounds[rank], rank))
