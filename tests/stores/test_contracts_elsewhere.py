"""A contract in a project of somebody else's, whose pytest is configured in no way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROJECT = """
from kaosmem import InMemoryShortTermMemory
from kaosmem.testing import ShortTermContract


class Forgetful(InMemoryShortTermMemory):
    async def update_state(self, session_id, patch):
        await self.set_state(session_id, patch)
        return dict(patch)


class TestRight(ShortTermContract):
    async def make(self):
        return InMemoryShortTermMemory()


class TestWrong(ShortTermContract):
    async def make(self):
        return Forgetful()


class TestUnfinished(ShortTermContract):
    pass
"""


def ran(folder: Path, *names: str) -> str:
    """What pytest says of some classes and tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    run = [*command, "-p", "no:langsmith_plugin", *(f"test_mine.py::{name}" for name in names)]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_a_contract_runs_anywhere(tmp_path: Path) -> None:
    """Every test of it runs in pytest-asyncio's default mode, a failure shows what was compared, and a subclass
    that lacks its one method is told which."""
    (tmp_path / "test_mine.py").write_text(PROJECT)
    right = ran(tmp_path, "TestRight")
    assert " passed" in right
    assert "failed" not in right
    # Of each one test: the machine, which looks for the shortest failure for a minute, is tested where it is.
    names = ("TestWrong::test_a_patch_replaces_values_whole", "TestUnfinished::test_it_satisfies_the_protocol")
    wrong = ran(tmp_path, *names)
    assert "test_a_patch_replaces_values_whole" in wrong
    assert "update_state" in wrong
    assert "assert {" in wrong
    assert "needs a method `make` that returns a new, empty store" in wrong
