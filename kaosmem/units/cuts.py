"""Cut points of a history."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

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
