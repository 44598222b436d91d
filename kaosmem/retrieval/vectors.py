"""Vectors of entries by slot, one byte for each dimension."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_DIMENSIONS = 1024
"""So many products of two bytes, in whatever order they are added up, are exact in single precision."""
_MOST = 127
_BLOCK = 4096  # slots at a time are widened for a product, so that they stay in a processor's cache
_NO_DIGESTS = np.empty(0, np.int64)


class Vectors:
    """A row of whole numbers from -127 to 127 for each slot, found by the digest of its text.

    digests, rows: of the first slots, shapes (n,) and (n, dimensions); of an empty slot both are 0.
    """

    def __init__(
        self, dimensions: int, digests: NDArray[np.int64] = _NO_DIGESTS, rows: NDArray[np.int8] | None = None
    ) -> None:
        self._digests = array("q", digests.tobytes())
        self._rows = np.zeros((0, dimensions), np.int8) if rows is None else rows
        self._squares = array("q", _squares(self._rows).tobytes())

    @property
    def used(self) -> NDArray[np.bool_]:
        """Return of each slot whether it has an entry."""
        used: NDArray[np.bool_] = np.frombuffer(self._digests, np.int64) != 0
        return used

    def append(self, digest: int, row: NDArray[np.int8]) -> None:
        """Put a row into the next slot."""
        slot = len(self._digests)
        if slot == len(self._rows):
            grown = np.zeros((slot + slot // 4 + 64, self._rows.shape[1]), np.int8)
            grown[:slot] = self._rows
            self._rows = grown
        self._rows[slot] = row
        self._digests.append(digest)
        self._squares.append(int(_squares(row[None])[0]))

    def clear(self, slot: int) -> None:
        """Forget the row of an entry that is gone."""
        if not self._rows.flags.owndata:
            self._rows = self._rows.copy()  # and keep no bytes of a dump alive
        self._rows[slot] = 0
        self._digests[slot] = self._squares[slot] = 0

    def found(self, digests: Iterable[int]) -> dict[int, NDArray[np.int8]]:
        """Return the rows of those digests that some slot has."""
        wanted, held = np.array(sorted(digests), np.int64), np.frombuffer(self._digests, np.int64)
        if not len(wanted):
            return {}
        places = np.minimum(np.searchsorted(wanted, held), len(wanted) - 1)
        slots = np.flatnonzero(wanted[places] == held)
        return dict(zip(held[slots].tolist(), self._rows[slots], strict=True))

    def cosines(self, queries: NDArray[np.int8]) -> NDArray[np.float64]:
        """Return the cosine of each slot with the row of each query, 0 where one has no direction.

        Of shape (slots, len(queries)). All sums are of whole numbers: the same on every machine.
        """
        size, across = len(self._digests), queries.T.astype(np.float32)
        products = np.empty((size, len(queries)), np.float32)
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            np.matmul(self._rows[start:stop].astype(np.float32), across, out=products[start:stop])
        squares = np.frombuffer(self._squares, np.int64)[:, None] * _squares(queries)
        cosines: NDArray[np.float64] = np.divide(
            products, np.sqrt(squares), out=np.zeros(products.shape), where=squares > 0
        )
        return cosines

    def frozen(self) -> Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int8]]]:
        """Return a function that gives the digests and rows of some slots as they are now, despite later changes."""
        return partial(_picked, np.array(self._digests, np.int64), self._rows[: len(self._digests)].copy())


def digest(text: str) -> int:
    """Return a number of 8 bytes, never 0, that is the same for the same text in every process."""
    found = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(found, "little", signed=True) or 1


def rounded(vectors: NDArray[np.float32]) -> NDArray[np.int8]:
    """Return vectors in whole numbers of which the largest is 127 or -127, in almost the same directions."""
    most = np.abs(vectors).max(axis=1, keepdims=True)
    shares: NDArray[np.float32] = np.divide(vectors, most, out=np.zeros_like(vectors), where=most > 0)
    return np.rint(shares * _MOST).astype(np.int8)


def _squares(rows: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return the square of the length of each row."""
    squares = np.empty(len(rows), np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK].astype(np.int32)
        squares[start : start + _BLOCK] = np.einsum("ij,ij->i", block, block)
    return squares


def _picked(
    digests: NDArray[np.int64], rows: NDArray[np.int8], slots: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    return digests[slots], rows[slots]
