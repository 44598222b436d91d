"""The times that a question speaks of, relative to its own day, and the versions that it asks for."""

import random
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import (
    BM25Ranker,
    LinearRanker,
    Query,
    Reason,
    SectionSpec,
    SessionMemory,
    SessionOptions,
)
from kaosmem.language.analysis import STOP_WORDS_OF
from kaosmem.language.dates import Period, day_of, past_question
from kaosmem.language.tables import tables_by_language
from kaosmem.types.items import Item
from kaosmem.types.versions import in_order

NOW = datetime(2026, 11, 25, 9, 30, tzinfo=UTC)  # a Wednesday


def periods_of(text):
    return Query.read(text, lambda: NOW).periods


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("What did we decide today?", "2026-11-25", "2026-11-25"),
        ("And this morning?", "2026-11-25", "2026-11-25"),
        ("What was said yesterday about rent?", "2026-11-24", "2026-11-24"),
        ("The day before yesterday she called.", "2026-11-23", "2026-11-23"),
        ("¿Qué dijo ayer del alquiler?", "2026-11-24", "2026-11-24"),
        ("¿Dónde estuve anteayer?", "2026-11-23", "2026-11-23"),
        ("¿Qué hice hace dos días?", "2026-11-23", "2026-11-23"),
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
        ("We spoke. What was it yesterday? I forgot.", "2026-11-24", "2026-11-24"),
        ("on Wednesday", "2026-11-25", "2026-11-25"),
        ("last Wednesday", "2026-11-18", "2026-11-18"),
        ("Что было на прошлой неделе?", "2026-11-16", "2026-11-22"),
        ("Was geschah vor 3 Tagen?", "2026-11-22", "2026-11-22"),
        ("Was geschah vor zwölf Tagen?", "2026-11-13", "2026-11-13"),
        ("Was war in der letzten Woche?", "2026-11-16", "2026-11-22"),
        ("Wer kam in den letzten zwei Wochen?", "2026-11-11", "2026-11-25"),
        ("Wer kam letzten Montag?", "2026-11-23", "2026-11-23"),
        ("Was war letzten Monat?", "2026-10-01", "2026-10-31"),
        ("Qui est venu il y a deux semaines ?", "2026-11-09", "2026-11-15"),
        ("Qu’avons-nous dit l’an dernier ?", "2025-01-01", "2025-12-31"),
        ("Que s'est-il passé le 8 mars 2024 ?", "2024-03-08", "2024-03-08"),
        ("Что было 3 дня назад?", "2026-11-22", "2026-11-22"),
        ("Τι έγινε χθες;", "2026-11-24", "2026-11-24"),
        ("Τι είπε πριν από 2 μήνες;", "2026-09-01", "2026-09-30"),
        ("ماذا حدث الأسبوع الماضي؟", "2026-11-16", "2026-11-22"),
        ("ماذا حدث قبل ٣ أيام؟", "2026-11-22", "2026-11-22"),
        ("पिछले महीने क्या हुआ?", "2026-10-01", "2026-10-31"),
        ("पिछले  साल क्या हुआ?", "2025-01-01", "2025-12-31"),
        ("上周谈了什么？", "2026-11-16", "2026-11-22"),
        ("昨天她来了。3天前谈了什么？", "2026-11-22", "2026-11-22"),
        ("先月の家賃は？", "2026-10-01", "2026-10-31"),
        ("2か月前に何がありましたか？", "2026-09-01", "2026-09-30"),
        ("Who paid in May 2023?", "2023-05-01", "2023-05-31"),
        ("on 8 May 2023", "2023-05-08", "2023-05-08"),
        ("since 2023-05-08", "2023-05-08", "9999-12-31"),
        ("What has changed since yesterday?", "2026-11-24", "2026-11-25"),
        ("What did we decide since last week?", "2026-11-16", "2026-11-25"),
        ("Was haben wir seit letzter Woche beschlossen?", "2026-11-16", "2026-11-25"),
        ("Qu'avons-nous décidé depuis hier ?", "2026-11-24", "2026-11-25"),
        ("¿Qué decidimos desde el mes pasado?", "2026-10-01", "2026-11-25"),
        ("What was planned after May 2023?", "2023-05-01", "9999-12-31"),
        ("What did we decide before March 2026?", "0001-01-02", "2026-02-28"),
        ("Was galt vor dem 1. August 2026?", "0001-01-02", "2026-07-31"),
        ("Que disait-on avant le 8 mars 2024 ?", "0001-01-02", "2024-03-07"),
        ("¿Qué vale desde marzo de 2024?", "2024-03-01", "9999-12-31"),
        ("Кто был до 8 марта 2024?", "0001-01-02", "2024-03-07"),
        ("What did she do the week before 8 May 2023?", "2023-05-08", "2023-05-08"),
        ("Was geschah zwei Wochen vor dem 8. Mai 2023?", "2023-05-08", "2023-05-08"),
        ("Who was in office before Ann in 2021?", "2021-01-01", "2021-12-31"),
        ("What came after the fire of the house on 8 May 2023?", "2023-05-08", "2023-05-08"),
        ("since the merger in May 2023", "2023-05-01", "9999-12-31"),
        ("Since she moved, what was it in May 2023?", "2023-05-01", "2023-05-31"),
        ("seit dem 8. Mai 2023", "2023-05-08", "9999-12-31"),
        ("depuis 2021", "2021-01-01", "9999-12-31"),
        ("desde mayo de 2023", "2023-05-01", "9999-12-31"),
        ("since last week", "2026-11-16", "2026-11-25"),
        ("seit gestern", "2026-11-24", "2026-11-25"),
        ("in 2021", "2021-01-01", "2021-12-31"),
    ],
)
def test_days_are_counted_from_the_day_of_the_question(query, first, last):
    assert periods_of(query) == (Period(date.fromisoformat(first), date.fromisoformat(last)),)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "the agreement",
        "Mondays",
        "ago",
        "the last one",
        "sometime ago",
        "I rested yesterday. What next?",
    ],
)
def test_a_question_without_such_days_has_none(query):
    assert periods_of(query) == ()


def test_a_question_may_speak_of_several_days():
    """Each period counts once, in the order of the question."""
    days = (*periods_of("yesterday"), *periods_of("last month"))
    assert periods_of("yesterday, last month and again yesterday") == days


@given(
    st.text() | st.from_regex(r"(last|past) \d{1,4} (days|years)|\d{1,4} (days|years|months) ago"),
    st.datetimes(),
)
def test_any_question_on_any_day_is_a_text_with_periods(query, now):
    """A question stays the text that it is, and no period ends before it begins."""
    found = Query.read(query, lambda: now)
    assert found.text == query
    assert all(first <= last for first, last in found.periods)


@pytest.mark.parametrize(
    ("timestamp", "day"),
    [
        ("2024-05-13T23:00:00+02:00", "2024-05-13"),
        ("2024-05-13", "2024-05-13"),
        ("soon", "2026-11-25"),
        (7, "2026-11-25"),
    ],
)
def test_an_item_is_of_its_timestamp_or_of_when_it_was_made(timestamp, day):
    item = Item("i", "s", "", "text", 1, NOW, metadata={"timestamp": timestamp})
    assert day_of(item) == date.fromisoformat(day)


WORDS = "crane gate rent notice deposit lessor harbour licence".split()
FORMS = {
    "last week": 7,
    "yesterday": 1,
    "two weeks ago": 14,
    "in October 2026": 40,
    "on 8 May 2025": 566,
}


@settings(max_examples=20)
@given(
    st.sampled_from(sorted(FORMS)),
    st.integers(0, 1 << 32),
    st.sampled_from([None, BM25Ranker(), LinearRanker()]),
)
def test_among_many_items_of_a_period_the_match_comes_first(period, seed, ranker):
    """Of 40 items of the period the one with the word comes first, whatever matches outside the period.

    Without the word, the newest of the period come first. A match outside the period follows.
    """
    rng = random.Random(seed)
    asked, *others = rng.sample(WORDS, len(WORDS))
    spec = SectionSpec("log", eviction="none", ranker=ranker)
    memory = SessionMemory.test_mode(sections=(spec,), options=SessionOptions(clock=lambda: NOW))
    days = [*[FORMS[period]] * 40, *rng.choices([0, 100, 300, 500], k=80)]
    texts = [" ".join(rng.choices(others, k=rng.randrange(3, 12))) for _ in days]
    match = rng.randrange(40)
    outside = rng.randrange(40, 120)
    for place in (match, outside):
        texts[place] = f"{asked} {texts[place]}"
    order = rng.sample(range(120), 120)
    stamps = [(NOW - timedelta(days=each)).isoformat() for each in days]
    items = {n: memory.add("log", texts[n], metadata={"timestamp": stamps[n]}) for n in order}

    def first(question):
        proposal = memory["log"].proposer.propose(Query.read(question, lambda: NOW), cap=2_000)
        found = [candidate.items[0].id for candidate in proposal.candidates]
        searched = [item.id for item, _ in memory.search(question, limit=40)]
        assert set(found[:40]) == set(searched)
        return found

    newest = [items[n].id for n in reversed(order) if n < 40]
    best = [items[match].id, items[outside].id]
    assert (
        first(f"What of the {asked}, {period}?")[:41] == list(dict.fromkeys([*best, *newest]))[:41]
    )
    assert first(f"What about zebras {period}?")[:40] == newest


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
        ("When did the rent change?", "ever"),
        ("When did the user's rent change?", "ever"),
        ("When did Ann’s rent change?", "ever"),
        ("Wo wohnte sie früher?", "previous"),
        ("Was war ursprünglich vereinbart?", "first"),
        ("Hat er jemals in Paris gelebt?", "ever"),
        ("¿Dónde vivía antes?", "previous"),
        ("¿Qué se acordó al principio?", "first"),
        ("¿Cuándo cambió el alquiler?", "ever"),
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
        ("安以前住在哪里？", "previous"),
        ("2024年之前的地址是什么？", "previous"),
        ("房租最初是多少？", "first"),
        ("房租變過嗎？", "ever"),
        ("アンは以前どこに住んでいましたか？", "previous"),
        ("アンの前の住所は？", "previous"),
        ("家賃は最初いくらでしたか？", "first"),
        ("住所はこれまでどう変わりましたか？", "ever"),
        ("Wer leitete das Projekt vor August 2026?", "previous"),
        ("Wer war bis 2024 im Amt?", "previous"),
        ("Кто руководил до марта 2026 года?", "previous"),
        ("What was the rent before March?", "ever"),  # of an unknown year
        ("Wie hoch war die Miete vor März?", "ever"),
    ],
)
def test_words_ask_about_the_past(query, which):
    """Words such as "before" do in each language, in capitals too."""
    for text in (query, query.upper()):
        question = past_question(text)
        assert which in question.which


@pytest.mark.parametrize(
    "query",
    [
        "",
        "Where does she live?",
        "To which flat is this key used",  # its end and its beginning are no phrase
        "To which café is this key used",
        "the oldest everest",
        "Change the rent.",
        "Wie ist die Wettervorhersage?",
        "Wer sitzt vor dem Haus?",
        "Wie hoch war die Miete im März?",
        "¿Dónde vive Ana?",
        "Which hotel did we book in Antigua?",
        "Πότε έρχεται;",
        "Где он живёт?",
        "أين يسكن؟",
        "वह कहाँ रहता है?",
        "旧金山的名字是什么？",
        "お名前は？ 非常に大事です。",
        "12024年",
    ],
)
def test_a_question_about_now_has_no_such_words(query):
    assert past_question(query) is None


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
        ("am 5. März 2023", "2023-03-05", "2023-03-05"),
        ("el 8 de mayo de 2023", "2023-05-08", "2023-05-08"),
        ("en mayo del 2023", "2023-05-01", "2023-05-31"),
        ("5 мая 2023 года", "2023-05-05", "2023-05-05"),
        ("τον Μάιο 2023", "2023-05-01", "2023-05-31"),
        ("5 مايو 2023", "2023-05-05", "2023-05-05"),
        ("७ मई २०२३", "2023-05-07", "2023-05-07"),
        ("2024年5月安住在哪里？", "2024-05-01", "2024-05-31"),
        ("アンは２０２４年５月８日に引っ越した", "2024-05-08", "2024-05-08"),
        ("2023년에 어디 살았나요?", "2023-01-01", "2023-12-31"),
    ],
)
def test_dates_ask_about_their_days(query, first, last):
    question = past_question(query)
    assert question.periods == (Period(date.fromisoformat(first), date.fromisoformat(last)),)


async def test_items_before_a_date_come_first_and_undated_passages_do_not():
    """A passage of a file has no day, so it is neither before nor after one."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("log", retrieval_threshold=0),),
        options=SessionOptions(clock=lambda: NOW),
    )
    for day in ("2026-02-11", "2026-03-05", "2026-07-20"):
        memory.add("log", "We decided to buy a furnace.", metadata={"timestamp": day})
    memory.add("log", "We decided to buy a furnace, too.", metadata={"file": "a.md"})
    for question, first in (
        ("What did we decide before March 2026?", "2026-02-11"),
        ("What did we decide since July 2026?", "2026-07-20"),
    ):
        assert memory.search(question)[0].item.metadata["timestamp"] == first


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("What was the rent yesterday?", "2026-11-24"),
        ("What was it three days ago?", "2026-11-22"),
        ("Wie war es vorgestern?", "2026-11-23"),
        ("What is it today?", None),
    ],
)
def test_a_single_day_before_today_is_past(query, day):
    """The version of that day is asked for. A question about today is about now."""
    past = Query.read(query, lambda: NOW).past
    if day is None:
        assert past is None
    else:
        assert past.periods == (Period(date.fromisoformat(day), date.fromisoformat(day)),)


def test_each_language_with_stop_words_has_cues():
    """Nobody can add stop words of a language without words about the past."""
    assert STOP_WORDS_OF.keys() <= tables_by_language("time_words").keys()


def day(number):
    return datetime(2024, 1, number, tzinfo=UTC)


VERSIONS = in_order(
    "abcd", stated=lambda name: day(" abcd".index(name) * 2), known_from=lambda _: day(1)
)


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
def test_a_question_chooses_versions(query, found, chosen):
    """It chooses those that held at its dates, else those that its words ask for and those that match it."""
    question = past_question(query)
    assert "".join(each.item for each in question.choose(VERSIONS, found)) == chosen


@given(
    st.text()
    | st.from_regex(r"(before|ever) [0-9]{1,4}-[0-9]{2}(-[0-9]{2})? (may|june) [0-9]{1,4}")
)
def test_any_text_can_be_read(query):
    """No period ends before it begins, and choosing never chooses the current version."""
    question = past_question(query)
    if question is not None:
        assert all(first <= last for first, last in question.periods)
        assert VERSIONS[-1] not in question.choose(VERSIONS, "abcd")


async def test_days_stay_with_their_items_in_an_index_that_is_kept(tmp_path):
    """An item is found by its day in an index that was read back, after updates, removals and evictions."""
    spec = SectionSpec("log", 10_000, eviction="fifo", max_items=900, recall=0.5)

    def of_day(memory, days):
        return [item.text for item, _ in memory.search(f"{days} days ago", limit=3)]

    def stamp(days):
        return {"timestamp": (NOW - timedelta(days=days)).isoformat()}

    async with SessionMemory.open(
        tmp_path, "s", sections=(spec,), options=SessionOptions(clock=lambda: NOW)
    ) as memory:
        added = [memory.add("log", f"text {n}", metadata=stamp(n)) for n in range(1_000)]
        assert of_day(memory, 777) == ["text 777"]
    async with SessionMemory.open(
        tmp_path, "s", sections=(spec,), options=SessionOptions(clock=lambda: NOW)
    ) as memory:
        assert of_day(memory, 777) == ["text 777"]
        assert of_day(memory, 77) == []
        context = await memory.assemble_context("77 days ago", budget=500)
        assert context.decision(added[77].id).reason is Reason.RECALLED
        memory.remove(added[777].id)
        assert of_day(memory, 777) == []
        memory.add("log", "another text", metadata=stamp(777))
        assert of_day(memory, 777) == ["another text"]
