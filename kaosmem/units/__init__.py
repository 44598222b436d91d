"""Units of a history, and its repair."""

from kaosmem.units.link import Link
from kaosmem.units.repair import NO_RESULT, repair, repaired
from kaosmem.units.units import Units

__all__ = ["NO_RESULT", "Link", "Units", "repair", "repaired"]
