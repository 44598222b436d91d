"""Named faults of the package: tests of the default run catch each.

`pytest -m mutants` tries them, for about 11 minutes on two cores.
"""

import os
import shutil
import subprocess
import sys

import pytest

from tests.mutants.mutant import PACKAGE, mutants

MUTANTS = mutants()
_LIMIT_S = 300


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the project."""
    root = PACKAGE.parent
    folder = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    for name in ("kaosmem", "tests", "benchmarks"):
        shutil.copytree(root / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(root / name, folder / name)
    return folder


def test_the_mutants_are_many_and_named():
    """Each has a name and tests that are there, and changes lines that are there."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 60
    for mutant in MUTANTS:
        files = [each.partition("::")[0] for each in mutant.tests if each.startswith("tests/")]
        assert files
        assert all((PACKAGE.parent / file).is_file() for file in files), (
            f"{mutant.name}: a test has moved"
        )
        for file, old, new in mutant.changes:
            assert (PACKAGE / file).read_text().count(old) == 1, (
                f"{mutant.name}: {file} has changed"
            )
            assert old != new


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_fault_is_caught(mutant, copied):
    """A test fails with the fault in the package."""
    saved = {file: (copied / "kaosmem" / file).read_text() for file, _, _ in mutant.changes}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider"]
    command += ["--hypothesis-profile", "mutants", *mutant.tests]
    try:
        mutant.put(copied / "kaosmem")
        environment = os.environ | {
            "PYTHONPYCACHEPREFIX": str(copied / "bytecode"),
            "PYTHONPATH": str(copied),
        }
        done = subprocess.run(
            command,
            cwd=copied,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
    finally:
        for file, source in saved.items():
            (copied / "kaosmem" / file).write_text(source)
    is_caught = (
        done.returncode == 1 and "\nFAILED " in done.stdout
    )  # and not an error while the tests are collected
    assert is_caught, f"survives: {done.stdout[-2_000:]}{done.stderr[-500:]}"
    print(done.stdout[-300:])
