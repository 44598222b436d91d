"""Dates that texts write in different forms: a question finds them in any form."""

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import BM25Ranker, LinearRanker, SessionMemory
from kaosmem.language.analysis import analyze
from kaosmem.language.written_dates import date_terms

MONTHS = (
    "January February March April May June July August September October November December"
).split()
GERMAN = (
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember"
).split()


def _ordinal(day):
    ending = {1: "st", 2: "nd", 3: "rd"}.get(0 if 10 < day < 20 else day % 10, "th")
    return f"{day}{ending}"


FORMS = {
    "ISO": date.isoformat,
    "English": lambda day: f"{day.day} {MONTHS[day.month - 1]} {day.year}",
    "American": lambda day: f"{MONTHS[day.month - 1][:3]}. {_ordinal(day.day)}, {day.year}",
    "spoken": lambda day: f"the {_ordinal(day.day)} of {MONTHS[day.month - 1]}, {day.year}",
    "German": lambda day: f"{day.day}. {GERMAN[day.month - 1]} {day.year}",
    "dotted": lambda day: f"{day.day}.{day.month:02}.{day.year}",
    "Chinese": lambda day: f"{day.year}年{day.month}月{day.day}日",
}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("on 8 May 2024", ["2024-05-08", "2024-05"]),
        ("MAY 8TH, 2024.", ["2024-05-08", "2024-05"]),
        ("Sept. 2024", ["2024-09"]),
        ("am 8. März 2023 und am 9.3.2023", ["2023-03-08", "2023-03", "2023-03-09", "2023-03"]),
        ("5 мая 2023 года", ["2023-05-05", "2023-05"]),
        ("٥ مايو ٢٠٢٣", ["2023-05-05", "2023-05"]),
        ("τον Μάιο 2023", ["2023-05"]),
        ("2024 年 5 月 8 日", ["2024-05-08", "2024-05"]),
        ("2024-05-08 and 2024-05", []),  # the terms of the words themselves
        ('(May 2024) "May 8, 2024"', ["2024-05", "2024-05-08", "2024-05"]),
        ("8-May-2024 and 3–5 May 2024", ["2024-05-08", "2024-05", "2024-05-05", "2024-05"]),
        ("am 8.Mai 2024, version 3.5 May 2024", ["2024-05-08", "2024-05", "2024-05"]),
        ("[8/May/2024:10:00:00]", ["2024-05-08", "2024-05"]),
        ("in 2024, may it last", []),
        ("if you may: 2024 may. Is it May? 2024!", []),
        ("30 February 2024, 1.13.2024, 5/8/2024", []),
        ("May 12024, v2024, model x-may2024", []),
        ("8 May 1066", []),
    ],
)
def test_dates_in_words_have_the_terms_of_iso_dates(text, terms):
    assert [*date_terms(text)] == terms


@settings(max_examples=25, deadline=None)
@given(
    st.dates(date(1950, 3, 1), date(2080, 1, 1)),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from([BM25Ranker(), LinearRanker()]),
)
def test_a_question_finds_a_date_in_any_form(day, told, asked, ranker):
    """Of 120 days about it, the asked one is the best match, however text and question write it."""
    memory = SessionMemory.test_mode(ranker=ranker)
    days = [day + timedelta(days=number) for number in range(-60, 60)]
    for each in days:
        memory.add("documents", f"The board met on {FORMS[told](each)} in the annex.")
    [(best, _)] = memory.search(f"Where did the board meet on {FORMS[asked](day)}?", limit=1)
    assert FORMS[told](day) in best.text


@pytest.mark.parametrize("ranker", [BM25Ranker(), LinearRanker()])
def test_an_iso_date_is_no_match_for_other_numbers(ranker):
    """Lines of a log that begin with a date on the 14th do not compete with room 14."""
    memory = SessionMemory.test_mode(ranker=ranker)
    for number in range(1, 29):
        day = date(2024, 5, 43 - number if number > 14 else 14)
        memory.add("documents", f"{day} room {number} was cleaned.")
    [(best, _)] = memory.search("When was room 14 cleaned?", limit=1)
    assert "room 14 was" in best.text


def test_an_ordinal_is_its_number_and_a_unit_stands_alone():
    """`5th` is found by 5, and `10mm` by 10 mm. A letter after a number is a part of its name."""
    assert analyze("5th") == analyze("5")
    assert {*analyze("10 mm")} < {*analyze("10mm")}
    assert analyze("14b") == ["14b"]
