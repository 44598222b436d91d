"""Times that a question speaks of: days relative to its own, dates, and words such as "before".

The words of a language stand in `time_words/LANGUAGE.toml`. A file has these tables:

- `since` is a list of words after which a time is the beginning of a longer one.
- `previous`, `first` and `ever` are lists of words that ask about the past, by the versions that
  they ask for. `*` stands for any letters, as in "previous*".
- `before` and `after` are lists of words for the time before a date, and from it on, if the date
  follows them. `units` stand before these words in "the week before 8 May 2023", which is that
  week alone.
- `months` has the names of the twelve months in order, forms of one month separated by `|`.
- `periods` has phrases by the period that they mean. `"week 1"` is the week before this one,
  `"week #"` the week as many before as the phrase says in place of `#`, `"weeks #"` all days since
  so many weeks. `"monday 0"` is the newest Monday up to today, `"monday 1"` the newest one before
  today.
- `numbers` has the words that may stand in place of `#`, beside digits.

Words of scripts without spaces, such as Chinese and Japanese, are found anywhere in a text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from kaosmem.arguments import Clock
from kaosmem.language.scripts import MARKS, UNSPACED, fold_script
from kaosmem.language.written_dates import TIME_WORDS, WrittenDate, date_reader, is_since
from kaosmem.types.items import Item
from kaosmem.types.versions import Version

T = TypeVar("T")

_QUESTION_MARKS = "?", "؟", "？"
_SENTENCE_END = re.compile(r"(?<=[.?!؟])\s+|(?<=[。？！])")
_DAYS_OF = {"days": 1, "weeks": 7, "months": 30, "years": 365}
_WEEKDAYS = "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"


class _Phrases:
    """The phrases for periods in all languages.

    Args:
        for_ascii: Leave out those that no ASCII text has: their pattern takes long to compile.

    Attributes:
        pattern: Matches any of them.
    """

    def __init__(self, languages: Iterable[Mapping[str, Any]], *, for_ascii: bool) -> None:
        self._meanings: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        forms: dict[str, str] = {}
        for words in languages:
            numbers = words.get("numbers", {})
            self._numbers |= numbers
            number = "|".join([r"\d{1,4}", *numbers])
            for meaning, phrases in words["periods"].items():
                self._meanings |= dict.fromkeys(map(str.casefold, phrases), meaning)
                forms |= {each: _pattern(each).replace(r"\#", f"(?:{number})") for each in phrases}
        self._number = re.compile("|".join([r"\d+", *map(r"\b{}\b".format, self._numbers)]))
        if for_ascii:
            forms = {phrase: form for phrase, form in forms.items() if phrase.isascii()}
        longest_first = [forms[phrase] for phrase in sorted(forms, key=len, reverse=True)]
        self.pattern = re.compile(_any_of(longest_first), re.IGNORECASE)

    def period(self, phrase: str, today: date) -> Period:
        """Return the days that a phrase means. Raises OverflowError for days before the year 1."""
        plain = " ".join(phrase.casefold().replace("’", "'").split())
        unit, ago = self._meanings.get(plain, " #").split(" ")
        for number in self._number.finditer(plain):
            # Of "il y a deux", "a" is a number in English.
            meaning = self._meanings.get(f"{plain[: number.start()]}#{plain[number.end() :]}")
            if meaning is not None:
                unit = meaning.split()[0]
                ago = str(self._numbers.get(number[0], number[0]))
        return _calendar_period(unit, today, int(ago))


@cache
def _phrases(for_ascii: bool) -> _Phrases:
    return _Phrases(TIME_WORDS.values(), for_ascii=for_ascii)


class Period(NamedTuple):
    """Days in a row, both ends included."""

    first: date
    last: date

    def lies_in(self, other: Period) -> bool:
        """Return whether all of these days are days of another period."""
        return other.first <= self.first and self.last <= other.last


def periods_in(text: str, clock: Clock) -> tuple[Period, ...]:
    """Return the periods that a text asks for by words such as "last week", each once.

    If a sentence of the text is a question, the other sentences do not count: they often tell
    something by the way.

    Args:
        clock: Says which day is today.
    """
    questions = [
        each for each in _SENTENCE_END.split(text) if each.rstrip().endswith(_QUESTION_MARKS)
    ]
    known = _phrases(text.isascii())
    asked = " ".join(questions) or text
    phrases = [*known.pattern.finditer(asked)]
    if not phrases:
        return ()
    today = clock().date()
    found: list[Period] = []
    for phrase in phrases:
        with suppress(OverflowError):
            period = known.period(phrase[0], today)
            if is_since(asked, phrase.start()):
                period = Period(period.first, max(period.last, today))
            found.append(period)
    return tuple(dict.fromkeys(found))


def without_periods(text: str) -> str:
    """Return a text without the words for the periods that it speaks of."""
    return _phrases(text.isascii()).pattern.sub(" ", text)


def day_of(item: Item) -> date:
    """Return the day of an item's `timestamp`, else the day on which it was added.

    A passage of a file without a timestamp has the first day of all: the day on which the file was
    read says nothing of what it tells.
    """
    if item.timestamp is None and "file" in item.metadata:
        return date.min
    return (item.timestamp or item.created_at).date()


def _calendar_period(
    unit: str,
    today: date,
    ago: int,
) -> Period:
    """Return the day, week from Monday, month or year that was `ago` of them ago.

    Raises OverflowError for days before the year 1.
    """
    if unit in _DAYS_OF:
        days = min(ago * _DAYS_OF[unit], today.toordinal() - 1)
        return Period(today - timedelta(days=days), today)
    if unit == "week":
        first = today - timedelta(days=today.weekday() + 7 * ago)
        return Period(first, first + timedelta(days=6))
    if unit == "month":
        return Period(_month(today, ago), _month(today, ago - 1) - timedelta(days=1))
    if unit == "year":
        first = _month(today.replace(month=1), 12 * ago)
        return Period(first, first.replace(month=12, day=31))
    if unit in _WEEKDAYS:
        back = (today.weekday() - _WEEKDAYS.index(unit)) % 7
        if ago and back == 0:
            ago = 7
        else:
            ago = back
    day = today - timedelta(days=ago)
    return Period(day, day)


def _month(today: date, ago: int) -> date:
    """Return the first day of the month `ago` months ago."""
    months = today.year * 12 + today.month - 1 - ago
    if months < 12:
        raise OverflowError("before the year 1")
    return date(months // 12, months % 12 + 1, 1)


_LAST_DAY = date.max - timedelta(days=1)
_IN_DATES = r"(?:(?:the|of|de[lmnr]?|le|el|\d{1,2}(?:st|nd|rd|th|\.)?)\s+){0,4}"
"""What may stand between "before" and the month or the year."""


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """A question's reference to the past.

    Attributes:
        which: Any of "previous", "first" and "ever": the versions that it asks for.
        periods: The days of each date in the question.
        days: The days of items that it asks for: those of the periods, and with "before 2024" all
            days before.
    """

    which: frozenset[str] = frozenset()
    periods: tuple[Period, ...] = ()
    days: tuple[Period, ...] = ()

    def choose(self, versions: Sequence[Version[T]], found: Collection[T] = ()) -> list[Version[T]]:
        """Return the past versions of one fact that the question asks for, the most wanted first.

        With dates, they are the versions that held then, and with "before 2024" the version just
        before. Without dates, they are the previous, the first or all versions, and the versions in
        `found`, which match the question's words.

        Args:
            versions: Oldest first. The last one is the current version, and is never among the
                result.
        """
        past = versions[:-1]
        wanted = list[Version[T]]()
        if self.periods:
            wanted += [
                each
                for each in reversed(past)
                if any(_overlaps(each, period) for period in self.periods)
            ]
            if "previous" in self.which:
                start = _midnight(min(period.first for period in self.periods))
                wanted += [each for each in past if each.valid_from < start][-1:]
        else:
            if "previous" in self.which:
                wanted += past[-1:]
            if "first" in self.which:
                wanted += past[:1]
            if "ever" in self.which:
                wanted += reversed(past)
            wanted += [each for each in reversed(past) if each.item in found]
        return list({id(each): each for each in wanted}.values())


_UNSPACED = re.compile(f"[{UNSPACED}]")


def past_question(text: str, periods: Iterable[Period] = ()) -> PastQuestion | None:
    """Return a question's reference to the past, None for a question about now.

    The languages are those that have a file, among them all whose stop words kaosmem knows.

    Args:
        periods: The question's "last week" and the like as days.

    >>> past_question("Where did she live before?").which
    frozenset({'previous'})
    >>> past_question("Where does she live?")
    """
    which = _cues(text)
    sides = which & {"before", "after"}
    which -= sides
    relative = tuple(periods)
    written = dict.fromkeys(map(_period, date_reader().read(text)))
    if "before" in sides and written:
        which.add("previous")
    elif "before" in sides:  # "before March": nobody said of which year
        which.add("ever")
    found = tuple(dict.fromkeys((*relative, *written)))
    days = found
    if len(sides) == 1 and len(written) == 1:
        days = (*relative, _beside(next(iter(written)), next(iter(sides))))
    if which or found:
        return PastQuestion(frozenset(which), found, days)
    return None


def _cues(text: str) -> set[str]:
    """Return the names of the lists of which a text has words."""
    raw = text.casefold()
    both = raw
    if not raw.isascii():
        both = f"{raw} | {fold_script(raw)}"
    cues = set()
    for name, pattern in _past_words(is_ascii=text.isascii()).items():
        found = pattern.search(both)
        if found is not None and not found.groupdict().get("unit"):
            cues.add(name)
    return cues


def _beside(period: Period, side: str) -> Period:
    """Return the days before a period, or from its first one on."""
    if side == "before":
        # The first day of all is that of items without a day.
        return Period(date.min + timedelta(days=1), period.first - timedelta(days=1))
    return Period(period.first, date.max)


@cache
def _past_words(*, is_ascii: bool) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns of the words in each list, of those that an ASCII text may have."""
    found = {}
    for which in ("previous", "first", "ever"):
        found[which] = re.compile(_any_of(_known(which, is_ascii=is_ascii)))
    months = "|".join(_known("months", is_ascii=is_ascii))
    units = "|".join(_known("units", is_ascii=is_ascii))
    for side in ("before", "after"):
        words = "|".join(_known(side, is_ascii=is_ascii))
        beside = rf"(?:{words})\s+{_IN_DATES}(?:\d{{4}}|{months})"
        found[side] = re.compile(_whole(rf"(?:(?P<unit>{units})\s+)?{beside}"))
    return found


def _known(name: str, *, is_ascii: bool) -> Iterator[str]:
    """Yield the patterns of the words in a list of each language."""
    for words in chain.from_iterable(each.get(name, ()) for each in TIME_WORDS.values()):
        for word in words.split("|"):
            if word.isascii() or not is_ascii:
                yield _pattern(word)


def _pattern(word: str) -> str:
    """Return a word as a pattern: `*` is any letters and apostrophes, a blank is any white space."""
    escaped = r"\s+".join(re.escape(part) for part in word.casefold().split())
    escaped = escaped.replace("'", "['’]")
    return escaped.replace(r"\*", rf"[\w'’{MARKS}]*")


def _any_of(patterns: Iterable[str]) -> str:
    """Return a pattern for any of these: as whole words, but in scripts without spaces anywhere."""
    spaced: list[str] = []
    unspaced: list[str] = []
    for pattern in patterns:
        if _UNSPACED.search(pattern):
            unspaced.append(pattern)
        else:
            spaced.append(pattern)
    if spaced:
        found = [_whole("|".join(spaced))]
    else:
        found = []
    if unspaced:  # no other letter costs more than a look
        found.append(rf"(?=[\d{UNSPACED}])(?:{'|'.join(unspaced)})")
    return "|".join(found)


def _whole(pattern: str) -> str:
    return rf"(?<![\w{MARKS}])(?:{pattern})(?![\w{MARKS}])"


def _period(written: WrittenDate) -> Period:
    """Return the first and last day of a date, a month or a year. "Since" has no last day."""
    year, month, day, _, is_open = written
    if is_open:
        return Period(written.first, date.max)
    if day:
        return Period(written.first, written.first)
    if month in (0, 12):
        after = date(year + 1, 1, 1)
    else:
        after = date(year, month + 1, 1)
    return Period(written.first, after - timedelta(days=1))


def _overlaps(version: Version[T], period: Period) -> bool:
    start = _midnight(period.first)
    end = _midnight(min(period.last, _LAST_DAY)) + timedelta(days=1)
    if version.valid_until is not None and version.valid_until <= start:
        return False
    return version.valid_from < end


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(tzinfo=UTC))
