"""Times that a question speaks of: days and periods relative to its own day, dates, and words such as "before"."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from kaosmem.errors import InvalidArgumentError
from kaosmem.language.scripts import MARKS, fold_script
from kaosmem.names import shown_name
from kaosmem.types.items import Item
from kaosmem.types.versions import Version

T = TypeVar("T")

# Of each unit, phrases by how many of it ago they mean; `#` is any number.
_PERIOD_TABLE = """
day 0: heute. day 1: gestern. day 2: vorgestern. day #: vor # tagen.
week 0: diese woche, in dieser woche. week 1: letzte woche, vorige woche, vor einer woche. week #: vor # wochen.
month 0: diesen monat, in diesem monat. month 1: letzten monat, vorigen monat, vor einem monat. month #: vor # monaten.
year 0: dieses jahr, in diesem jahr. year 1: letztes jahr, voriges jahr, vor einem jahr. year #: vor # jahren.
day 0: сегодня. day 1: вчера. day 2: позавчера. day #: # день назад, # дня назад, # дней назад.
week 0: на этой неделе. week 1: на прошлой неделе, неделю назад. week #: # недели назад, # недель назад.
month 0: в этом месяце. month 1: в прошлом месяце, месяц назад. month #: # месяца назад, # месяцев назад.
year 0: в этом году. year 1: в прошлом году, год назад. year #: # года назад, # лет назад.
day 0: σήμερα. day 1: χθες, χτες, εχθές. day 2: προχθές, προχτές. day #: πριν # μέρες, πριν από # μέρες.
week 0: αυτή την εβδομάδα. week 1: την προηγούμενη εβδομάδα, την περασμένη εβδομάδα.
week #: πριν # εβδομάδες, πριν από # εβδομάδες.
month 0: αυτόν τον μήνα. month 1: τον προηγούμενο μήνα, τον περασμένο μήνα. month #: πριν # μήνες, πριν από # μήνες.
year 0: φέτος. year 1: πέρυσι, πέρσι. year #: πριν # χρόνια, πριν από # χρόνια.
day 0: اليوم. day 1: أمس, امس, بالأمس. day 2: أول أمس, اول امس. day #: قبل # أيام, قبل # يوما, منذ # أيام, منذ # يوما.
week 0: هذا الأسبوع. week 1: الأسبوع الماضي. week #: قبل # أسابيع, منذ # أسابيع.
month 0: هذا الشهر. month 1: الشهر الماضي. month #: قبل # أشهر, منذ # أشهر.
year 0: هذا العام, هذه السنة. year 1: العام الماضي, السنة الماضية. year #: قبل # سنوات, منذ # سنوات.
day 0: आज. day 1: कल. day 2: परसों. day #: # दिन पहले.
week 0: इस सप्ताह, इस हफ्ते. week 1: पिछले सप्ताह, पिछले हफ्ते. week #: # सप्ताह पहले, # हफ्ते पहले.
month 0: इस महीने. month 1: पिछले महीने. month #: # महीने पहले.
year 0: इस साल, इस वर्ष. year 1: पिछले साल, पिछले वर्ष. year #: # साल पहले, # वर्ष पहले.
"""


def _period_words() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield each phrase of the table, with the unit and how many of it ago it means."""
    for entry in filter(None, map(str.strip, _PERIOD_TABLE.replace("\n", " ").split("."))):
        meaning, _, phrases = entry.partition(":")
        unit, ago = meaning.split()
        yield from ((phrase.strip().casefold(), (unit, ago)) for phrase in phrases.split(","))


_PERIOD_WORDS = dict(_period_words())

_NUMBERS = "a|an|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_NUMBER_OF = {"a": 1, "an": 1} | {word: n for n, word in enumerate(_NUMBERS.split("|")[2:], 1)}
_WEEKDAYS = "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"
_PATTERN = re.compile(
    rf"\b(?:(?P<today>today|tonight|this (?:morning|afternoon|evening))"
    rf"|(?P<before>the day before yesterday)|(?P<yesterday>yesterday|last night)"
    rf"|(?P<count>\d{{1,4}}|{_NUMBERS}|couple of) (?P<unit>day|week|month|year)s? ago"
    rf"|(?:last|past|previous) (?P<span>\d{{1,4}}|{_NUMBERS}|couple of) "
    r"(?P<of>day|week|month|year)s"
    rf"|(?P<which>this|last|previous) (?P<period>week|month|year)"
    rf"|(?P<on>on|this|last) (?P<weekday>{'|'.join(_WEEKDAYS)}))\b",
    re.IGNORECASE | re.ASCII,
)
_SENTENCE_END = re.compile(r"(?<=[.?!؟])\s+")
_IN_WORDS = "|".join(
    r"\s+".join(re.escape(part) for part in phrase.split()).replace(r"\#", r"\d{1,4}")
    for phrase in sorted(_PERIOD_WORDS, key=len, reverse=True)
)
_OTHER_LANGUAGES = re.compile(rf"(?<![\w{MARKS}])(?:{_IN_WORDS})(?![\w{MARKS}])", re.IGNORECASE)
_DAYS_OF = {"day": 1, "week": 7, "month": 30, "year": 365}


class Period(NamedTuple):
    """Days in a row, both ends included."""

    first: date
    last: date

    def lies_in(self, other: Period) -> bool:
        """Return whether all of these days are days of another period."""
        return other.first <= self.first and self.last <= other.last


def periods_in(text: str, clock: Callable[[], datetime]) -> tuple[Period, ...]:
    """Return the periods that a text asks for by words such as "last week", each once.

    It understands English and the phrases of `_PERIOD_TABLE`.

    If a sentence of the text is a question, the other sentences do not count: they often tell
    something by the way. The clock says which day is today.
    """
    questions = " ".join(
        each for each in _SENTENCE_END.split(text) if each.rstrip().endswith(("?", "؟"))
    )
    asked = questions or text
    phrases = [*_PATTERN.finditer(asked)]
    others = _OTHER_LANGUAGES.findall(asked)
    if not phrases and not others:
        return ()
    today = clock().date()
    found = list[Period]()
    with suppress(OverflowError):  # before the year 1
        found += (_stated(match, today) for match in phrases)
        found += (_meant(phrase, today) for phrase in others)
    return tuple(dict.fromkeys(found))


def without_periods(text: str) -> str:
    """Return a text without the words for the periods that it speaks of."""
    return _OTHER_LANGUAGES.sub(" ", _PATTERN.sub(" ", text))


def day_of(item: Item) -> date:
    """Return the day of an item's `timestamp`, else the day on which it was added."""
    return (item.timestamp or item.created_at).date()


def _stated(match: re.Match[str], today: date) -> Period:
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
    """Return the days that a phrase of `_PERIOD_TABLE` means. Raises OverflowError."""
    number = re.search(r"\d+", phrase)
    unit, ago = _PERIOD_WORDS[re.sub(r"\d+", "#", " ".join(phrase.casefold().split()))]
    return _calendar_period(unit, today, int(number.group() if number else ago))


def _day(today: date, ago: int) -> Period:
    day = today - timedelta(days=ago)
    return Period(day, day)


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBER_OF.get(word, 2)  # a couple


def _calendar_period(unit: str, today: date, ago: int) -> Period:
    """Return the day, week from Monday, month or year that was `ago` of them ago."""
    match unit:
        case "day":
            return _day(today, ago)
        case "week":
            first = today - timedelta(days=today.weekday() + 7 * ago)
            last = first + timedelta(days=6)
        case "month":
            first = _month(today, ago)
            after = _month(today, ago - 1)
            last = after - timedelta(days=1)
        case _:
            first = _month(today.replace(month=1), 12 * ago)
            last = _month(today.replace(month=12), 12 * ago)
            last = last.replace(day=31)
    return Period(first, last)


def _month(today: date, ago: int) -> date:
    """Return the first day of the month `ago` months ago."""
    months = today.year * 12 + today.month - 1 - ago
    if months < 12:
        raise OverflowError("before the year 1")
    return date(months // 12, months % 12 + 1, 1)


_LAST_DAY = date.max - timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PastWords:
    """The words of one language that ask about the past.

    `*` stands for any letters, as in "previous*".

    Attributes:
        previous: Ask for the version before the current one.
        first: Ask for the first version.
        ever: Ask for all versions.
        months: Names of the twelve months in order, forms of one month separated by `|`; they make
            dates.
    """

    previous: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    ever: tuple[str, ...] = ()
    months: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for each in fields(self):
            given = getattr(self, each.name)
            words = () if isinstance(given, str) else tuple(given)
            if isinstance(given, str) or not all(
                isinstance(word, str) and word.strip("* ") for word in words
            ):
                raise InvalidArgumentError(
                    f"{each.name} is {shown_name(given)}; give a list of words"
                )
            object.__setattr__(self, each.name, words)
        if len(self.months) not in (0, 12):
            raise InvalidArgumentError(
                f"there are {len(self.months)} months; give the names of all 12, or none"
            )


ENGLISH = PastWords(
    previous=(
        "before", "previous*", "prior", "former", "formerly", "earlier", "used to", "until", "till", "no longer",
        "anymore", "any more", "back then", "at that time", "at the time", "in the past", "old", "replace*",
    ),
    first=(
        "at first", "original*", "initial", "initially", "in the beginning", "at the beginning", "to begin with",
        "at the start", "the very first",
    ),
    ever=("ever", "always", "history", "over time", "at any time", "changed", "changes"),
    months=(
        "january|jan", "february|feb", "march|mar", "april|apr", "may", "june|jun", "july|jul", "august|aug",
        "september|sept|sep", "october|oct", "november|nov", "december|dec",
    ),
)  # fmt: skip
GERMAN = PastWords(
    previous=(
        "früher*", "vorher", "vorherig*", "zuvor", "davor", "ehemal*", "damals", "damalig*", "bisher", "bisherig*",
        "bislang", "nicht mehr",
    ),
    first=("ursprünglich*", "zuerst", "anfangs", "am anfang", "zu beginn"),
    ever=("jemals", "immer", "geändert", "im laufe der zeit"),
    months=(
        "januar|jänner", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober",
        "november", "dezember",
    ),
)  # fmt: skip
RUSSIAN = PastWords(
    previous=(
        "раньше", "ранее", "прежде", "прежн*", "до этого", "до того", "предыдущ*", "бывш*", "тогда", "прошл*",
        "больше не", "уже не", "пока не", "старый", "старая", "старое", "старого", "старой", "старую", "старым",
    ),
    first=("сначала", "вначале", "поначалу", "в начале", "первоначальн*", "изначальн*"),
    ever=("когда-либо", "когда-нибудь", "всегда", "за все время", "истори*", "менял*", "изменил*"),
    months=(
        "январ*", "феврал*", "март*", "апрел*", "май|мая|мае", "июн*", "июл*", "август*", "сентябр*", "октябр*",
        "ноябр*", "декабр*",
    ),
)  # fmt: skip
GREEK = PastWords(
    previous=(
        "πριν", "προηγουμεν*", "πρωην", "παλια", "παλιο", "παλιος", "παλιοτερ*", "παλαιοτερ*", "νωριτερα", "τοτε",
        "μεχρι", "εως", "ωσπου", "πια", "στο παρελθον",
    ),
    first=("αρχικ*", "στην αρχη", "πρωτα"),
    ever=("ποτέ", "παντα", "ιστορικο", "αλλαξ*"),
    months=(
        "ιανουαρι*", "φεβρουαρι*", "μαρτι*", "απριλι*", "μαι*", "ιουνι*", "ιουλι*", "αυγουστ*", "σεπτεμβρι*",
        "οκτωβρι*", "νοεμβρι*", "δεκεμβρι*",
    ),
)  # fmt: skip
ARABIC = PastWords(
    previous=(
        "قبل", "*سابق*", "في الماضي", "حتي", "لم يعد", "لم تعد", "*قديم*", "كان", "كانت", "حينها", "انذاك",
    ),
    first=("في البدايه", "في الاصل", "اصلا", "*اصلي*", "اول مره"),
    ever=("ابدا", "يوما", "قط", "علي الاطلاق", "دائما", "تغير*"),
    months=(
        "يناير", "فبراير", "مارس", "ابريل", "مايو", "يونيو", "يوليو", "اغسطس", "سبتمبر", "اكتوبر", "نوفمبر", "ديسمبر",
    ),
)  # fmt: skip
HINDI = PastWords(
    previous=(
        "पहले", "पिछल*", "पूर्व", "भूतपूर्व", "पुरान*", "तब", "तक", "अब नहीं", "करता था", "करते थे", "करती थी", "रहता था",
        "रहते थे", "रहती थी",
    ),
    first=("शुरू में", "शुरुआत में", "आरंभ में", "मूल", "मूलत*"),
    ever=("कभी", "हमेशा", "इतिहास", "बदल*"),
    months=(
        "जनवरी", "फरवरी", "मार्च", "अप्रैल", "मई", "जून", "जुलाई", "अगस्त", "सितंबर|सितम्बर", "अक्टूबर|अक्तूबर",
        "नवंबर|नवम्बर", "दिसंबर|दिसम्बर",
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """A question's reference to the past.

    Attributes:
        which: Any of "previous", "first" and "ever", as `PastWords` has them.
        periods: The days of each date in the question.
    """

    which: frozenset[str] = frozenset()
    periods: tuple[Period, ...] = ()

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
            wanted += past[-1:] if "previous" in self.which else ()
            wanted += past[:1] if "first" in self.which else ()
            wanted += reversed(past) if "ever" in self.which else ()
            wanted += [each for each in reversed(past) if each.item in found]
        return list({id(each): each for each in wanted}.values())


@dataclass(frozen=True)
class PastCues:
    """The words and dates by which a question about the past is known, by language.

    >>> cues = PAST_CUES.including(french=PastWords(previous=("avant", "ancien*"), first=("au début",)))
    >>> cues.read("Où habitait-elle avant ?").which
    frozenset({'previous'})
    >>> PAST_CUES.read("Where does she live?")
    """

    languages: Mapping[str, PastWords] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"PastCues({', '.join(self.languages)})"  # the words take pages of help()

    def including(self, **languages: PastWords) -> PastCues:
        """Return these cues and those of more languages; a language that is there already is replaced."""
        for name, words in languages.items():
            if not isinstance(words, PastWords):
                raise InvalidArgumentError(
                    f"language {name!r} has {shown_name(words)}; give PastWords"
                )
        return replace(self, languages=MappingProxyType({**self.languages, **languages}))

    def read(self, text: str, periods: Iterable[Period] = ()) -> PastQuestion | None:
        """Return a question's reference to the past, None for a question about now.

        Args:
            periods: The question's "last week" and the like as days.
        """
        raw = text.casefold()
        folded = _folded(raw)
        both = raw if folded == raw else f"{raw}\n{folded}"
        which = frozenset(each for each, pattern in self._patterns.items() if pattern.search(both))
        found = dict.fromkeys((*periods, *self._dates(folded)))
        return PastQuestion(which, tuple(found)) if which or found else None

    @cached_property
    def _patterns(self) -> dict[str, re.Pattern[str]]:
        found: dict[str, re.Pattern[str]] = {}
        for which in ("previous", "first", "ever"):
            words = dict.fromkeys(
                word for each in self.languages.values() for word in getattr(each, which)
            )
            if words:
                found[which] = re.compile(_whole("|".join(map(_pattern, words))))
        return found

    @cached_property
    def _months(self) -> tuple[re.Pattern[str], ...]:
        """One pattern for each month, in all languages."""
        named = [each.months for each in self.languages.values() if each.months]
        return tuple(
            re.compile(
                "|".join(_pattern(form) for months in named for form in months[number].split("|"))
            )
            for number in range(12 if named else 0)
        )

    @cached_property
    def _date(self) -> re.Pattern[str]:
        year = r"(?P<{}>(?:19|20)\d\d)"
        dates = [rf"{year.format('iso')}-(?P<iso_month>\d\d)(?:-(?P<iso_day>\d\d))?"]
        if self._months:
            month = "(?P<{}>" + "|".join(each.pattern for each in self._months) + ")"
            of = r"[\s,]+(?:of\s+)?"
            day = r"(?P<{}>\d{{1,2}})(?:st|nd|rd|th|\.)?"
            dates += [
                rf"{day.format('day')}{of}{month.format('month')}{of}{year.format('year')}",
                rf"{month.format('month_')}\s+{day.format('day_')}[\s,]+{year.format('year_')}",
                rf"{month.format('name')}{of}{year.format('of')}",
            ]
        return re.compile(_whole("|".join((*dates, year.format("alone")))))

    def dates(self, text: str) -> Iterable[Period]:
        """Yield the days, months and years that a text names."""
        return self._dates(_folded(text.casefold()))

    def _dates(self, folded: str) -> Iterable[Period]:
        for match in self._date.finditer(folded):
            part = match.groupdict()
            stated = part["iso"] or part["alone"]
            year = int(stated or part.get("year") or part.get("year_") or part["of"])
            name = part.get("month") or part.get("month_") or part.get("name")
            month = self._number_of(name) if name else int(part["iso_month"] or 0)
            day = int(part["iso_day"] or part.get("day") or part.get("day_") or 0)
            if period := _period(year, month, day):
                yield period

    def _number_of(self, name: str) -> int:
        return next(number for number, each in enumerate(self._months, 1) if each.fullmatch(name))


PAST_CUES = PastCues(
    MappingProxyType(
        {
            "english": ENGLISH,
            "german": GERMAN,
            "russian": RUSSIAN,
            "greek": GREEK,
            "arabic": ARABIC,
            "hindi": HINDI,
        },
    )
)
"""The cues of the languages whose stop words kaosmem knows."""


def _folded(text: str) -> str:
    return text if text.isascii() else fold_script(text)


def _pattern(word: str) -> str:
    """Return a word as a pattern: `*` is any letters, a blank is any white space."""
    escaped = r"\s+".join(re.escape(part) for part in word.casefold().split())
    return escaped.replace(r"\*", rf"[\w{MARKS}]*")


def _whole(pattern: str) -> str:
    return rf"(?<![\w{MARKS}])(?:{pattern})(?![\w{MARKS}])"


def _period(year: int, month: int, day: int) -> Period | None:
    """Return the first and last day of a date, a month or a year; None if there is no such date."""
    try:
        first = date(year, month or 1, day or 1)
    except ValueError:
        return None
    if day:
        return Period(first, first)
    after = date(year + 1, 1, 1) if month in (0, 12) else date(year, month + 1, 1)
    return Period(first, after - timedelta(days=1))


def _overlaps(version: Version[T], period: Period) -> bool:
    start = _midnight(period.first)
    end = _midnight(min(period.last, _LAST_DAY)) + timedelta(days=1)
    return version.valid_from < end and (version.valid_until is None or version.valid_until > start)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(tzinfo=UTC))
