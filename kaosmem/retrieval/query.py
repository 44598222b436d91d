"""A question as sources are asked it: its text, and the days that it speaks of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kaosmem.retrieval.dates import Period, day_of, periods_in, without_periods
from kaosmem.retrieval.past_cues import PAST_CUES, PastCues, PastQuestion

if TYPE_CHECKING:
    from kaosmem.types import Item


@dataclass(frozen=True)
class Query:
    """A question that ranks candidates. Sources and sections get it; a ranker gets its text alone.

    periods: the days that the text speaks of, each period once, in the order of the text.
    past: what the text asks about the past, which brings replaced versions of facts back; None for now.

    >>> from datetime import UTC, datetime
    >>> query = Query.read("What happened yesterday?", lambda: datetime(2026, 11, 25, tzinfo=UTC))
    >>> query.periods
    (Period(first=datetime.date(2026, 11, 24), last=datetime.date(2026, 11, 24)),)
    """

    text: str
    periods: tuple[Period, ...] = ()
    past: PastQuestion | None = None

    @classmethod
    def read(cls, text: str, clock: Callable[[], datetime], cues: PastCues = PAST_CUES) -> Query:
        """Return the query of a text. The clock says which day is today, the cues which words ask about the past."""
        periods = periods_in(text, clock)
        today = max((period.last for period in periods), default=None)
        return cls(text, periods, cues.read(text, (each for each in periods if each.first != today)))

    @property
    def topic(self) -> str:
        """The text without the words for its periods."""
        return without_periods(self.text)

    def covers(self, item: Item) -> bool:
        """Return whether an item is of one of the periods: by its `timestamp`, else by when it was added."""
        return bool(self.periods) and any(period.first <= day_of(item) <= period.last for period in self.periods)
