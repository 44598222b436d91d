"""A named fault: a few lines of the package replaced by others, and the tests of the default run that catch it."""

from __future__ import annotations

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
    changes: Sequence[Change]
    tests: Sequence[str]

    def put(self, package: Path) -> None:
        """Change a copy of the package."""
        for file, old, new in self.changes:
            path = package / file
            source = path.read_text()
            assert source.count(old) == 1, f"{self.name}: {file} has {source.count(old)} times {old!r}"
            path.write_text(source.replace(old, new))


def mutant(name: str, file: str, old: str, new: str, *tests: str) -> Mutant:
    """Return a fault of one change."""
    return Mutant(name, (Change(file, old, new),), tests)
