"""A caller hands over its whole list of messages, and each message is stored once."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from itertools import dropwhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaosmem import ChatMessage, InvalidArgumentError, SectionSpec, SessionMemory
from kaosmem.compaction import Summarizer
from kaosmem.compaction.strategies import SummarizationCompaction
from kaosmem.formation import PatternFormer


def said(text, role="user"):
    return {"role": role, "content": text}


def conversation(length):
    roles = ("user", "assistant")
    return [said(f"Sentence {at} of the talk.", roles[at % 2]) for at in range(length)]


def test_memory(**spec):
    return SessionMemory.test_mode(sections=[SectionSpec("messages", placement="history", **spec)])


test_memory.__test__ = False


async def synced(memory, messages):
    return [item.text for item in await memory.sync_messages(messages, format="openai")]


def texts(memory):
    return [item.text for item in memory["messages"]]


async def test_the_same_list_adds_nothing():
    """Rebuilt objects without ids, and messages that `add_message` has stored, are known."""
    memory = SessionMemory.test_mode()
    assert len(await synced(memory, conversation(4))) == 4
    assert await synced(memory, conversation(4)) == []
    memory.add_message(said("Of course.", "assistant"), format="openai")
    messages = [*conversation(4), said("Of course.", "assistant"), said("Thanks.")]
    assert await synced(memory, messages) == ["Thanks."]


async def test_a_message_keeps_the_time_when_it_was_said():
    """So an imported conversation has its days. A `timestamp` of the caller goes before."""
    time = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    memory = SessionMemory.test_mode()
    said_then = ChatMessage("user", "I moved to Oslo.", created_at=time)
    (item,) = await memory.sync_messages([said_then])
    assert item.valid_from == time
    assert item.date == "8 May 2023"
    stated = replace(said_then, metadata={"timestamp": "2022-04"})
    assert memory.add_message(stated).date == "April 2022"
    assert await memory.sync_messages([said_then, stated]) == []
    for stated, date in (("2022-04", "April 2022"), ("10:32", ""), (1_650_000_000, ""), (None, "")):
        message = said("I moved to Bergen.") | {"timestamp": stated}
        (item,) = await SessionMemory.test_mode().sync_messages([message], format="openai")
        assert item.date == date


async def test_system_messages_at_the_beginning_are_left_out():
    memory = SessionMemory.test_mode()
    assert await synced(memory, [said("Be brief.", "system"), said("Hi.")]) == ["Hi."]
    messages = [said("Be polite.", "developer"), said("Hi."), said("Who are you?")]
    assert await synced(memory, messages) == ["Who are you?"]


_WORDS = st.sampled_from(["Yes.", "No.", "Go on."])
_ROLES = st.sampled_from(["user", "assistant", "system"])


@given(st.lists(st.lists(st.tuples(_ROLES, _WORDS), min_size=1, max_size=4), max_size=5))
def test_system_messages_between_others_are_stored_once(turns):
    """Each of them is at its place, also if the list is handed over again without anything new."""

    async def converse():
        memory = test_memory()
        full = []
        for told in turns:
            full += [said(text, role) for role, text in told]
            for _ in range(2):
                await synced(memory, full)
                kept = list(dropwhile(lambda message: message["role"] == "system", full))
                roles = [item.role for item in memory["messages"]]
                assert roles == [message["role"] for message in kept]
                assert texts(memory) == [message["content"] for message in kept]

    asyncio.run(converse())


async def test_a_system_message_of_one_call_changes_nothing_else():
    """A framework tells the time at each call, and does not keep it in its list."""
    memory = SessionMemory.test_mode()
    full = []
    for number in range(4):
        full.append(said(f"Question {number}."))
        told = said(f"It is {number} o'clock.", "system")
        new = await synced(memory, [*full[:-1], told, full[-1]])
        expected = [told["content"], full[-1]["content"]]
        assert new == (expected if number else expected[1:])
        full.append(said(f"Answer {number}.", "assistant"))
        memory.add_message(full[-1], format="openai")


async def test_a_system_message_that_was_taken_back_goes():
    """The last call failed, and the next one tells another time."""
    memory = SessionMemory.test_mode()
    begin = [said("Hi."), said("Hello.", "assistant"), said("What time is it?")]
    await synced(memory, [*begin, said("It is one.", "system")])
    assert await synced(memory, [*begin, said("It is two.", "system")]) == ["It is two."]
    assert texts(memory) == ["Hi.", "Hello.", "What time is it?", "It is two."]


async def test_a_list_that_was_cut_or_rewritten_adds_only_what_is_new():
    """A framework trims its list, or puts a summary in the place of old messages."""
    memory = SessionMemory.test_mode()
    full = conversation(8)
    await synced(memory, full)
    assert await synced(memory, [*full[-2:], said("New.")]) == ["New."]
    rewritten = [said("Earlier: a talk.", "assistant"), *full[-3:], said("New."), said("Newer.")]
    assert await synced(memory, rewritten) == ["Newer."]
    assert texts(memory)[:8] == [message["content"] for message in full]


@given(
    st.lists(st.lists(st.sampled_from(["Yes.", "No.", "Go on."]), min_size=1, max_size=2)),
    st.integers(3, 8),
)
def test_a_sliding_list_of_repeated_turns_withdraws_nothing(turns, keep):
    """A framework hands over its newest messages, whose short texts stand in the conversation several times."""

    async def converse():
        memory = test_memory()
        full = []
        for told in turns:
            full += map(said, told)
            handed = [each["content"] for each in full[-keep:]]
            before = texts(memory)
            await synced(memory, full[-keep:])
            known = [end for end in range(len(handed) + 1) if before[-end:] == handed[:end]]
            assert texts(memory) == before + handed[max(known, default=0) :]

    asyncio.run(converse())


async def test_facts_of_messages_that_were_taken_back_go_with_them():
    """A user edits a message. A fact that the edited message states, too, stays."""
    memory = SessionMemory.test_mode()
    begin = [said("I live in Oslo."), said("Noted.", "assistant")]
    await synced(memory, [*begin, said("I am a nurse. I prefer tea.")])
    await memory.form(PatternFormer())
    await synced(memory, [*begin, said("I am a teacher. I prefer tea.")])
    assert [item.text for item in memory["findings"]] == ["I live in Oslo.", "I prefer tea."]
    await memory.form(PatternFormer())
    assert [item.text for item in memory["findings"]] == [
        "I live in Oslo.",
        "I prefer tea.",
        "I am a teacher.",
    ]
    await synced(memory, [*begin, said("I am a teacher. I prefer tea."), said("Bye.")])
    assert len(memory["findings"]) == 3


async def test_calls_and_results_are_known_again():
    """Also without the thinking, and for a result of which only a part is shown."""
    memory = test_memory(budget=1_000, eviction="fifo")
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        said("Read it."),
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Hm."},
        {"role": "tool", "tool_call_id": "c1", "content": "A long line. " * 2_000},
    ]
    assert len(await memory.sync_messages(messages, format="openai")) == 3
    without = [messages[0], {"role": "assistant", "content": None, "tool_calls": [call]}]
    assert await synced(memory, [*without, messages[2]]) == []


@pytest.mark.parametrize("text", [None, "I look."])
async def test_a_list_of_words_alone_keeps_the_calls_and_results_of_the_section(text):
    """As a web page holds it, with trimmed texts. A reply that is made anew takes its calls with it."""
    memory = test_memory()
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    page = [said("Hello."), said("Hi.", "assistant"), said("Read it.")]
    await synced(memory, page)
    for message in (
        {"role": "assistant", "content": text, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        said("It says 42.\n", "assistant"),
    ):
        memory.add_message(message, format="openai")
    before = texts(memory)
    heard = [said("I look.", "assistant")] if text else []
    for words in (heard, []):
        assert await synced(memory, [*page, *words, said("It says 42.", "assistant")]) == []
    after = [*page, *heard, said("It says 42.", "assistant"), said("Thanks.")]
    assert await synced(memory, after) == ["Thanks."]
    assert texts(memory) == [*before, "Thanks."]
    assert await synced(memory, page) == []
    assert texts(memory) == before[:3]


async def test_ids_tell_nothing_of_the_texts():
    """A receipt of an erasure names ids, and a short text can be guessed by a digest of it."""
    ids = []
    for text in ("Yes.", "No."):
        added = await SessionMemory.test_mode().sync_messages([said(text)], format="openai")
        ids.append(added[0].id)
    assert ids[0] == ids[1]


async def test_an_item_of_a_lost_source_is_compared_itself():
    memory = SessionMemory.test_mode()
    memory.add("messages", "Go on.", sources=["gone"])
    assert await synced(memory, [said("Go on."), said("And then?")]) == ["And then?"]


async def test_summarised_messages_are_known():
    """A summary knows the messages that it replaced."""
    compaction = SummarizationCompaction(Summarizer(None), 40, 30)
    memory = test_memory(budget=120, compaction=compaction)
    messages = []
    for turn in range(12):
        messages.append(said(f"Sentence {turn} of a talk about the weather in town {turn}."))
        assert len(await synced(memory, messages)) == 1
        await memory.assemble_context(budget=100)
    assert len(memory["messages"]) < 12


@pytest.mark.parametrize("wrong", [[5], [{"role": "user"}], "Hi", None])
async def test_wrong_messages_are_refused(wrong):
    memory = SessionMemory.test_mode()
    with pytest.raises(InvalidArgumentError):
        await memory.sync_messages(wrong, format="openai")
    with pytest.raises(InvalidArgumentError, match="format"):
        await memory.sync_messages([said("Hi.")])
    assert texts(memory) == []


turns = st.lists(
    st.tuples(
        st.sampled_from(["Yes.", "Go on.", "Who owns it?"]), st.sampled_from(["", "cut", "edit"])
    ),
    max_size=10,
)


@given(turns, st.sampled_from([60, 2_000]))
def test_each_message_is_stored_once(turns, budget):
    """Each turn opens the session anew. Whatever was evicted, cut or edited, the view ends as the list does."""
    spec = SectionSpec("messages", budget, placement="history", eviction="fifo")

    async def converse():
        fs = SessionMemory.test_mode().admin.fs
        full = []
        for text, event in turns:
            is_edited = event == "edit" and len(full) > 1
            before = full[:-1] if is_edited else full
            full = [*before, said(f"{text} ({len(before)})")]
            handed = full[-5:] if event == "cut" else full
            async with SessionMemory.open(fs, "test", sections=[spec]) as memory:
                await synced(memory, handed)
                assert await synced(memory, handed) == []
                shown = texts(memory)
                assert shown
                assert shown == [each["content"] for each in full][-len(shown) :]
                assert budget == 60 or len(shown) == len(full)

    asyncio.run(converse())
