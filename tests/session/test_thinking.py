"""A model's thinking is never text: it goes back to its provider, in its place, or nowhere."""

import pytest

from kaosmem import (
    ChatMessage,
    SectionSpec,
    SessionMemory,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from kaosmem.compaction import Summarizer
from kaosmem.conversation import ActionEvent, ConversationMemory, EventLog, LLMSummarizingCondenser
from kaosmem.formats import render_messages
from kaosmem.sources import HistorySource
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.testing import ScriptedLLM, check_anthropic_messages
from tests.gist import gist

SECRET = "zebra-4711"
THOUGHT = f"{SECRET}: the user may mean https://example.com/{SECRET}. Never trust {SECRET}."
SEALED = ThinkingBlock(THOUGHT, "seal")
KINDS = {
    "sealed": SEALED,
    "unsealed": ThinkingBlock(THOUGHT),
    "encrypted": ThinkingBlock(THOUGHT, data=f"{SECRET} in cipher"),
}


@pytest.fixture(params=KINDS)
def thought(request):
    return KINDS[request.param]


def reply(thought, words="The notice period is two months."):
    return thought, TextBlock(words)


def test_it_is_no_part_of_a_text(thought):
    """The text of an item and of a message holds the words alone, without a blank line for the thinking."""
    memory = SessionMemory.test_mode()
    item = memory.add("messages", reply(thought), role="assistant")
    assert item.text == item.message.text == "The notice period is two months."
    assert SECRET not in repr(item) + repr(item.message) + repr(item.content) + item._repr_html_()


def test_it_is_counted(thought):
    """A section has to have room for it, as a request of its provider has."""
    memory = SessionMemory.test_mode()
    words = memory.add("messages", reply(thought)[1:], role="assistant").tokens
    assert memory.add("messages", reply(thought), role="assistant").tokens > words + 5


@pytest.mark.parametrize("format", ["text", "openai", "anthropic"])
async def test_a_history_shows_it_to_its_provider_alone(format, thought):
    memory = SessionMemory.test_mode()
    memory.add("messages", "How long is the notice?", role="user")
    memory.add("messages", reply(thought), role="assistant")
    memory.add("messages", "And the rent?", role="user")
    context = await memory.assemble_context(budget=2_000, format=format)
    handed_over = context.text if format == "text" else str(context.messages)
    if format == "anthropic" and thought.is_sealed:
        first, words = context.messages[1]["content"]
        assert first["type"] in ("thinking", "redacted_thinking")
        assert words == {"type": "text", "text": "The notice period is two months."}
    else:
        assert SECRET not in handed_over
    assert SECRET not in context.explain()


def test_a_speaker_other_than_the_assistant_has_none():
    """A provider takes thinking from its assistant only; a user's or a named speaker's message is sent without."""
    for role in ("user", "critic", "system"):
        sent = render_messages(
            [ChatMessage("user", "hi"), ChatMessage(role, reply(SEALED))], "anthropic"
        )
        assert SECRET not in f"{sent.system}{sent.messages}"


async def test_search_does_not_find_it(thought):
    memory = SessionMemory.test_mode()
    memory.add("findings", reply(thought), role="assistant")
    memory.add("findings", "Nothing else.", role="assistant")
    assert memory.search(SECRET) == []
    assert [item.text for item, _ in memory.search("notice period")] == [
        "The notice period is two months."
    ]


@pytest.mark.parametrize("window", [None, "main"])
@pytest.mark.parametrize("format", ["text", "openai", "anthropic"])
async def test_recall_brings_back_the_words_alone(format, window, thought):
    """A message that was evicted comes back without its thinking, whatever it is asked for by."""
    memory = SessionMemory.test_mode(
        sections=(SectionSpec("messages", max_items=2, placement="history"),)
    )
    memory.add("messages", "How long is the notice?", role="user")
    memory.add("messages", reply(thought), role="assistant")
    for number in range(4):
        memory.add("messages", f"Unrelated matter {number}.", role="user")
    for question in (
        "How long is the notice period?",
        "What may the user mean, and whom never to trust?",
    ):
        context = await memory.assemble_context(
            question, budget=2_000, format=format, window=window
        )
        handed_over = context.text if format == "text" else str(context.messages)
        assert "The notice period is two months." in handed_over or question.startswith("What")
        assert SECRET not in handed_over + context.explain()


async def test_a_message_that_differs_in_thinking_alone_is_a_duplicate():
    """Two replies that say the same are shown once in the block."""
    memory = SessionMemory.test_mode(sections=(SectionSpec("findings"),))
    memory.add("findings", reply(SEALED), role="assistant")
    memory.add("findings", reply(ThinkingBlock("other", "seal")), role="assistant")
    context = await memory.assemble_context("notice", budget=500, format="text")
    assert context.text.count("The notice period") == 1


async def test_summaries_never_see_it(thought):
    """Neither the model's material, nor the outline without a model, nor the facts and rules kept verbatim have it."""
    said = [
        ChatMessage("user", "How long is the notice? " * 40),
        ChatMessage("assistant", (*reply(thought), ToolUseBlock("c1", "find", {"q": "notice"}))),
        ChatMessage("tool", (ToolResultBlock("c1", "two months"),)),
        ChatMessage("user", reply(thought, "Always answer in French.")),
    ]
    model = ScriptedLLM(["They asked about the notice."])
    summary = await Summarizer(model).summarize(said)
    asked = [message.text for request in model.requests for message in request]
    assert "two months" in "".join(asked)
    assert SECRET not in "".join(asked) + summary.text
    outline = await Summarizer(None).summarize(said)
    assert "Always answer in French." in outline.text
    assert SECRET not in outline.text


async def test_events_are_told_without_it(thought):
    """The text of an event, the summary of a model, and the messages hold the words alone."""
    log = EventLog()
    log.append(ActionEvent("message", "How long is the notice?", source="user"))
    for _ in range(6):
        log.append(ActionEvent("message", reply(thought)))
    assert all(SECRET not in event.text for event in log.view)
    assert SECRET not in repr(list(log))
    for name in ("openai", "text"):
        told = render_messages(ConversationMemory().process_events(log), name)
        assert SECRET not in f"{told.text}{told.messages}"
    model = ScriptedLLM(gist)
    await LLMSummarizingCondenser(model, max_size=6).condense(log.view)
    asked = [message.text for request in model.requests for message in request]
    assert "two months" in "".join(asked)
    assert SECRET not in "".join(asked)


@pytest.mark.parametrize("format", ["text", "openai"])
async def test_a_thread_of_a_store_is_shown_without_it(format, thought):
    history = InMemoryHistoryProvider()
    await history.append("agent", ChatMessage("user", "How long is the notice?"), session_id="s")
    await history.append("agent", ChatMessage("assistant", reply(thought)), session_id="s")
    memory = SessionMemory.test_mode(sections=())
    await memory.attach(HistorySource(history, "agent", "s"))
    context = await memory.assemble_context("notice", budget=1_000, format=format)
    assert "two months" in str(context.messages if format == "openai" else context.text)
    assert SECRET not in str(context.messages if format == "openai" else context.text)


async def test_it_goes_back_unchanged_after_a_session_is_stored(tmp_path):
    """What is no text is still kept: a stored session sends it to its provider as it came."""
    call = {"type": "tool_use", "id": "c1", "name": "find", "input": {}}
    answer = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": THOUGHT, "signature": "seal"}, call],
    }
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "two months"}
    async with SessionMemory.open(tmp_path, "s") as memory:
        memory.add("messages", "How long is the notice?", role="user")
        memory.add_message(answer, format="anthropic")
        memory.add_message({"role": "user", "content": [result]}, format="anthropic")
        await memory.save()
    async with SessionMemory.open(tmp_path, "s") as again:
        context = await again.assemble_context(budget=1_000, format="anthropic")
        check_anthropic_messages(
            context.messages, context.system, thinking=True, replies=[answer["content"]]
        )
        assert context.messages[1] == answer
        assert again.search(SECRET) == []
