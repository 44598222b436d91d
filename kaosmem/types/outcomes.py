"""Outcomes of a procedure: how often it worked, and what follows from that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kaosmem.types.items import Item

OUTCOMES = "outcomes"
"""The field of a procedure's metadata that counts its runs: [successes, failures]."""
RUN = "run"
"""The field of its metadata that names its first run: the id of the message with the outcome."""
RETIRED = "retired"
"""The field of its metadata that says why it was moved to the archive."""

_ENOUGH_TO_DEMOTE = 3
_ENOUGH_TO_RETIRE = 6


class Outcomes(NamedTuple):
    """How often a procedure worked, and how often it failed.

    >>> Outcomes(4, 1).note, Outcomes(1, 2).note
    ('worked 4 of 5 times', 'failed 2 of 3 times')
    >>> Outcomes(5, 4).is_demoted, Outcomes(2, 4).is_worn_out
    (False, True)
    """

    worked: int
    failed: int

    @classmethod
    def of(cls, item: Item) -> Outcomes | None:
        """Return the outcomes of an item, None if it is no procedure."""
        match item.metadata.get(OUTCOMES):
            case [int(worked), int(failed)] if worked + failed > 0:
                return cls(worked, failed)
        return None

    @classmethod
    def of_runs(cls, runs: Iterable[bool]) -> Outcomes:
        """Return the outcomes of runs."""
        counts = Counter(runs)
        return cls(counts[True], counts[False])

    @property
    def tries(self) -> int:
        """Return the number of runs."""
        return self.worked + self.failed

    @property
    def is_demoted(self) -> bool:
        """Return whether most of several runs failed. Contexts say so."""
        return self.tries >= _ENOUGH_TO_DEMOTE and self.failed > self.worked

    @property
    def is_worn_out(self) -> bool:
        """Return whether it failed so often that it leaves for the archive.

        Two failures for each success: a proven procedure outlives a few that had another cause.
        """
        return self.tries >= _ENOUGH_TO_RETIRE and self.failed >= 2 * self.worked

    @property
    def note(self) -> str:
        """Return the outcomes in words, for the label of the procedure."""
        if self.is_demoted:
            times = ("failed", self.failed)
        else:
            times = ("worked", self.worked)
        return "{} {} of {} times".format(*times, self.tries)

    @property
    def prior(self) -> float:
        """Return the smoothed rate of success, where that of one success counts as 1."""
        return 1.5 * (self.worked + 1) / (self.tries + 2)
