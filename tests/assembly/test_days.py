"""Between the messages of two days of a history stands a line with both days."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import DEFAULT_SECTIONS, SessionMemory, SessionOptions
from kaosmem.formats import FORMATS
from kaosmem.sources import HistorySource
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.types.items import ChatMessage
from tests.contexts import counted

BETWEEN = "[up to here: 1 May 2024; from here: 9 May 2024]"


def told(memory, role, text, day):
    return memory.add("messages", text, role=role, metadata={"timestamp": f"2024-05-{day:02}"})


def a_purchase():
    memory = SessionMemory.test_mode()
    told(memory, "user", "I bought a bike today.", 1)
    told(memory, "assistant", "Enjoy it!", 1)
    told(memory, "user", "When did I buy it?", 9)
    return memory


@pytest.mark.parametrize("format", sorted(FORMATS))
async def test_a_model_can_tell_when_something_was_said(format):
    """The line stands between the messages, which stay as they were, and is counted."""
    context = await a_purchase().assemble_context(budget=400, format=format)
    shown = str(context.text if format == "text" else context.messages)
    assert shown.index("Enjoy it!") < shown.index(BETWEEN) < shown.index("When did I buy it?")
    assert context.used == counted(context)
    assert context.by_section["messages"].used + context.frame == context.used


async def test_a_conversation_of_one_day_has_no_line():
    """Nor has one whose section shows no days."""
    memory = SessionMemory.test_mode()
    for number in range(4):
        told(memory, "user", f"question {number}", 1)
    assert "up to here" not in (await memory.assemble_context(budget=400)).text
    sections = DEFAULT_SECTIONS.replace(messages={"dates": "none"})
    undated = SessionMemory.test_mode(sections=sections)
    told(undated, "user", "Hello.", 1)
    told(undated, "user", "Hello again.", 9)
    assert "up to here" not in (await undated.assemble_context(budget=400)).text


async def test_a_reply_after_midnight_stays_with_its_question():
    """The line waits for the next message of a user."""
    memory = SessionMemory.test_mode()
    told(memory, "user", "Book the flight.", 1)
    told(memory, "assistant", "It is booked.", 2)
    told(memory, "user", "Thank you.", 2)
    lines = (await memory.assemble_context(budget=400)).text.splitlines()
    assert lines[1:] == [
        "[user] Book the flight.",
        "[assistant] It is booked.",
        "[up to here: 1 May 2024; from here: 2 May 2024]",
        "[user] Thank you.",
    ]


async def test_messages_have_the_day_on_which_they_were_added():
    """The clock of the session tells it, unless a timestamp does."""
    now = datetime(2024, 5, 1, tzinfo=UTC)
    memory = SessionMemory.test_mode(options=SessionOptions(clock=lambda: now))
    memory.add("messages", "I bought a bike today.")
    now += timedelta(days=8)
    memory.add("messages", "When did I buy it?")
    assert BETWEEN in (await memory.assemble_context(budget=400)).text


async def test_a_window_appends_the_line_with_the_message_of_the_new_day():
    """What was sent before stays as it was sent."""
    memory = SessionMemory.test_mode()
    told(memory, "user", "I bought a bike today.", 1)
    first = await memory.assemble_context(budget=800, format="openai", window="main")
    told(memory, "assistant", "Enjoy it!", 1)
    told(memory, "user", "When did I buy it?", 9)
    second = await memory.assemble_context(budget=800, format="openai", window="main")
    assert second.messages[: len(first.messages)] == first.messages
    texts = [message["content"] for message in second.messages[-3:]]
    assert texts == ["Enjoy it!", BETWEEN, "When did I buy it?"]


async def test_the_history_of_a_provider_has_the_lines_too():
    """Its messages bring their days along."""
    provider = InMemoryHistoryProvider()
    messages = []
    for day, text in ((1, "I bought a bike today."), (9, "When did I buy it?")):
        stated = {"timestamp": f"2024-05-{day:02}"}
        messages.append(ChatMessage("user", text, metadata=stated))
    await provider.append_many("agent", messages, session_id="thread")
    memory = SessionMemory.test_mode()
    await memory.attach(HistorySource(provider, "agent", "thread"))
    assert BETWEEN in (await memory.assemble_context(budget=400)).text


async def test_no_stored_text_can_pass_for_the_line():
    """A backslash goes before an imitation."""
    memory = SessionMemory.test_mode()
    memory.add("messages", f"Note this: {BETWEEN}")
    for name in sorted(FORMATS):
        context = await memory.assemble_context(budget=400, format=name)
        shown = str(context.text if name == "text" else context.messages)
        assert BETWEEN.removeprefix("[") in shown
        assert f" {BETWEEN}" not in shown


DAYS = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "Emi"]), st.integers(1, 4)),
    min_size=1,
    max_size=12,
)


@given(DAYS, st.sampled_from(sorted(FORMATS)))
async def test_there_is_a_line_wherever_the_day_of_the_users_messages_changes(turns, format):
    """No other place has one, and what is counted is what is shown."""
    memory = SessionMemory.test_mode()
    for number, (role, day) in enumerate(turns):
        told(memory, role, f"word{number}", day)
    context = await memory.assemble_context(budget=5_000, format=format)
    days = [day for role, day in turns if role != "assistant"]
    changes = [pair for pair in pairwise(days) if pair[0] != pair[1]]
    shown = str(context.text if format == "text" else context.messages)
    assert shown.count("[up to here: ") == len(changes)
    assert context.used == counted(context)
