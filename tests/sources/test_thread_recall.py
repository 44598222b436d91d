"""Earlier messages of a thread that a question recalls."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import ChatMessage, Reason, SectionSpec, SessionMemory
from kaosmem.backends.redis import RedisDatabase, RedisHistoryProvider
from kaosmem.backends.sqlite.database import SqliteDatabase
from kaosmem.backends.sqlite.stores import SqliteHistoryProvider
from kaosmem.conversation import ActionEvent, EventLog
from kaosmem.sources import ConversationSource, HistorySource
from kaosmem.sources.history import HISTORY
from kaosmem.stores import InMemoryHistoryProvider
from tests.servers import redis_server
from tests.sources.test_history import Counting

FACT = "The launch code of the harbour crane is SWORDFISH."
QUESTION = "What is the launch code of the harbour crane?"


def talk(count, *, fact_at=10):
    """Return a conversation with one fact in it."""
    texts = seeded_texts(count, words=30)
    texts[fact_at] = FACT
    return [ChatMessage(("user", "assistant")[at % 2], text) for at, text in enumerate(texts)]


async def asked(source, question=QUESTION, **options):
    memory = SessionMemory.test_mode()
    await memory.attach(source)
    context = await memory.assemble_context(question, budget=1_500, **options)
    assert context.sources["history"].status == "ok"
    return context


@asynccontextmanager
async def provided(kind, folder):
    clock = lambda: datetime(2024, 5, 8, tzinfo=UTC)  # noqa: E731
    if kind == "sqlite":
        async with SqliteDatabase(folder / "threads.sqlite") as database:
            yield SqliteHistoryProvider(database, clock=clock)
        return
    with redis_server() as url:
        async with RedisDatabase(url, tenant="recall") as redis:
            yield RedisHistoryProvider(redis, clock=clock)


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_an_early_fact_of_a_long_thread_is_recalled(kind, tmp_path):
    """With the day on which it was said, as a section of the same messages recalls it."""
    async with provided(kind, tmp_path) as provider:
        await provider.append_many("a", talk(300), session_id="s")
        context = await asked(HistorySource(provider, "a", "s"))
        assert context.decision("history/#10").reason == Reason.RECALLED
        assert f"[8 May 2024]\nuser: {FACT}" in context.text
        without = await asked(HistorySource(provider, "a", "s", spec=replace(HISTORY, recall=0.0)))
        assert "SWORDFISH" not in without.text
    memory = SessionMemory.test_mode(
        sections=[SectionSpec("history", 32_000, 90, 0.35, placement="history")]
    )
    for message in talk(300):
        memory.add("history", message.text, role=message.role)
    assert FACT in (await memory.assemble_context(QUESTION, budget=1_500)).text


async def test_each_question_reads_only_new_messages():
    """The first reads the thread once; without recall a question reads what it shows, and so does no question."""
    provider = Counting()
    await provider.append_many("a", talk(3_000), session_id="s")
    for source, first in (
        (HistorySource(provider, "a", "s"), 3_300),
        (HistorySource(provider, "a", "s", spec=replace(HISTORY, recall=0.0)), 200),
    ):
        provider.read = 0
        await asked(source, "")
        assert provider.read < 200
        provider.read = 0
        await asked(source)
        assert provider.read < first
        provider.read = 0
        await provider.append_many("a", talk(12), session_id="s")
        await asked(source)
        assert provider.read < 200


async def test_a_cleared_message_is_recalled_no_more():
    """Neither after its run was cleared, nor after the whole thread was. Other messages move up."""
    provider = InMemoryHistoryProvider()
    await provider.append_many("a", talk(20), session_id="s", run_id="r")
    others = talk(300, fact_at=5)
    others[5] = replace(others[5], content="The notice period of the tenants is ninety days.")
    await provider.append_many("a", others, session_id="s")
    source = HistorySource(provider, "a", "s")
    assert (await asked(source)).decision("history/#10").reason == Reason.RECALLED
    await provider.clear_run("a", "s", "r")
    await provider.append_many("a", others[20:80], session_id="s")
    assert "SWORDFISH" not in (await asked(source)).text
    context = await asked(source, "How long is the notice period of the tenants?")
    assert context.decision("history/#5").reason == Reason.RECALLED
    item = await source.get("history/#5")
    assert item.text in context.text
    await provider.clear("a", "s")
    await provider.append_many("a", [ChatMessage("user", "Hello.")], session_id="s")
    assert [item.text for item in (await asked(source)).items] == ["Hello."]


async def test_a_recalled_message_has_its_own_id_and_is_filtered():
    """A pinned one is recalled, too; one of two with the same id by its position.

    A filter narrows by run and field.
    """
    messages = talk(300)
    messages[10] = replace(messages[10], id="m", pinned=True, metadata={"channel": "mail"})
    messages[20] = replace(messages[20], id="n", content=FACT + " Mind it.")
    messages[200] = replace(messages[200], id="n")
    provider = InMemoryHistoryProvider()
    await provider.append_many("a", messages, session_id="s", run_id="r")
    source = HistorySource(provider, "a", "s")
    context = await asked(source)
    assert context.decision("history/m").reason == Reason.RECALLED
    assert (await source.get("history/m")).text == FACT
    assert context.decision("history/#20").reason in (
        Reason.RECALLED,
        Reason.DUPLICATE,
        Reason.BEFORE_TAIL,
    )
    for wanted, is_in in (
        ({"channel": "mail"}, True),
        ({"run_id": "r"}, True),
        ({"run_id": "q"}, False),
    ):
        narrowed = await asked(source, filter=wanted)
        assert ("SWORDFISH" in narrowed.text) == is_in


async def test_the_newest_user_message_of_a_thread_is_the_query():
    """As it is in a section, if the session has no message of a user itself."""
    history = InMemoryHistoryProvider()
    messages = [ChatMessage("user", "My dog is called Bello and likes bones.")]
    messages += [ChatMessage("assistant", f"Talk {n} of the weather. " * 9) for n in range(200)]
    messages.append(ChatMessage("user", "What is my dog called?"))
    await history.append_many("agent", messages, session_id="room")
    memory = SessionMemory.test_mode()
    await memory.attach(HistorySource(history, "agent", "room"))
    context = await memory.assemble_context(budget=1_500)
    assert context.query == "What is my dog called?"
    assert "Bello" in context.text
    memory.add("messages", "How is the weather?")
    assert (await memory.assemble_context(budget=1_500)).query == "How is the weather?"


async def test_a_question_of_a_thread_that_cannot_be_read_is_none():
    """The report of the source says why; the context goes on."""

    class Down(InMemoryHistoryProvider):
        async def count_messages(self, agent_id, *, session_id):
            raise ConnectionError

    memory = SessionMemory.test_mode()
    await memory.attach(HistorySource(Down(), "agent", "room"))
    context = await memory.assemble_context(budget=1_500)
    assert context.query == ""
    assert context.sources["history"].error == "ConnectionError"


async def test_the_newest_user_message_of_a_log_is_the_query():
    log = EventLog()
    log.append(ActionEvent("message", "Fix the client.", source="user"))
    log.append(ActionEvent("message", "Done."))
    memory = SessionMemory.test_mode()
    await memory.attach(ConversationSource(log))
    assert (await memory.assemble_context(budget=1_500)).query == "Fix the client."
