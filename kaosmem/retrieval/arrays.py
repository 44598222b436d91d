"""Short names of the types of arrays."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Int64s: TypeAlias = NDArray[np.int64]
"""Slots, ordinals, scores and sizes."""
UInt32s: TypeAlias = NDArray[np.uint32]
"""Numbers of terms, and postings."""
