"""What a question means by yesterday depends on the day that it is asked."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import LinearRanker
from kaosmem.retrieval.dates import dated, day_of
from kaosmem.types import Item

NOW = datetime(2026, 11, 25, 9, 30, tzinfo=UTC)  # a Wednesday


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("What did we decide today?", "2026-11-25", "2026-11-25"),
        ("And this morning?", "2026-11-25", "2026-11-25"),
        ("What was said yesterday about rent?", "2026-11-24", "2026-11-24"),
        ("The day before yesterday she called.", "2026-11-23", "2026-11-23"),
        ("three days ago", "2026-11-22", "2026-11-22"),
        ("3 days ago", "2026-11-22", "2026-11-22"),
        ("What happened a week ago?", "2026-11-16", "2026-11-22"),
        ("a couple of months ago", "2026-09-01", "2026-09-30"),
        ("two years ago", "2024-01-01", "2024-12-31"),
        ("this week", "2026-11-23", "2026-11-29"),
        ("LAST WEEK", "2026-11-16", "2026-11-22"),
        ("last month's figures", "2026-10-01", "2026-10-31"),
        ("the previous year", "2025-01-01", "2025-12-31"),
        ("in the last 10 days", "2026-11-15", "2026-11-25"),
        ("the past two weeks", "2026-11-11", "2026-11-25"),
        ("on Monday", "2026-11-23", "2026-11-23"),
        ("last friday", "2026-11-20", "2026-11-20"),
        ("on Wednesday", "2026-11-25", "2026-11-25"),
        ("last Wednesday", "2026-11-18", "2026-11-18"),
    ],
)
def test_days_are_counted_from_the_day_of_the_question(query: str, first: str, last: str) -> None:
    days = date.fromisoformat(first).toordinal(), date.fromisoformat(last).toordinal()
    assert dated(query, lambda: NOW).periods == (days,)


@pytest.mark.parametrize("query", ["", "the agreement", "2026-11-24", "Mondays", "ago", "the last one", "sometime ago"])
def test_a_question_without_such_days_has_none(query: str) -> None:
    assert dated(query, lambda: NOW).periods == ()


def test_a_question_may_speak_of_several_days() -> None:
    """Each period counts once, in the order of the question."""
    days = [dated(each, lambda: NOW).periods[0] for each in ("yesterday", "last month")]
    assert dated("yesterday, last month and again yesterday", lambda: NOW).periods == tuple(days)


@given(st.text() | st.from_regex(r"(last|past) \d{1,4} (days|years)|\d{1,4} (days|years|months) ago"), st.datetimes())
def test_any_question_on_any_day_is_a_text_with_periods(query: str, now: datetime) -> None:
    """A question stays the text that it is, and no period ends before it begins."""
    found = dated(query, lambda: now)
    assert found == query
    assert all(1 <= first <= last for first, last in found.periods)


@pytest.mark.parametrize(
    ("timestamp", "day"),
    [
        ("2024-05-13T23:00:00+02:00", "2024-05-13"),
        ("2024-05-13", "2024-05-13"),
        ("soon", "2026-11-25"),
        (7, "2026-11-25"),
    ],
)
def test_an_item_is_of_its_timestamp_or_of_when_it_was_made(timestamp: object, day: str) -> None:
    item = Item("i", "s", "", "text", 1, NOW, metadata={"timestamp": timestamp})
    assert day_of(item) == date.fromisoformat(day).toordinal()


def test_days_stay_with_their_entries_however_an_index_is_arranged() -> None:
    """After many changes, and from a dump, an entry is found by its day."""
    index = LinearRanker().index()
    items = {n: Item("i", "s", "", f"text {n}", 1, NOW - timedelta(days=n)) for n in range(20_000)}
    index.add(items.items())
    for n in [*range(50), *range(5_000, 20_000)]:
        index.remove(n)
    restored = LinearRanker().load(b"".join(index.dump() or ()))
    query = dated("77 days ago", lambda: NOW)
    assert index.rank(query, 9) == restored.rank(query, 9)
    assert [ordinal for ordinal, _ in index.rank(query, 9)] == [77]
    index.update(77, items[79])
    assert index.rank(query, 9) == []
