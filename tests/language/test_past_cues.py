"""Questions about the past are known by their words and dates, in all languages whose stop words kaosmem has."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import InvalidArgumentError
from kaosmem.language.analysis import STOP_WORDS_OF
from kaosmem.language.dates import PAST_CUES, PastCues, PastQuestion, PastWords, Period
from kaosmem.types import Version, in_order


@pytest.mark.parametrize(
    ("query", "which"),
    [
        ("Where did she live before?", "previous"),
        ("What was the previous address?", "previous"),
        ("What did I use to like, and what am I used to?", "previous"),
        ("Who was it until the merger?", "previous"),
        ("Where did they live at first?", "first"),
        ("What was originally agreed?", "first"),
        ("Has he ever lived in Paris?", "ever"),
        ("Где он жил раньше?", "previous"),
        ("Какой был прежний адрес?", "previous"),
        ("Как изначально называлась фирма?", "first"),
        ("Жил ли он когда-либо в Париже?", "ever"),
        ("Πού έμενε πριν;", "previous"),
        ("Ποια ήταν η αρχική τιμή;", "first"),
        ("Έχει ζήσει ποτέ στο Παρίσι;", "ever"),
        ("ما هو العنوان السابق؟", "previous"),
        ("ماذا كان السعر في البداية؟", "first"),
        ("هل عاش هناك يوماً؟", "ever"),
        ("वह पहले कहाँ रहता था?", "previous"),
        ("शुरू में किराया कितना था?", "first"),
        ("क्या वह कभी पेरिस में रहा?", "ever"),
    ],
)
def test_words_ask_about_the_past(query: str, which: str) -> None:
    """Words such as "before" do in each language, in capitals too."""
    for text in (query, query.upper()):
        question = PAST_CUES.read(text)
        assert question is not None
        assert which in question.which


@pytest.mark.parametrize(
    "query",
    ["", "Where does she live?", "the oldest everest", "Πότε έρχεται;", "Где он живёт?", "أين يسكن؟", "वह कहाँ रहता है?"],
)
def test_a_question_about_now_has_no_such_words(query: str) -> None:
    assert PAST_CUES.read(query) is None


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("Where in May 2023?", "2023-05-01", "2023-05-31"),
        ("on 1 June 2024", "2024-06-01", "2024-06-01"),
        ("June 1st, 2024", "2024-06-01", "2024-06-01"),
        ("the 1st of June 2024", "2024-06-01", "2024-06-01"),
        ("2024-05", "2024-05-01", "2024-05-31"),
        ("2024-12-31", "2024-12-31", "2024-12-31"),
        ("in 2023", "2023-01-01", "2023-12-31"),
        ("5 мая 2023 года", "2023-05-05", "2023-05-05"),
        ("τον Μάιο 2023", "2023-05-01", "2023-05-31"),
        ("5 مايو 2023", "2023-05-05", "2023-05-05"),
        ("७ मई २०२३", "2023-05-07", "2023-05-07"),
    ],
)
def test_dates_ask_about_their_days(query: str, first: str, last: str) -> None:
    question = PAST_CUES.read(query)
    assert question is not None
    assert question.periods == (Period(date.fromisoformat(first), date.fromisoformat(last)),)


def test_each_language_with_stop_words_has_cues() -> None:
    """Nobody can add stop words of a language without words about the past."""
    assert STOP_WORDS_OF.keys() == PAST_CUES.languages.keys()


def test_users_add_a_language_to_a_copy() -> None:
    """The cues that kaosmem has stay as they are; months of the new language make dates."""
    months = tuple("januar februar märz april mai juni juli august september oktober november dezember".split())
    cues = PAST_CUES.including(german=PastWords(previous=["früher"], months=months))
    found = cues.read("Wo wohnte sie früher, im März 2023?")
    assert found is not None
    assert found.which == {"previous"}
    assert [each.isoformat() for each in found.periods[0]] == ["2023-03-01", "2023-03-31"]
    assert PAST_CUES.read("Wo wohnte sie früher?") is None
    assert PastCues().read("before 2023") == PastQuestion(periods=(Period(date(2023, 1, 1), date(2023, 12, 31)),))


def test_wrong_words_are_refused() -> None:
    """One text is no list, a blank is no word, and a year has twelve months."""
    for given_words in ("before", ["before", ""], [7], ["*"]):
        with pytest.raises(InvalidArgumentError, match=r"previous is .*; give a list of words"):
            PastWords(previous=given_words)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="1 months"):
        PastWords(months=("may",))
    with pytest.raises(InvalidArgumentError, match="give PastWords"):
        PAST_CUES.including(german=["früher"])  # type: ignore[arg-type]


def day(number: int) -> datetime:
    return datetime(2024, 1, number, tzinfo=UTC)


VERSIONS = in_order("abcd", stated=lambda name: day(" abcd".index(name) * 2), known_from=lambda _: day(1))


@pytest.mark.parametrize(
    ("query", "found", "chosen"),
    [
        ("before", "", "c"),
        ("at first", "", "a"),
        ("ever", "", "cba"),
        ("the previous, and the original", "", "ca"),
        ("before", "abd", "cba"),
        ("on 2024-01-05", "ab", "b"),
        ("on 2024-01-06", "", "c"),
        ("in 2024", "", "cba"),
        ("in 2023", "", ""),
        ("in 2025", "", ""),
        ("before 2024-01-06", "", "cb"),
        ("before 2025", "", "c"),
    ],
)
def test_a_question_chooses_versions(query: str, found: str, chosen: str) -> None:
    """It chooses those that held at its dates, else those that its words ask for and those that match it."""
    question = PAST_CUES.read(query)
    assert question is not None
    assert "".join(each.item for each in question.choose(VERSIONS, found)) == chosen


@given(st.text() | st.from_regex(r"(before|ever) [0-9]{1,4}-[0-9]{2}(-[0-9]{2})? (may|june) [0-9]{1,4}"))
def test_any_text_can_be_read(query: str) -> None:
    """No period ends before it begins, and choosing never chooses the current version."""
    question = PAST_CUES.read(query)
    if question is not None:
        assert all(first <= last for first, last in question.periods)
        assert VERSIONS[-1] not in question.choose(VERSIONS, "abcd")


@given(st.lists(st.integers(1, 9), max_size=9))
def test_versions_follow_one_another(days: list[int]) -> None:
    """Each holds until the next one begins, the last one until now; equal times keep the order of learning."""
    versions = in_order(enumerate(days), stated=lambda each: day(each[1]), known_from=lambda _: day(1))
    assert [each.item for each in versions] == sorted(enumerate(days), key=lambda each: (each[1], each[0]))
    assert [each.valid_until for each in versions[:-1]] == [each.valid_from for each in versions[1:]]
    assert all(isinstance(each, Version) and each.is_current is (each is versions[-1]) for each in versions)
