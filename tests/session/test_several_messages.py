"""A question in several messages: what the user says until the reply is one question."""

import pytest

from kaosmem import ChatMessage, SessionMemory, ToolResultBlock, ToolUseBlock
from kaosmem.sources import HistorySource
from kaosmem.stores import InMemoryHistoryProvider

QUESTION = "Which boiler heats the annex?"
AFTER = [
    "I need it for my accountant, and please answer in German.",
    "Please be quick, my meeting about the merger starts in five minutes!",
    "Also, remind me to buy flowers on Friday.",
]


def building_memory():
    memory = SessionMemory.test_mode()
    memory.add("documents", "The annex is heated by a Vaillant boiler, serial 88213.")
    for number in range(200):
        text = f"The accountant bought flowers in German shops on Friday, receipt {number}."
        memory.add("documents", text)
        text = f"The merger is a meeting of five, please be quick, minute {number}."
        memory.add("documents", text)
    memory.add("messages", "Good morning!")
    memory.add("messages", "Good morning.", role="assistant")
    return memory


def shows(context):
    return any("88213" in item.text for item in context.items)


@pytest.mark.parametrize("window", [None, "main"])
@pytest.mark.parametrize("after", AFTER)
async def test_a_message_after_a_question_does_not_hide_it(after, window):
    """The passage that the first message asks for is shown beside the second message."""
    memory = building_memory()
    memory.add("messages", QUESTION)
    memory.add("messages", after)
    context = await memory.assemble_context(budget=1_000, format="openai", window=window)
    assert context.query == f"{QUESTION}\n{after}"
    assert shows(context)


async def test_a_message_within_a_loop_of_tools_does_not_hide_the_question():
    """A message that calls tools is no reply."""
    memory = building_memory()
    memory.add("messages", QUESTION)
    memory.add("messages", (ToolUseBlock("c", "look", {}),), role="assistant")
    memory.add("messages", (ToolResultBlock("c", "Nothing."),), role="user")
    memory.add("messages", AFTER[1])
    assert shows(await memory.assemble_context(budget=1_000, format="openai"))


async def test_an_answered_question_is_no_part_of_the_next_one():
    """After a reply, the newest message is the whole question."""
    memory = building_memory()
    memory.add("messages", QUESTION)
    memory.add("messages", "A Vaillant.", role="assistant")
    memory.add("messages", AFTER[0])
    context = await memory.assemble_context(budget=1_000)
    assert context.query == AFTER[0]


async def test_without_any_reply_the_newest_message_is_the_question():
    """An application that keeps no replies asks for its newest message alone."""
    memory = SessionMemory.test_mode()
    for message in (QUESTION, *AFTER):
        memory.add("messages", message)
        context = await memory.assemble_context(budget=1_000)
        assert context.query == message


async def test_many_messages_without_a_reply_are_not_one_question():
    """Where replies have stopped, the newest message counts alone."""
    memory = building_memory()
    for message in (QUESTION, *AFTER):
        memory.add("messages", message)
    assert (await memory.assemble_context(budget=1_000)).query == AFTER[-1]


async def test_a_message_that_asks_is_the_question_alone():
    """What was said before it without a reply may be of another matter."""
    memory = building_memory()
    for message in (AFTER[2], QUESTION, "Where is the merger?"):
        memory.add("messages", message)
    assert (await memory.assemble_context(budget=1_000)).query == "Where is the merger?"


async def test_of_a_pasted_text_before_the_question_only_the_end_counts():
    """A long text does not drown the question that follows it."""
    memory = building_memory()
    memory.add("messages", f"{'The merger is a meeting of five. ' * 100}{QUESTION}")
    memory.add("messages", AFTER[0])
    context = await memory.assemble_context(budget=8_000)
    assert context.query.endswith(f"{QUESTION}\n{AFTER[0]}")
    assert len(context.query) < 300


async def test_a_message_that_was_sent_twice_is_one_question():
    """A repeated message counts once."""
    memory = building_memory()
    memory.add("messages", QUESTION)
    memory.add("messages", QUESTION)
    assert (await memory.assemble_context(budget=1_000)).query == QUESTION


async def test_an_attached_thread_is_asked_in_the_same_way():
    """The question of a thread is what was said there since its last reply."""
    history = InMemoryHistoryProvider()
    said = [("user", "Good morning!"), ("assistant", "Good morning."), ("user", QUESTION)]
    messages = [ChatMessage(role, text) for role, text in (*said, ("user", AFTER[0]))]
    await history.append_many("ann", messages, session_id="s")
    memory = SessionMemory.test_mode()
    await memory.attach(HistorySource(history, "ann", "s"))
    context = await memory.assemble_context(budget=1_000)
    assert context.query == f"{QUESTION}\n{AFTER[0]}"
