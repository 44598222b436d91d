"""A contract in a project of somebody else's, whose pytest is configured in no way."""

import subprocess
import sys

from kaosmem.testing import ShortTermContract

PROJECT = """
from kaosmem.stores import InMemoryShortTermMemory
from kaosmem.testing import ShortTermContract


class Forgetful(InMemoryShortTermMemory):
    async def update_state(self, session_id, patch):
        await self.set_state(session_id, patch)
        return dict(patch)


class TestRight(ShortTermContract):
    durable = False

    async def make(self):
        return InMemoryShortTermMemory()


class TestWrong(ShortTermContract):
    durable = False

    async def make(self):
        return Forgetful()


class TestUnfinished(ShortTermContract):
    pass


class TestNeverReopened(ShortTermContract):
    async def make(self):
        return InMemoryShortTermMemory()
"""


def ran(folder, *names):
    """Return the report of pytest on some classes and tests."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rA",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
    ]
    run = [
        *command,
        "--rootdir",
        ".",
        "-p",
        "no:langsmith_plugin",
        *(f"test_mine.py::{name}" for name in names),
    ]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_a_contract_runs_anywhere(tmp_path):
    """Every test of it runs in pytest-asyncio's default mode, a failure shows what was compared, and a subclass
    that lacks a method is told which."""
    (tmp_path / "test_mine.py").write_text(PROJECT)
    names = (
        "TestWrong::test_a_patch_replaces_values_whole",
        "TestUnfinished::test_what_was_never_stored_is_nothing",
        "TestNeverReopened::test_what_was_never_stored_is_nothing",
    )
    report = ran(tmp_path, "TestRight", *names)
    assert report.count("PASSED test_mine.py::TestRight::") == sum(
        name.startswith("test_") for name in dir(ShortTermContract)
    )
    assert "FAILED test_mine.py::TestWrong::test_a_patch_replaces_values_whole" in report
    assert ", 2 errors in " in report
    assert "1 failed, " in report
    assert "update_state" in report
    assert "assert {" in report
    assert "for a store in memory set `durable = False`" in report
    assert "needs a method `make` that returns a new, empty store" in report
