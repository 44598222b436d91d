"""A question as sources are asked it: its text, and the days that it speaks of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kaosmem.retrieval.dates import Period, periods_in, without_periods
from kaosmem.retrieval.past_cues import PAST_CUES, PastCues, PastQuestion

if TYPE_CHECKING:
    from kaosmem.types import Item


@dataclass(frozen=True)
class Query:
    """A question that ranks candidates. Sources and sections get it; a ranker gets its text alone.

    periods: the days that the text speaks of, each period once: first "last week" and the like, then dates.
    past: the text's reference to the past, which brings replaced versions of facts back; None for now.
    as_of: the time at which an item must have held. known_at: the time at which it must have been known. None is now.

    >>> from datetime import UTC, datetime
    >>> query = Query.read("What happened yesterday?", lambda: datetime(2026, 11, 25, tzinfo=UTC))
    >>> query.periods
    (Period(first=datetime.date(2026, 11, 24), last=datetime.date(2026, 11, 24)),)
    """

    text: str
    periods: tuple[Period, ...] = ()
    past: PastQuestion | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None

    @classmethod
    def read(
        cls,
        text: str,
        clock: Callable[[], datetime],
        cues: PastCues = PAST_CUES,
        *,
        as_of: datetime | None = None,
        known_at: datetime | None = None,
    ) -> Query:
        """Return the query of a text. The clock says which day is today, the cues which words ask about the past."""
        relative = periods_in(text, clock)
        today = max((period.last for period in relative), default=None)
        past = cues.read(text, (each for each in relative if each.first != today))
        return cls(text, tuple(dict.fromkeys((*relative, *cues.dates(text)))), past, as_of, known_at)

    @property
    def topic(self) -> str:
        """The text without words such as "last week", by which an item of the period does not match."""
        return without_periods(self.text)

    def admits(self, item: Item) -> bool:
        """Return whether an item had begun to hold, and was known, at the times that the query asks for."""
        has_begun = self.as_of is None or item.valid_from <= self.as_of
        return has_begun and (self.known_at is None or item.created_at <= self.known_at)
