"""Units of a history, its cut points, and its repair."""

from kaosmem.units.cuts import cut_points, next_cut
from kaosmem.units.link import Link
from kaosmem.units.repair import NO_RESULT, repair, repaired
from kaosmem.units.units import Units

__all__ = ["NO_RESULT", "Link", "Units", "cut_points", "next_cut", "repair", "repaired"]
