"""Arithmetic that gives the same bits on every machine.

IEEE 754 fixes the result of `+ - * /`, of square roots and of roundings, one number at a time. It
fixes neither logarithms nor powers: they differ between C libraries and SIMD kernels. Nor does it
fix the order of a sum: that differs between BLAS kernels, and between versions of NumPy and Python.
So a value that decides an order, or that a user sees, is made of these rules alone:

- Logarithms and powers of e come from this module.
- A sum is of whole numbers below 2**53, of few numbers one after another, or `math.fsum`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

UNITS = 2.0**36
"""Addends of a sum are rounded to whole numbers of 1 / UNITS.

Sums below 131,072 are then exact in any order.
"""

# ln(2) in two parts. The first has 32 bits, so that its product with a small whole number is exact.
_LN2_HIGH = 0.6931471803691238
_LN2_LOW = 1.9082149292705877e-10
_ROOT_HALF = 0.7071067811865476
_LOG_SERIES = tuple(1 / n for n in range(21, 0, -2))
_EXP_SERIES = tuple(1 / math.factorial(n) for n in range(13, -1, -1))


def log(number: float) -> float:
    """Return the natural logarithm of a number above 0, to 15 digits.

    >>> log(10.0)
    2.302585092994046
    """
    mantissa, exponent = math.frexp(number)
    if mantissa < _ROOT_HALF:
        mantissa = 2 * mantissa
        exponent = exponent - 1
    share = (mantissa - 1) / (mantissa + 1)
    series = share * share
    total = _LOG_SERIES[0]
    for coefficient in _LOG_SERIES[1:]:
        total = total * series + coefficient
    return exponent * _LN2_HIGH + (exponent * _LN2_LOW + 2 * share * total)


def exp(number: float) -> float:
    """Return e to the power of a number, to 15 digits.

    >>> exp(1.0)
    2.7182818284590455
    """
    exponent = round(number / (_LN2_HIGH + _LN2_LOW))
    rest = (number - exponent * _LN2_HIGH) - exponent * _LN2_LOW
    total = _EXP_SERIES[0]
    for coefficient in _EXP_SERIES[1:]:
        total = total * rest + coefficient
    return math.ldexp(total, exponent)


def logs(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `log` of each number."""
    import numpy as np

    mantissas, exponents = np.frexp(numbers)
    is_low = mantissas < _ROOT_HALF
    mantissas = np.where(is_low, 2 * mantissas, mantissas)
    exponents = exponents - is_low
    shares = (mantissas - 1) / (mantissas + 1)
    squares = shares * shares
    total = np.full(shares.shape, _LOG_SERIES[0])
    for coefficient in _LOG_SERIES[1:]:
        total *= squares
        total += coefficient
    found: NDArray[np.float64] = exponents * _LN2_HIGH + (exponents * _LN2_LOW + 2 * shares * total)
    return found


def exps(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `exp` of each number."""
    import numpy as np

    exponents = np.rint(numbers / (_LN2_HIGH + _LN2_LOW))
    rest = (numbers - exponents * _LN2_HIGH) - exponents * _LN2_LOW
    total = np.full(rest.shape, _EXP_SERIES[0])
    for coefficient in _EXP_SERIES[1:]:
        total *= rest
        total += coefficient
    found: NDArray[np.float64] = np.ldexp(total, exponents.astype(np.int32))
    return found


def idf(entries: int, having: int) -> float:
    """Return the weight of a term: ln(1 + (entries - having + 0.5) / (having + 0.5)).

    It is never negative. Source: the idf of Lucene's BM25Similarity.
    """
    return log((entries + 1) / (having + 0.5))
