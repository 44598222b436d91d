"""That every listed case is a test here."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest

CASES = Path(
    os.environ.get("KAOSMEM_CONVERSATIONS", Path(__file__).parents[3] / "shared" / "cases" / "conversation.json")
)
LISTED = (
    *("V01", "V02", "V04", "V05", "V07", "V09", "V11", "V12", "V14", "V15"),
    *("I01", "I03", "I05", "I06", "I07", "I10", "I11"),
    *("R01", "R03", "R04", "R06", "R07", "R09", "R10", "R13", "R14", "R16", "R18"),
    *("M01", "M03", "M04", "W01", "W04", "W05", "W06", "X01", "X02", "X03", "X04", "X06"),
    *("E01", "E03", "E05", "E07", "E09", "E10", "E11", "E12"),
    *("P01", "P02", "P03", "P05", "P06", "P07", "P09", "P11", "P13", "S03"),
)


def covered() -> list[str]:
    """The cases that tests of this package name: `test_v01_...` is of V01, `test_m01_m03_...` of two."""
    found: list[str] = []
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                named = re.match(r"test((?:_[a-z]\d\d)+)_", node.name)
                found += named[1].upper().split("_")[1:] if named else []
    return found


def test_every_listed_case_is_tested_once() -> None:
    """The list and the tests of this package have the same cases."""
    assert sorted(covered()) == sorted(LISTED)


@pytest.mark.skipif(not CASES.is_file(), reason="the file of cases is not here; KAOSMEM_CONVERSATIONS may name it")
def test_every_case_is_listed() -> None:
    """The list is that of the file it was taken from."""
    assert sorted(case["id"] for case in json.loads(CASES.read_text(encoding="utf-8"))["cases"]) == sorted(LISTED)
