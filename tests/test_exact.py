"""Logarithms and powers of e are right to 14 digits, and rise with their argument.

One number gives the same bits as many at once.
"""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kaosmem
from kaosmem.exact import exp, exps, idf, log, logs

positive = st.floats(1e-300, 1e300)
powers = st.floats(-600, 600)


@pytest.mark.parametrize(
    ("drawn", "one", "many", "exactly"),
    [(positive, log, logs, Decimal.ln), (powers, exp, exps, Decimal.exp)],
    ids=["logarithms", "powers"],
)
@given(st.data())
def test_logarithms_and_powers_are_right(drawn, one, many, exactly, data):
    """As decimal arithmetic has them, for one number and for many."""
    numbers = data.draw(st.lists(drawn, min_size=1))
    found = many(np.array(numbers)).tolist()
    assert found == list(map(one, numbers))
    expected = [float(exactly(Decimal(number))) for number in numbers]
    assert found == pytest.approx(expected, rel=1e-14, abs=1e-300)


def test_they_rise_with_their_argument():
    """A better match is never ranked below a worse one for a rounding."""
    steps = np.arange(1, 40_000) / 997
    assert all(first < second for first, second in pairwise(logs(steps).tolist()))
    assert all(first < second for first, second in pairwise(exps(steps - 30).tolist()))
    assert all(idf(500, having) > idf(500, having + 1) > 0 for having in range(500))


def test_nothing_else_takes_a_logarithm():
    """The logarithms of C libraries differ, and so may an order that is made of them."""
    folder = Path(kaosmem.__file__).parent
    inexact = re.compile(r"\b(?:math|np)\.(?:log|exp|pow)")
    modules = [path for path in folder.rglob("*.py") if inexact.search(path.read_text("utf-8"))]
    assert modules == []
