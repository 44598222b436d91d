"""Numbers that callers give."""

from __future__ import annotations

import math

from kaosmem.errors import InvalidArgumentError
from kaosmem.names import shown_name


def check_count(given: object, name: str, *, least: int = 0) -> int:
    """Return a whole number from `least` up. Raises InvalidArgumentError."""
    if type(given) is int and given >= least:
        return given
    raise InvalidArgumentError(f"{name} is {shown_name(given)}; give a whole number from {least} up")


def check_ttl(given: object, name: str = "ttl") -> float:
    """Return a time in seconds. Raises InvalidArgumentError for one that is not above 0 and finite."""
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 < given < math.inf:
        return float(given)
    raise InvalidArgumentError(f"{name} is {shown_name(given)}; give seconds, a number above 0")
