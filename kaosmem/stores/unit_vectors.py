"""Vectors by id, and the nearest ones: one matrix of rows of length 1, in single precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kaosmem.retrieval.columns import Bools, Float32s, Float64s, GrowingArray

_ROWS_AT_ONCE = 4_096
_EPSILON = float(np.finfo(np.float32).eps)


class UnitVectors:
    """Vectors of one number of dimensions; none is all zeros."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._rows = GrowingArray(np.float32, (dimensions,))
        self._lengths = GrowingArray(np.float64)
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self._ids)

    def put(self, ids: Sequence[str], vectors: ArrayLike) -> None:
        """Store vectors by id, a row of the matrix each, in place of earlier ones.

        There is at least one, and all ids are different.
        """
        rows, lengths = _units(vectors)
        new = []
        for place, vector_id in enumerate(ids):
            if vector_id not in self._row_of:
                self._row_of[vector_id] = len(self._ids)
                self._ids.append(vector_id)
                new.append(place)
        self._rows.extend(rows[new])
        self._lengths.extend(lengths[new])
        places = [self._row_of[each] for each in ids]
        self._rows.values[places] = rows
        self._lengths.values[places] = lengths

    def remove(self, vector_id: str) -> None:
        """Remove a vector; the last one takes its row."""
        row = self._row_of.pop(vector_id)
        moved = self._ids.pop()
        for column in (self._rows, self._lengths):
            column.values[row] = column.values[-1]
            column.shorten(len(self._ids))
        if moved != vector_id:
            self._ids[row] = moved
            self._row_of[moved] = row

    def vector(self, vector_id: str) -> tuple[float, ...]:
        """Return a vector as it was stored, in single precision."""
        row = self._row_of[vector_id]
        vector = self._rows.values[row] * self._lengths.values[row]
        values: list[float] = vector.astype(np.float32).tolist()
        return tuple(values)

    def nearest(
        self,
        query: Sequence[float],
        limit: int,
        passes: Callable[[str], bool] | None = None,
    ) -> list[tuple[str, float]]:
        """Return at most `limit` (id, cosine) of vectors whose id passes, largest first, then by id.

        Cosines are exact sums, rounded to 1e-9: the same vectors give the same answer, however they
        came to be here, on every machine.
        """
        unit = _units([query])[0][0]
        size = len(self._ids)
        wanted = limit = min(limit, size)
        if not limit:
            return []
        rough = self._rows.values @ unit.astype(np.float32)
        while True:
            rows, sure = self._best_rows(rough, wanted)
            if passes is not None:
                passing = np.array([passes(self._ids[row]) for row in rows], np.bool_)
                rows = rows[passing]
                sure = sure[passing]
            if np.count_nonzero(sure) >= limit or wanted == size:
                return self._ranked(rows, unit)[:limit]
            wanted = min(8 * wanted, size)

    def _best_rows(self, rough: Float32s, wanted: int) -> tuple[NDArray[np.intp], Bools]:
        """Return rows among which the `wanted` best surely are, and whether each seems to be one.

        Args:
            rough: Cosines of all rows, as far off as sums in single precision can be.
        """
        place = len(rough) - wanted
        floor = np.partition(rough, place)[place]
        error = 4 * (self.dimensions + 2) * _EPSILON
        (rows,) = np.nonzero(rough >= floor - error)
        return rows, rough[rows] >= floor

    def _ranked(self, rows: NDArray[np.intp], unit: Float64s) -> list[tuple[str, float]]:
        """Return the (id, cosine) of rows, the largest cosine first, then by id."""
        cosines: list[float] = []
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            chunk = rows[start : start + _ROWS_AT_ONCE]
            vectors = self._rows.values[chunk].astype(np.float64)
            cosines += cosines_of(vectors, unit).tolist()
        ids = [self._ids[row] for row in rows]
        return sorted(zip(ids, cosines, strict=True), key=lambda hit: (-hit[1], hit[0]))


_UNITS = 2.0**25
"""Parts of a vector of length 1 are rounded to whole numbers of 1 / _UNITS:
sums of products are exact.
"""


def cosines_of(units: Float64s, unit: Float64s) -> Float64s:
    """Return the cosines of directions with one direction, the same on every machine, to 1e-9.

    Args:
        units: Vectors of length 1, of shape (n, dimensions).
        unit: A vector of length 1, of shape (dimensions,).
    """
    rows = np.rint(units * _UNITS)
    across = np.rint(unit * _UNITS)
    lengths = np.sqrt((rows * rows).sum(axis=1)) * np.sqrt((across * across).sum())
    cosines = (rows @ across) / lengths
    rounded: Float64s = np.rint(cosines * 1e9) / 1e9
    return np.clip(rounded, -1.0, 1.0)


def unit_of(embedding: Sequence[float]) -> Float32s:
    """Return an embedding at length 1 in single precision."""
    unit: Float32s = _units([embedding])[0][0].astype(np.float32)
    return unit


def _sums(rows: Float64s) -> Float64s:
    """Return the sum of each row: shape (n, 1).

    Halves are added up, in the same order on every machine.
    """
    while rows.shape[1] > 1:
        half = rows.shape[1] // 2
        folded = rows[:, :half] + rows[:, half : 2 * half]
        folded[:, :1] += rows[:, 2 * half :].sum(axis=1, keepdims=True)  # one number, or none
        rows = folded
    return rows


def _units(vectors: ArrayLike) -> tuple[Float64s, Float64s]:
    """Return the directions and lengths of vectors, one a row."""
    values = np.asarray(vectors, np.float64)
    # Squares of very small or large numbers would be 0 or infinite.
    largest = np.abs(values).max(axis=1, keepdims=True)
    scaled = values / largest
    lengths = np.sqrt(_sums(scaled * scaled))
    return scaled / lengths, (lengths * largest)[:, 0]
