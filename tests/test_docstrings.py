"""The examples in docstrings run and give the results that stand below them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.console import run_docstrings

ROOT = Path(__file__).parent.parent
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (*sorted(ROOT.glob("kaosmem/**/*.py")), ROOT / "tests" / "console.py")
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module, tmp_path, monkeypatch):
    """Each example prints the text below it; `await` works at the top level, as in `python -m asyncio`."""
    monkeypatch.chdir(tmp_path)
    report = run_docstrings(import_module(module))
    assert not report, report


def test_a_wrong_example_is_reported(monkeypatch):
    """An example with another result fails, with `await` and without."""
    module = import_module("tests.console")
    for example in (">>> 1 + 1\n3\n", ">>> import asyncio\n>>> await asyncio.sleep(0, 2)\n3\n"):
        monkeypatch.setattr(module, "__doc__", example)
        assert "Expected:\n    3\nGot:\n    2" in run_docstrings(module)
