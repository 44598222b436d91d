"""A named fault: a few lines of the package replaced by others, and the tests of the default run that catch it."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "kaosmem"


class Change(NamedTuple):
    """Other text in the place of the only one in a file. file: below the package."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """A fault. tests: arguments of pytest, of which one test or more fails."""

    name: str
    tests: Sequence[str]
    changes: Sequence[Change]

    def put(self, package):
        """Change a copy of the package."""
        for file, old, new in self.changes:
            path = package / file
            source = path.read_text()
            assert source.count(old) == 1, f"{self.name}: {file} has changed"
            path.write_text(source.replace(old, new))


def mutants():
    """Return the faults of all tables beside this file."""
    tables = [
        tomllib.loads(path.read_text()) for path in sorted(Path(__file__).parent.glob("*.toml"))
    ]
    return [
        Mutant(each["name"], each["tests"], [Change(**change) for change in each["changes"]])
        for table in tables
        for each in table["mutants"]
    ]
