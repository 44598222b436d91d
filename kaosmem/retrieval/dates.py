"""Days and periods in a question, relative to its day: yesterday, two weeks ago, last Monday."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaosmem.types import Item

_NUMBERS = "a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBER_OF = {"a": 1, "an": 1} | {word: n for n, word in enumerate(_NUMBERS.split("|")[2:], 1)}
_WEEKDAYS = "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
_PATTERN = re.compile(
    rf"\b(?:(?P<today>today|tonight|this (?:morning|afternoon|evening))"
    rf"|(?P<before>the day before yesterday)|(?P<yesterday>yesterday|last night)"
    rf"|(?P<count>\d{{1,4}}|{_NUMBERS}|couple of) (?P<unit>day|week|month|year)s? ago"
    rf"|(?:last|past|previous) (?P<span>\d{{1,4}}|{_NUMBERS}|couple of) (?P<of>day|week|month|year)s"
    rf"|(?P<which>this|last|previous) (?P<period>week|month|year)"
    rf"|(?P<on>on|this|last) (?P<weekday>{'|'.join(_WEEKDAYS)}))\b"
)
_DAYS_OF = {"day": 1, "week": 7, "month": 30, "year": 365}


class DatedQuery(str):
    """A query, and the days that it speaks of. periods: first and last day of each, as `date.toordinal` counts them."""

    periods: tuple[tuple[int, int], ...] = ()


def dated(query: str, clock: Callable[[], datetime]) -> DatedQuery:
    """Return a query with the days that it means by the clock, if it speaks of any; understands English alone."""
    found = DatedQuery(query)
    if matches := [*_PATTERN.finditer(query.casefold())]:
        today = clock().date()
        with suppress(OverflowError):  # before the year 1
            found.periods = tuple(dict.fromkeys(_period(match, today) for match in matches))
    return found


def day_of(item: Item) -> int:
    """Return the day of an item's `timestamp`, or else of when it was made, as `date.toordinal` counts days."""
    return (item.timestamp or item.created_at).toordinal()


def _period(match: re.Match[str], today: date) -> tuple[int, int]:
    """Return the first and the last day that an expression means. Raises OverflowError."""
    day = today.toordinal()
    if match["today"]:
        return day, day
    if match["yesterday"] or match["before"]:
        day -= 2 if match["before"] else 1
        return day, day
    if match["unit"]:
        return _calendar_period(match["unit"], today, _number(match["count"]))
    if match["of"]:
        return max(1, day - _number(match["span"]) * _DAYS_OF[match["of"]]), day
    if match["period"]:
        return _calendar_period(match["period"], today, 0 if match["which"] == "this" else 1)
    back = (today.weekday() - _WEEKDAYS.index(match["weekday"])) % 7
    day -= 7 if match["on"] == "last" and back == 0 else back
    return day, day


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBER_OF.get(word, 2)  # a couple


def _calendar_period(unit: str, today: date, ago: int) -> tuple[int, int]:
    """Return the day, week from Monday, month or year so many of them ago."""
    match unit:
        case "day":
            first = last = today - timedelta(days=ago)
        case "week":
            first = today - timedelta(days=today.weekday() + 7 * ago)
            last = first + timedelta(days=6)
        case "month":
            first, after = _month(today, ago), _month(today, ago - 1)
            last = after - timedelta(days=1)
        case _:
            first, last = _month(today.replace(month=1), 12 * ago), _month(today.replace(month=12), 12 * ago)
            last = last.replace(day=31)
    return first.toordinal(), last.toordinal()


def _month(today: date, ago: int) -> date:
    """Return the first day of the month so many months ago."""
    months = today.year * 12 + today.month - 1 - ago
    if months < 12:
        raise OverflowError("before the year 1")
    return date(months // 12, months % 12 + 1, 1)
