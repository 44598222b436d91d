"""Episodes: turns, days and months, each with its sources one level below."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaosmem import InvalidArgumentError, SectionSpec, SessionMemory
from kaosmem.formation import EpisodeFormer, FormsFrom

_LEVELS = (
    ("episodes", "topic", "messages"),
    ("days", "day", "episodes"),
    ("months", "month", "days"),
)
_TOPICS = ("boat harbour paint", "garden tomato seeds", "piano lesson scales", "tax form office")


def made():
    sections = [SectionSpec("messages", placement="history", eviction="none")]
    for priority, (name, _, _) in enumerate(_LEVELS, 1):
        sections.append(SectionSpec(name, None, 10 * priority, eviction="none"))
    return SessionMemory.test_mode(sections=sections)


async def form_all(memory):
    for name, span, source in _LEVELS:
        await memory.form(FormsFrom(EpisodeFormer(span), (source,)), section=name)


def tell(memory, days):
    """Add two talks a day, on changing topics, from 20 April 2024 on."""
    start = datetime(2024, 4, 20, 9)
    for day in range(days):
        for talk in range(2):
            topic = _TOPICS[(2 * day + talk) % len(_TOPICS)]
            for turn in range(4):
                at = start + timedelta(days=day, hours=6 * talk, minutes=turn)
                text = f"We spoke about the {topic}, point {turn} of day {day}."
                memory.add(
                    "messages",
                    text,
                    role=("Ann", "Bob")[turn % 2],
                    metadata={"timestamp": at.isoformat()},
                )


@pytest.mark.parametrize(
    ("texts", "title", "text"),
    [
        (("我昨天去了上海。", "上海怎么样？", "好。"), "上海", "user: 我昨天去了上海。"),
        (("昨日は大阪に行きました。", "大阪はどう？"), "大阪", "user: 昨日は大阪に行きました。"),
        (
            ("서울에 살아요.", "서울에 비가 와요."),
            "서울",
            "user: 서울에 살아요.\nuser: 서울에 비가 와요.",
        ),
        (("هل القاهرة جميلة؟", "القاهرة جميلة."), "قاهر", "user: القاهرة جميلة."),
        (("Die Prüfung ist am Montag.",), "prüfung", "user: Die Prüfung ist am Montag."),
    ],
)
async def test_episodes_are_formed_in_any_script(texts, title, text):
    """A sentence without spaces is a sentence, too, and a title has the words of the text."""
    memory = made()
    memory.add_many("messages", texts)
    memory.add("messages", "Later.", metadata={"timestamp": "2024-06-01"})
    (episode,) = await memory.form(EpisodeFormer(), section="episodes")
    assert str(episode) == text
    assert title in episode.item.metadata["title"]
    assert "pruefung" not in episode.item.metadata["title"]


async def test_an_episode_ends_with_its_last_instant():
    """The zones of its times may differ."""
    memory = made()
    for time in ("2024-06-01T01:00:00+02:00", "2024-05-31T23:30:00+00:00", "2024-07-01"):
        memory.add("messages", "We sold the boat.", metadata={"timestamp": time})
    (episode,) = await memory.form(EpisodeFormer(), section="episodes")
    assert episode.item.metadata["until"] == "2024-05-31T23:30:00+00:00"


async def test_each_level_names_the_one_below():
    memory = made()
    tell(memory, days=50)
    await form_all(memory)
    assert [len(memory[name]) for name in ("episodes", "days", "months")] == [99, 49, 2]
    month, _ = memory["months"]
    assert month.metadata["participants"] == ["Ann", "Bob"]
    assert (month.metadata["timestamp"], month.metadata["until"]) == (
        "2024-04-20T09:00:00+00:00",
        "2024-04-30T15:03:00+00:00",
    )
    days = await memory.archive.expand(month.id, depth=1)
    assert {day.section for day in days} == {"days"}
    assert len(days) == 11
    episodes = await memory.archive.expand(month.id, depth=2)
    assert {each.section for each in episodes} == {"episodes"}
    words = await memory.archive.expand(month.id)
    assert {each.section for each in words} == {"messages"}
    assert len(words) == 11 * 8


async def test_a_topic_ends_where_no_word_goes_on():
    memory = made()
    for text in ("We paint the boat.", "The garden has seeds."):
        for number in range(6):
            memory.add("messages", f"{text} {number}")
    await form_all(memory)
    (episode,) = memory["episodes"]
    assert len(episode.sources) == 6
    assert "garden" not in episode.text


@pytest.mark.parametrize("budget", [200, 1_600])
async def test_a_question_about_a_period_gets_the_coarse_level(budget):
    """The episodes of the period take up to half of the window, whatever the history wants."""
    memory = made()
    tell(memory, days=20)
    await form_all(memory)
    context = await memory.assemble_context("What did we do on 7 May 2024?", budget=budget)
    times = [
        str(item.metadata["timestamp"]) for item in context.items if item.section != "messages"
    ]
    assert any(time.startswith("2024-05-07") for time in times)
    assert context.used <= budget
    overview = await memory.assemble_context("What did we do?", budget=budget)
    assert {item.section for item in overview.items} > {"messages"}


async def test_any_other_question_leaves_the_window_to_the_words():
    memory = made()
    tell(memory, days=20)
    await form_all(memory)
    context = await memory.assemble_context("Which point of the piano lesson?", budget=400)
    words = [item for item in context.items if item.section == "messages"]
    assert len(words) > len(context.items) / 2


async def test_forgetting_a_message_erases_the_episodes_about_it():
    memory = made()
    tell(memory, days=3)
    await form_all(memory)
    first = next(iter(memory["messages"]))
    receipt = await memory.forget(first.id)
    assert len(receipt.derived) == 2  # its episode and its day
    assert all(first.id not in item.sources for item in memory["episodes"])


@settings(max_examples=20)
@given(st.lists(st.integers(1, 5), max_size=6))
async def test_episodes_are_the_same_however_often_they_are_formed(parts):
    """Messages that come in parts give the episodes of all at once: each message is in one of them."""
    apart = made()
    whole = made()
    at = datetime(2024, 5, 6)
    for part in parts:
        for _ in range(part):
            at += timedelta(hours=1 if at.hour % 5 else 5)
            for memory in (apart, whole):
                stated = {"timestamp": at.isoformat()}
                memory.add("messages", f"We spoke at {at.hour} about boats.", metadata=stated)
        await form_all(apart)
    await form_all(whole)
    texts = [[item.text for item in memory["episodes"]] for memory in (apart, whole)]
    assert texts[0] == texts[1]
    sources = [source for item in whole["episodes"] for source in item.sources]
    assert len(sources) == len(set(sources))


def test_a_span_has_a_name():
    with pytest.raises(InvalidArgumentError):
        EpisodeFormer("year")
