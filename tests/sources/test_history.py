"""What a thread of messages shows as a source: promises P1, P3 to P5, P7 and P8, and what it reads."""

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts
from kaosmem import (
    ChatMessage,
    NotFoundError,
    Reason,
    SessionMemory,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    Trust,
    WindowTooSmallError,
)
from kaosmem.assembly.allocation import cap_of
from kaosmem.compaction.outline import Outline
from kaosmem.errors import SourceError
from kaosmem.language.query import Query
from kaosmem.sources import HistorySource
from kaosmem.sources.history import HISTORY
from kaosmem.stores import InMemoryHistoryProvider
from kaosmem.stores.history import decode_message
from tests.contexts import COUNTERS, handed_over
from tests.formats.checked import check_context
from tests.tool_conversations import conversations
from tests.worlds import budgets, formats, worlds


def said(*texts, role="user"):
    return [ChatMessage(role, text) for text in texts]


def called(call, result="found"):
    return [
        ChatMessage("assistant", (TextBlock("Let me see."), ToolUseBlock(call, "search"))),
        ChatMessage("tool", (ToolResultBlock(call, result),)),
    ]


async def thread(messages):
    provider = InMemoryHistoryProvider()
    await provider.append_many("a", messages, session_id="s")
    return provider


async def memory_over(source):
    memory = SessionMemory.test_mode()
    await memory.attach(source)
    return memory


async def window(memory, budget=500, format="openai"):
    context = await memory.assemble_context("", budget=budget, format=format)
    assert all(report.status == "ok" for report in context.sources.values())
    return context


@given(
    worlds(counters=COUNTERS, max_adds=8),
    conversations(),
    st.sampled_from([None, 100, 400]),
    budgets,
    formats,
    st.sampled_from(["", "search", "What was found about 3 sheep yesterday?"]),
)
def test_a_thread_beside_sections_keeps_budgets_reasons_and_rules(
    world, messages, cap, budget, format, query
):
    """Counted anew it fits, within its cap; the same comes of the same, in another source too; all that was proposed
    is decided, once; the provider takes it."""
    spec = replace(HISTORY, budget=cap, floor=0.2)
    provider = asyncio.run(thread(messages))
    sources = [HistorySource(provider, "a", "s", spec=spec) for _ in range(2)]
    asyncio.run(world.memory.attach(sources[0]))
    try:
        first, second = (
            asyncio.run(world.memory.assemble_context(query, budget=budget, format=format))
            for _ in range(2)
        )
    except WindowTooSmallError:
        return
    check_context(first, world.memory.admin.counter)
    assert handed_over(first) == handed_over(second)
    assert first.decisions == second.decisions
    decided = {decision.item_id: decision for decision in first.decisions}
    assert len(decided) == len(first.decisions)
    assert {item.id for item in first.items} == {
        each for each, decision in decided.items() if decision.included
    }
    assert first.sources["history"].error == ""
    if "history" in first.by_section:
        assert first.by_section["history"].used <= cap_of(spec, budget)
    proposals = [
        asyncio.run(source.propose(Query(query), cap=cap_of(spec, budget))) for source in sources
    ]
    assert proposals[0] == proposals[1]
    units = (*proposals[0].candidates, *proposals[0].earlier)
    assert {item.id for unit in units for item in unit.items} <= decided.keys()


def _position(item_id):
    return int(item_id.removeprefix("history/").lstrip("#m"))


@given(conversations(), st.integers(60, 1_500), formats)
def test_the_newest_unit_and_question_are_in_and_units_are_whole(messages, budget, format):
    """Whatever is cut off, or there is no window; a call is in with its results, or they are out, and the tail has no
    gap."""
    source = HistorySource(asyncio.run(thread(messages)), "a", "s")
    memory = asyncio.run(memory_over(source))
    try:
        context = asyncio.run(window(memory, budget, format))
    except WindowTooSmallError:
        return
    shown = {_position(item.id) for item in context.items}
    outline = Outline(messages)
    for unit in outline.units:
        assert shown.isdisjoint(unit) or shown.issuperset(unit)
    assert shown.isdisjoint(outline.orphans)
    tail = [_position(each.item_id) for each in context.decisions if each.reason == Reason.TAIL]
    assert shown.issuperset(
        {*range(min(tail, default=len(messages)), len(messages))} - outline.orphans
    )
    assert shown.issuperset(outline.exchanges.questions[-1:])
    newest = max(
        (unit[-1] for unit in outline.units if unit[0] not in outline.orphans), default=None
    )
    assert newest is None or newest in shown


def grown(turns, *, words=20):
    texts = seeded_texts(2 * turns, words=words)
    return [
        [*said(question), *called(f"c{turn}", answer), *said("So it is.", role="assistant")]
        for turn, (question, answer) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]


class Counting(InMemoryHistoryProvider):
    """Counts the messages that are read."""

    read = 0

    async def get_messages(self, agent_id, *, session_id, limit=None, offset=0):
        messages = await super().get_messages(
            agent_id, session_id=session_id, limit=limit, offset=offset
        )
        self.read += len(messages)
        return messages


async def test_a_window_reads_the_same_of_any_thread():
    """As much of forty thousand messages as of a thousand: not twice what it shows."""
    reads = []
    for turns in (250, 10_000):
        provider = Counting()
        await provider.append_many(
            "a", [each for turn in grown(10) * (turns // 10) for each in turn], session_id="s"
        )
        memory = await memory_over(HistorySource(provider, "a", "s"))
        await window(memory, 2_000)
        reads.append(provider.read)
    assert reads[1] <= 1.2 * reads[0] <= 400


async def test_a_question_far_back_is_looked_for_once():
    """An agent that works on one question for long reads what it shows; a newer question is seen, and so is one that
    is the newest after others were cleared."""
    provider = Counting()
    await provider.append_many("a", said("Earlier.", "Go on."), session_id="s")
    await provider.append_many("a", said("Aside."), session_id="s", run_id="r")
    await provider.append_many(
        "a", [each for n in range(500) for each in called(f"c{n}")], session_id="s"
    )
    memory = await memory_over(HistorySource(provider, "a", "s"))
    for expected in ("Aside.", "Aside."):
        provider.read = 0
        assert (await window(memory, 2_000)).messages[0]["content"] == expected
        await provider.append_many("a", called("more"), session_id="s")
    assert provider.read < 600
    await provider.clear_run("a", session_id="s", run_id="r")
    await provider.append_many("a", called("one") + called("two"), session_id="s")
    assert (await window(memory, 2_000)).messages[0]["content"] == "Go on."
    await provider.append_many("a", said("Stop."), session_id="s")
    assert (await window(memory, 2_000)).messages[-1]["content"] == "Stop."


async def test_the_newest_question_is_shown_however_far_back_it_is():
    """Before the mark, which counts what is left out on both sides of it."""
    work = [each for number in range(200) for each in called(f"c{number}", "found " * 20)]
    messages = [*said("one", "two"), *said("Find it.", *["noted"] * 3), *work]
    messages[3:6] = said(*["noted"] * 3, role="assistant")
    context = await window(
        await memory_over(HistorySource(await thread(messages), "a", "s")), 1_000
    )
    first, mark, *rest = context.messages
    assert first["content"] == "Find it."
    assert mark["content"] == f"[{len(messages) - 1 - len(rest)} earlier messages left out]"
    assert context.decision("history/#2").reason == Reason.MUST


async def test_a_message_is_fetched_by_its_id_or_by_its_position():
    """By the position where it has no id, one that looks like a position, or one that a later message has too."""
    messages = [
        ChatMessage("user", "old", id="m"),
        ChatMessage("user", "none"),
        ChatMessage("user", "number", id="#0"),
        ChatMessage("user", "new", id="m"),
    ]
    memory = await memory_over(HistorySource(await thread(messages * 100), "a", "s"))
    context = await window(memory, 200)
    ids = [item.id for item in context.items]
    assert ids[-4:] == ["history/#396", "history/#397", "history/#398", "history/m"]
    assert [(await memory.fetch(each)).text for each in ids[-4:]] == [
        "old",
        "none",
        "number",
        "new",
    ]
    assert (await memory.fetch("history/#0")).text == "old"
    for missing in (
        "history/#400",
        "history/#x",
        "history/#-1",
        "history/nothing",
        "m",
        "elsewhere/#0",
    ):
        with pytest.raises(NotFoundError):
            await memory.fetch(missing)


async def test_one_that_is_not_shown_is_found_by_its_id():
    """In the whole thread."""
    messages = [ChatMessage("user", str(number), id=f"m{number}") for number in range(1_000)]
    memory = await memory_over(HistorySource(await thread(messages), "a", "s"))
    await window(memory, 100)
    assert (await memory.fetch("history/m3")).text == "3"


def counting_turns(first, many):
    return said(*(f"sheep-{number}- on the hill" for number in range(first, first + many)))


@given(
    st.lists(
        st.sampled_from(["a", "b", "a", "b", "clear a", "clear b", "clear"]),
        min_size=3,
        max_size=10,
    ),
    st.sampled_from([500, 1_200, 4_000]),
)
def test_nothing_that_was_cleared_is_shown(steps, budget):
    """The messages that are shown are stored, in the order in which they were said."""

    async def play():
        provider = InMemoryHistoryProvider()
        memory = await memory_over(HistorySource(provider, "a", "s"))
        number = 0
        for step in ("a", *steps):
            if step in ("a", "b"):
                await provider.append_many(
                    "a", counting_turns(number, 40), session_id="s", run_id=step
                )
                number += 40
            elif step == "clear":
                await provider.clear("a", session_id="s")
            else:
                await provider.clear_run("a", session_id="s", run_id=step.removeprefix("clear "))
            context = await window(memory, budget)
            shown = [int(each) for each in re.findall(r"sheep-(\d+)-", str(context.messages))]
            stored = [message.text for message in await provider.get_messages("a", session_id="s")]
            assert {*shown} <= {int(text.split("-")[1]) for text in stored}
            assert shown == sorted(shown)

    asyncio.run(play())


async def test_a_thread_that_is_cleared_while_it_is_read_is_read_again():
    """What is shown is the thread at one moment."""

    class Cleared(InMemoryHistoryProvider):
        async def count_messages(self, agent_id, *, session_id):
            count = await super().count_messages(agent_id, session_id=session_id)
            if count > 10:
                await self.clear(agent_id, session_id=session_id)
                await self.append(agent_id, *said("new"), session_id=session_id)
            return count

    provider = Cleared()
    await provider.append_many("a", said(*"0123456789ab"), session_id="s")
    context = await window(await memory_over(HistorySource(provider, "a", "s")))
    assert [m["content"] for m in context.messages] == ["new"]


async def test_a_newest_unit_that_is_too_large_is_refused_with_the_sums():
    """It says of which source, and how much it is."""
    memory = await memory_over(HistorySource(await thread(said("word " * 500)), "a", "s"))
    with pytest.raises(WindowTooSmallError) as raised:
        await window(memory, 100)
    assert raised.value.need["history"] > 500


async def test_a_system_message_is_shown_as_one_only_where_the_application_wrote_it():
    """Not where it is derived, or trusted less."""
    messages = [
        ChatMessage("system", "mine"),
        ChatMessage("system", "derived", sources=("x",)),
        ChatMessage("system", "external", trust=Trust.EXTERNAL),
        ChatMessage("user", "hello"),
    ]
    context = await window(await memory_over(HistorySource(await thread(messages), "a", "s")))
    assert [m["role"] for m in context.messages] == ["system", "user", "user", "user"]


async def test_two_threads_are_two_histories_and_none_can_forget():
    """Each under its own name, with ids of its own."""
    provider = await thread([ChatMessage("user", "of a", id="m")])
    await provider.append("b", ChatMessage("user", "of b", id="m"), session_id="s")
    memory = await memory_over(HistorySource(provider, "a", "s"))
    assert await memory.attach(HistorySource(provider, "b", "s")) == "history-2"
    context = await window(memory)
    assert [(item.id, item.text) for item in context.items] == [
        ("history/m", "of a"),
        ("history-2/m", "of b"),
    ]
    with pytest.raises(SourceError):
        await memory.forget("history/m")


def test_it_is_a_history_of_one_thread():
    """Another placement is refused, and so is an id that is none."""
    provider = InMemoryHistoryProvider()
    with pytest.raises(ValueError, match="use 'history'"):
        HistorySource(provider, "a", "s", spec=replace(HISTORY, placement="query"))
    for agent, session in (("", "s"), ("a", "")):
        with pytest.raises(ValueError, match="id"):
            HistorySource(provider, agent, session)


async def test_an_item_has_the_time_run_and_metadata_of_its_message():
    """A time that the metadata state counts more than that of the append.

    A message of an older store has none.
    """
    provider = InMemoryHistoryProvider(clock=lambda: datetime(2026, 1, 2, 3, tzinfo=UTC))
    mail = ChatMessage(
        "user", "Ann moved.", metadata={"channel": "mail", "timestamp": "2023-05-08"}
    )
    await provider.append_many("a", [mail, *said("Where?")], session_id="s", run_id="r-1")
    old = decode_message('{"role":"user","content":"old"}')
    provider._threads["a", "s"].insert(0, old)
    source = HistorySource(provider, "a", "s")
    memory = await memory_over(source)
    before, moved, where = (await window(memory)).items
    assert (before.metadata, before.timestamp) == ({}, None)
    assert moved.metadata == {"timestamp": "2023-05-08", "run_id": "r-1", "channel": "mail"}
    assert where.timestamp == where.created_at == datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert (await memory.fetch(where.id)).metadata == {
        "timestamp": "2026-01-02T03:00:00+00:00",
        "run_id": "r-1",
    }
