"""Short names of the types of arrays, and where values of an array change."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Int64s: TypeAlias = NDArray[np.int64]
"""Slots, ordinals, scores and sizes."""
UInt32s: TypeAlias = NDArray[np.uint32]
"""Numbers of terms, and postings."""


def are_changes(values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return whether each value differs from the one before it. The first one does."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes
