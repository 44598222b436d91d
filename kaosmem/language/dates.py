"""Days and periods in a question, relative to its day: yesterday, two weeks ago, last Monday."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kaosmem.language.scripts import MARKS

if TYPE_CHECKING:
    from kaosmem.types import Item


_RUSSIAN = """
day 0: сегодня. day 1: вчера. day 2: позавчера. day #: # день назад, # дня назад, # дней назад.
week 0: на этой неделе. week 1: на прошлой неделе, неделю назад. week #: # недели назад, # недель назад.
month 0: в этом месяце. month 1: в прошлом месяце, месяц назад. month #: # месяца назад, # месяцев назад.
year 0: в этом году. year 1: в прошлом году, год назад. year #: # года назад, # лет назад.
"""
_GREEK = """
day 0: σήμερα. day 1: χθες, χτες, εχθές. day 2: προχθές, προχτές. day #: πριν # μέρες, πριν από # μέρες.
week 0: αυτή την εβδομάδα. week 1: την προηγούμενη εβδομάδα, την περασμένη εβδομάδα.
week #: πριν # εβδομάδες, πριν από # εβδομάδες.
month 0: αυτόν τον μήνα. month 1: τον προηγούμενο μήνα, τον περασμένο μήνα. month #: πριν # μήνες, πριν από # μήνες.
year 0: φέτος. year 1: πέρυσι, πέρσι. year #: πριν # χρόνια, πριν από # χρόνια.
"""
_ARABIC = """
day 0: اليوم. day 1: أمس, امس, بالأمس. day 2: أول أمس, اول امس. day #: قبل # أيام, قبل # يوما, منذ # أيام, منذ # يوما.
week 0: هذا الأسبوع. week 1: الأسبوع الماضي. week #: قبل # أسابيع, منذ # أسابيع.
month 0: هذا الشهر. month 1: الشهر الماضي. month #: قبل # أشهر, منذ # أشهر.
year 0: هذا العام, هذه السنة. year 1: العام الماضي, السنة الماضية. year #: قبل # سنوات, منذ # سنوات.
"""
_HINDI = """
day 0: आज. day 1: कल. day 2: परसों. day #: # दिन पहले.
week 0: इस सप्ताह, इस हफ्ते. week 1: पिछले सप्ताह, पिछले हफ्ते. week #: # सप्ताह पहले, # हफ्ते पहले.
month 0: इस महीने. month 1: पिछले महीने. month #: # महीने पहले.
year 0: इस साल, इस वर्ष. year 1: पिछले साल, पिछले वर्ष. year #: # साल पहले, # वर्ष पहले.
"""


def _read(table: str) -> Mapping[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for entry in filter(None, (each.strip() for each in table.replace("\n", " ").split("."))):
        meaning, _, phrases = entry.partition(":")
        unit, ago = meaning.split()
        found |= {phrase.strip().casefold(): (unit, ago) for phrase in phrases.split(",")}
    return found


PERIOD_WORDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {phrase: meaning for table in (_RUSSIAN, _GREEK, _ARABIC, _HINDI) for phrase, meaning in _read(table).items()}
)
"""Phrases, with `#` for a number, and the unit and how many of them ago they mean, `#` for that number."""


_NUMBERS = "a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBER_OF = {"a": 1, "an": 1} | {word: n for n, word in enumerate(_NUMBERS.split("|")[2:], 1)}
_WEEKDAYS = "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
_PATTERN = re.compile(
    rf"\b(?:(?P<today>today|tonight|this (?:morning|afternoon|evening))"
    rf"|(?P<before>the day before yesterday)|(?P<yesterday>yesterday|last night)"
    rf"|(?P<count>\d{{1,4}}|{_NUMBERS}|couple of) (?P<unit>day|week|month|year)s? ago"
    rf"|(?:last|past|previous) (?P<span>\d{{1,4}}|{_NUMBERS}|couple of) (?P<of>day|week|month|year)s"
    rf"|(?P<which>this|last|previous) (?P<period>week|month|year)"
    rf"|(?P<on>on|this|last) (?P<weekday>{'|'.join(_WEEKDAYS)}))\b",
    re.IGNORECASE | re.ASCII,
)
_SENTENCE_END = re.compile(r"(?<=[.?!؟])\s+")
_IN_WORDS = "|".join(
    r"\s+".join(re.escape(part) for part in phrase.split()).replace(r"\#", r"\d{1,4}")
    for phrase in sorted(PERIOD_WORDS, key=len, reverse=True)
)
_OTHER_LANGUAGES = re.compile(rf"(?<![\w{MARKS}])(?:{_IN_WORDS})(?![\w{MARKS}])", re.IGNORECASE)
_DAYS_OF = {"day": 1, "week": 7, "month": 30, "year": 365}


class Period(NamedTuple):
    """Days in a row, both ends included."""

    first: date
    last: date


def periods_in(text: str, clock: Callable[[], datetime]) -> tuple[Period, ...]:
    """Return the periods that a text asks for by words such as "last week", each once.

    It understands English and the phrases of `PERIOD_WORDS`.

    If a sentence of the text is a question, the other sentences do not count: they often tell something by the way.
    The clock says which day is today.
    """
    questions = " ".join(each for each in _SENTENCE_END.split(text) if each.rstrip().endswith(("?", "؟")))
    asked = questions or text
    phrases, others = [*_PATTERN.finditer(asked)], _OTHER_LANGUAGES.findall(asked)
    if not phrases and not others:
        return ()
    today, found = clock().date(), list[Period]()
    with suppress(OverflowError):  # before the year 1
        found += (_period(match, today) for match in phrases)
        found += (_meant(phrase, today) for phrase in others)
    return tuple(dict.fromkeys(found))


def without_periods(text: str) -> str:
    """Return a text without the words for the periods that it speaks of."""
    return _OTHER_LANGUAGES.sub(" ", _PATTERN.sub(" ", text))


def day_of(item: Item) -> date:
    """Return the day of an item's `timestamp`, else the day on which it was added."""
    return (item.timestamp or item.created_at).date()


def _period(match: re.Match[str], today: date) -> Period:
    """Return the days that an expression means. Raises OverflowError."""
    found = {name: (text or "").lower() for name, text in match.groupdict().items()}
    if found["today"]:
        return Period(today, today)
    if found["yesterday"] or found["before"]:
        return _day(today, 2 if found["before"] else 1)
    if found["unit"]:
        return _calendar_period(found["unit"], today, _number(found["count"]))
    if found["of"]:
        days = min(_number(found["span"]) * _DAYS_OF[found["of"]], today.toordinal() - 1)
        return Period(today - timedelta(days=days), today)
    if found["period"]:
        return _calendar_period(found["period"], today, 0 if found["which"] == "this" else 1)
    back = (today.weekday() - _WEEKDAYS.index(found["weekday"])) % 7
    return _day(today, 7 if found["on"] == "last" and back == 0 else back)


def _meant(phrase: str, today: date) -> Period:
    """Return the days that a phrase of `PERIOD_WORDS` means. Raises OverflowError."""
    number = re.search(r"\d+", phrase)
    unit, ago = PERIOD_WORDS[re.sub(r"\d+", "#", " ".join(phrase.casefold().split()))]
    return _calendar_period(unit, today, int(number.group() if number else ago))


def _day(today: date, ago: int) -> Period:
    day = today - timedelta(days=ago)
    return Period(day, day)


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBER_OF.get(word, 2)  # a couple


def _calendar_period(unit: str, today: date, ago: int) -> Period:
    """Return the day, week from Monday, month or year so many of them ago."""
    match unit:
        case "day":
            return _day(today, ago)
        case "week":
            first = today - timedelta(days=today.weekday() + 7 * ago)
            last = first + timedelta(days=6)
        case "month":
            first, after = _month(today, ago), _month(today, ago - 1)
            last = after - timedelta(days=1)
        case _:
            first, last = _month(today.replace(month=1), 12 * ago), _month(today.replace(month=12), 12 * ago)
            last = last.replace(day=31)
    return Period(first, last)


def _month(today: date, ago: int) -> date:
    """Return the first day of the month so many months ago."""
    months = today.year * 12 + today.month - 1 - ago
    if months < 12:
        raise OverflowError("before the year 1")
    return date(months // 12, months % 12 + 1, 1)
