"""That every listed case is a test here, or is left out for a reason."""

from __future__ import annotations

import ast
import json
import os
import re
from pathlib import Path

import pytest

CASES = Path(os.environ.get("KAOSMEM_BAD_INPUTS", Path(__file__).parents[3] / "shared" / "cases" / "bad_inputs.json"))

CYPHER = "the graph is tested on a real server, in tests/backends/test_postgres.py"
TENANTS = "row-level security is tested on a real server, in tests/backends/test_postgres.py"

LEFT_OUT = {
    "BI-079": "what a section shows is capped, what a source does is not, and none sits on a vector store yet",
    **dict.fromkeys(("BI-084", "BI-085", "BI-086", "BI-087"), TENANTS),
    **dict.fromkeys(("BI-094", "BI-097"), CYPHER),
    "BI-096": "the store makes its connections itself, and these bind parameters on the server",
    "BI-100": "no store takes an order or a table's name",
    "BI-109": "how much of a history survives a crash of Redis is a setting of the server; RedisDatabase names it",
    "BI-122": "what is stored is not encrypted; a filesystem may do that",
    "BI-124": "no filesystem here keeps versions: what a store keeps of deleted objects is its own to purge",
}


def covered() -> set[str]:
    """The cases that tests of this package name, in their ids or their names."""
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= set(re.findall(r"^BI-\d{3}(?=$|[- ])", node.value))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_bi_"):
                numbers = re.match(r"test_bi((?:_\d{3})+)", node.name)
                assert numbers, node.name
                found |= {f"BI-{number}" for number in numbers[1].split("_")[1:]}
    return found


def test_no_case_is_both_tested_and_left_out() -> None:
    assert covered()
    assert sorted(covered() & LEFT_OUT.keys()) == []


@pytest.mark.skipif(not CASES.is_file(), reason="the list of cases is not here; KAOSMEM_BAD_INPUTS may name it")
def test_every_case_is_tested_or_left_out_for_a_reason() -> None:
    """The list and this package have the same cases."""
    listed = {case["id"] for case in json.loads(CASES.read_text(encoding="utf-8"))}
    assert sorted(listed - covered() - LEFT_OUT.keys()) == []
    assert sorted((covered() | LEFT_OUT.keys()) - listed) == []
