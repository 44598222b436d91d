"""The cut points of a history, as an independent look at its links finds them."""

from kaosmem.units import Units


def cut_points(links):
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
