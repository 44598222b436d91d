"""Words for days, weeks, months and years by the day of the question, in the languages with stop words but English."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
