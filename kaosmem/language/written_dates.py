"""Dates as texts write them: 2024-05-08, 8 May 2024, May 8th, 2024, 8.5.2024 and 2024年5月8日.

A date with slashes is left alone: 5/8/2024 is a day in May or in August.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import cache
from itertools import chain
from typing import NamedTuple

from kaosmem.language.scripts import MARKS, fold_script
from kaosmem.language.tables import tables_by_language

TIME_WORDS = tables_by_language("time_words")
"""The words about times, by language. `dates.py` says what the tables mean."""

_YEAR = re.compile(r"\d\d\d\d")
_YEARS = range(1900, 2100)
_PART_OF_WORD = re.compile(rf"[\w{MARKS}]")
# What may follow a year.
_ISO = re.compile(r"-(\d\d)(?:-(\d\d)(?!\d))?(?!\d)")
_UNSPACED = re.compile(r"\s?[年년](?:\s?(\d{1,2})\s?[月월](?:\s?(\d{1,2})\s?[日號号일])?)?")
# What may stand before it.
_DAY_AND_MONTH = re.compile(r"(?<![\d.])(\d{1,2})\.\s?(\d{1,2})\.\s?$")
_DAY = re.compile(r"(\d{1,2})(?:st|nd|rd|th|\.)?")
# Between the words of a date, and before them: all but the end of a sentence or clause.
_GAPS = re.compile(rf"[^\w{MARKS}.:;?!]+|(?<=\d)\.(?=[^\W\d])")
_JOINING = frozenset(("", "of", "de", "del"))
"""Words between those of a date: "8 de mayo de 2024"."""
_MOST_BEFORE = 28
"""The day and the month stand among so many characters before the year."""
_SINCE_WORDS = "|".join(
    chain.from_iterable(words.get("since", ()) for words in TIME_WORDS.values())
)
_SINCE = re.compile(rf"\b(?:{_SINCE_WORDS})\b(?:[^.,;:?!]|\d\.)*$", re.IGNORECASE)


class WrittenDate(NamedTuple):
    """A day, a month (its day is 0) or a year (its month is 0, too).

    is_iso: Whether it is written as 2024-05-08 or 2024-05.
    is_open: Whether a word such as "since" stands before it.
    """

    year: int
    month: int
    day: int
    is_iso: bool
    is_open: bool

    @property
    def exists(self) -> bool:
        """Return whether the calendar has it."""
        try:
            return self.first.year == self.year
        except ValueError:
            return False

    @property
    def first(self) -> date:
        """Return its first day. Raises ValueError for a date that the calendar has not."""
        return date(self.year, self.month or 1, self.day or 1)


class DateReader:
    """Finds the dates, months and years of a text. The time is linear.

    Args:
        months: The names of the twelve months in each language, forms of one month separated by
            `|`. `*` at the end of a name stands for any letters.

    >>> reader = DateReader([["janvier", "février", "mars", *"abcdefghi"]])
    >>> [found.first.isoformat() for found in reader.read("Le 8 mars 2024, puis en 2025")]
    ['2024-03-08', '2025-01-01']
    """

    def __init__(self, months: Iterable[Sequence[str]]) -> None:
        self._months: dict[str, int] = {}
        self._beginnings: dict[str, int] = {}
        for names in months:
            for number, forms in enumerate(names, 1):
                for form in forms.casefold().split("|"):
                    if form.endswith("*"):
                        self._beginnings[form[:-1]] = number
                    else:
                        self._months[form] = number
        # One pattern: a loop over all of them took a third of the time of a text full of years.
        self._any_beginning = re.compile("|".join(map(re.escape, self._beginnings)) or r"(?!)")

    def read(self, text: str) -> Iterator[WrittenDate]:
        """Yield the dates of a text in order."""
        if text.isascii() and "19" not in text and "20" not in text:
            return  # the regular expression takes several times as long to find none
        for year in _YEAR.finditer(text):
            if int(year[0]) in _YEARS:
                found = self._date(text, year)
                if found is not None:
                    yield found

    def _date(self, text: str, year: re.Match[str]) -> WrittenDate | None:
        """Return the date that a year is part of, None if it is a part of a word or a number."""
        start, end = year.span()
        before = text[max(0, start - _MOST_BEFORE) : start]
        is_iso = False
        unspaced = _UNSPACED.match(text, end)
        if unspaced is not None and not before[-1:].isdigit():
            month, day = int(unspaced[1] or 0), int(unspaced[2] or 0)
        elif _PART_OF_WORD.match(text, end) or _PART_OF_WORD.match(before[-1:]):
            return None
        else:
            iso = _ISO.match(text, end)
            is_iso = iso is not None
            if iso is not None:
                month, day = int(iso[1]), int(iso[2] or 0)
            else:
                month, day = self._month_and_day(before)
        found = WrittenDate(int(year[0]), month, day, is_iso, is_since(text, start))
        return found if found.exists else None

    def _month_and_day(self, before: str) -> tuple[int, int]:
        """Return the month and the day at the end of a text before a year, 0 for none."""
        text = before.casefold()
        if not text.isascii():
            text = fold_script(text)
        in_numbers = _DAY_AND_MONTH.search(text)
        if in_numbers is not None:
            return int(in_numbers[2]), int(in_numbers[1])
        words = ["", "", *(word for word in _GAPS.split(text) if word not in _JOINING)]
        month = self._month(words[-1])
        if month:
            return month, _day(words[-2])
        day = _day(words[-1])
        if day:
            month = self._month(words[-2])
        else:
            month = 0
        return month, day if month else 0

    def _month(self, word: str) -> int:
        """Return the number of a month, 0 for any other word."""
        word = word.rstrip(".")
        if word in self._months:
            return self._months[word]
        beginning = self._any_beginning.match(word)
        if beginning:
            return self._beginnings[beginning[0]]
        return 0


def is_since(text: str, end: int) -> bool:
    """Return whether a word such as "since" stands before a time, in the same clause."""
    return _SINCE.search(text, max(0, end - _MOST_BEFORE), end) is not None


def _day(word: str) -> int:
    found = _DAY.fullmatch(word)
    if found:
        return int(found[1])
    return 0


@cache
def date_reader() -> DateReader:
    """Return the reader of the dates of all languages."""
    return DateReader(words["months"] for words in TIME_WORDS.values() if "months" in words)


def date_terms(text: str) -> Iterator[str]:
    """Yield terms of the days and months that a text writes in other forms than ISO's.

    So a question finds a date in whatever form the text has it.

    >>> [*date_terms("Signed on May 8th, 2024, valid from 1.6.2024 and billed in June 2024.")]
    ['2024-05-08', '2024-05', '2024-06-01', '2024-06', '2024-06']
    """
    for found in date_reader().read(text):
        if found.month and not found.is_iso:
            month = f"{found.year}-{found.month:02}"
            if found.day:
                yield f"{month}-{found.day:02}"
            yield month
