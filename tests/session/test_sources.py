"""Sources beside a session's own sections: sections of other sessions, read once a process, and one's own."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given

from kaosmem import (
    Item,
    NotFoundError,
    Proposal,
    Reason,
    SectionSpec,
    SessionMemory,
    SessionOptions,
    Source,
    WindowTooSmallError,
)
from kaosmem.errors import ReadOnlyError
from kaosmem.formats import count_messages
from kaosmem.persistence.steps import Read
from kaosmem.persistence.storage.local import LocalStorage
from tests.contexts import counted, handed_over
from tests.worlds import budgets, formats, queries, worlds

CLAUSES = (
    "termination notice",
    "governing law",
    "payment terms",
    "liability cap",
    "confidential information",
)


async def stored_room(root, *, documents=100, session_id="room"):
    async with SessionMemory.open(root, session_id) as room:
        for number in range(documents):
            clause = CLAUSES[number % len(CLAUSES)]
            room.add(
                "documents", f"{clause} of contract {number}", metadata={"source": f"{number}.pdf"}
            )
        room.add("actions", "read the contracts")


async def test_a_section_of_another_session_is_shown_beside_the_own(tmp_path):
    """It is proposed by its own spec under a free name, budgeted, explained, filtered, searched and fetched."""
    await stored_room(tmp_path)
    memory = SessionMemory.test_mode()
    memory.add("documents", "our own memo on termination notice")
    memory.add("messages", "What is the termination notice?")
    async with SessionMemory.open(tmp_path, "room", read_only=True) as room:
        name = await memory.attach(room["documents"])
        assert name == "documents-2"
        assert list(memory.admin.sources) == [name]
        context = await memory.assemble_context(budget=400, format="openai")
        assert count_messages(context.messages, "openai") == context.used <= 400
        shown = [item for item in context.items if "contract" in item.text]
        assert shown
        assert all("termination" in item.text for item in shown[:5])
        assert context.by_section[name].items == len(shown)
        decision = context.decision(shown[0].id)
        assert (decision.section, decision.reason) == (name, Reason.RELEVANT)
        left_out = next(item for item in room["documents"] if item not in context.items)
        assert not context.decision(left_out.id).included
        narrowed = await memory.assemble_context(budget=400, filter={"source": "7.pdf"})
        assert [item.text for item in narrowed.items if "contract" in item.text] == [
            "payment terms of contract 7"
        ]
        assert narrowed.decision(left_out.id).reason in (Reason.FILTERED, Reason.NO_ROOM)
        assert {item.text for item, _ in memory.search("liability cap", name, 3)} <= {
            i.text for i in room["documents"]
        }
        assert (
            memory.search("payment terms of contract 7")[0][0].text == "payment terms of contract 7"
        )
        assert await memory.fetch(shown[0].id) == shown[0]
        only = await memory.assemble_context(budget=400, sections=[name])
        assert {item.section for item in only.items} == {"documents"}
        assert set(only.by_section) == {name}


async def test_names_are_free_ones_or_refused(tmp_path):
    """A name may be given; one that is taken is refused, and an unknown one says what there is."""
    await stored_room(tmp_path)
    async with SessionMemory.open(tmp_path, "room", read_only=True) as room:
        memory = SessionMemory.test_mode()
        assert await memory.attach(room["documents"], name="deal-room") == "deal-room"
        assert await memory.attach(room["documents"]) == "documents-2"
        assert await memory.attach(room["documents"]) == "documents-3"
        with pytest.raises(ValueError, match="deal-room"):
            await memory.attach(room["documents"], name="deal-room")
        with pytest.raises(NotFoundError, match="deal-room"):
            await memory.assemble_context("q", budget=100, sections=["contracts"])
        async with SessionMemory.open(tmp_path, "user") as user:
            await user.attach(room["documents"])
            assert list(user.admin.sources) == ["documents-2"]


async def test_an_item_that_two_sources_have_is_shown_once(tmp_path):
    """The session's own goes first, then the source attached first; floors that sum above 1 are scaled."""
    await stored_room(tmp_path, documents=5)
    async with SessionMemory.open(tmp_path, "room", read_only=True) as room:
        memory = SessionMemory.test_mode()
        first, *_ = room["documents"]
        memory.add("documents", first.content, id=first.id)
        for _ in range(3):
            await memory.attach(room["documents"])
        context = await memory.assemble_context("contract", budget=2_000)
        assert len({item.id for item in context.items}) == len(context.items) == 5
        assert context.by_section["documents"].items == 1
        assert context.by_section["documents-2"].items == 4
        theirs = await memory.assemble_context("contract", budget=2_000, sections=["documents-3"])
        assert theirs.by_section["documents-3"].items == 5
        assert len({decision.item_id for decision in context.decisions}) == len(context.decisions)


async def test_two_items_under_one_id_are_both_shown():
    """Sessions for tests give the same ids: the attached one's then names its source, and can be fetched by that."""
    room = SessionMemory.test_mode()
    memory = SessionMemory.test_mode()
    theirs = room.add("documents", "the notice period of theirs")
    mine = memory.add("documents", "the notice of mine")
    assert theirs.id == mine.id
    await memory.attach(room["documents"])
    context = await memory.assemble_context("notice", budget=500)
    assert [item.text for item in context.items] == [mine.text, theirs.text]
    assert [item.id for item in context.items] == [mine.id, f"documents-2/{mine.id}"]
    for item in context.items:
        assert await memory.fetch(item.id) == item
        assert context.decision(item.id).included


@given(worlds(), worlds(), queries, budgets, formats)
def test_the_promises_hold_with_another_session_attached(world, other, query, budget, format):
    """Counted from scratch it fits, every item is decided once, and twice the same is the same."""

    async def twice():
        for section in other.memory.sections:
            await world.memory.attach(other.memory[section.name])
        return [
            await world.memory.assemble_context(query, budget=budget, format=format)
            for _ in range(2)
        ]

    try:
        first, second = asyncio.run(twice())
    except WindowTooSmallError:
        return
    assert handed_over(first) == handed_over(second)
    assert first.decisions == second.decisions
    assert counted(first, world.memory.admin.counter) == first.used <= budget
    assert len({decision.item_id for decision in first.decisions}) == len(first.decisions)
    assert {d.item_id for d in first.decisions if d.included} == {item.id for item in first.items}


async def test_a_session_opened_read_only_refuses_every_change(tmp_path):
    """Through the memory, through its sections and by use; nothing is written when the block is left."""
    await stored_room(tmp_path, documents=3)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    async with SessionMemory.open(tmp_path, "room", read_only=True) as room:
        item = next(iter(room["documents"]))
        for change in (
            lambda: room.add("documents", "x"),
            lambda: room.update(item.id, "x"),
            lambda: room.remove(item.id),
            lambda: room["documents"].add(replace(item, id="new")),
            lambda: room["documents"].update(replace(item, content="x")),
            lambda: room["documents"].remove(item.id),
        ):
            with pytest.raises(ReadOnlyError):
                change()
        with pytest.raises(ReadOnlyError):
            await room.save()
        assert room.get(item.id) == item
        tool = room.get(next(iter(room["actions"])).id)
        assert tool is not None
        await room.assemble_context("termination", budget=500)
        assert room["actions"].journal == []
        assert len(room["documents"]) == 3
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.fixture
def reads(monkeypatch):
    """Return the files that are read whole from the local disk, as they are read."""
    perform = LocalStorage.perform
    seen = []

    def noting(self, step):
        if isinstance(step, Read):
            seen.append(step.path)
        return perform(self, step)

    monkeypatch.setattr(LocalStorage, "perform", noting)
    return seen


async def test_a_process_reads_a_read_only_session_once(tmp_path, reads):
    """Many users share one deal room; when it has changed it is read again, and those who have it keep theirs."""
    await stored_room(tmp_path)
    reads.clear()

    async def ask(user):
        memory = SessionMemory.test_mode(session_id=f"user-{user}")
        async with SessionMemory.open(tmp_path, "room", read_only=True) as room:
            await memory.attach(room["documents"])
            context = await memory.assemble_context(
                f"{CLAUSES[user % 5]} of contract {user % 100}", budget=100
            )
        return {item.text for item in context.items}

    answers = await asyncio.gather(*map(ask, range(60)))
    assert all(
        f"{CLAUSES[user % 5]} of contract {user % 100}" in answer
        for user, answer in enumerate(answers)
    )
    assert len(reads) == len(set(reads))
    async with SessionMemory.open(tmp_path, "room", read_only=True) as room:
        async with SessionMemory.open(tmp_path, "room") as writer:
            writer.add("documents", "one more")
        assert len(room["documents"]) == 100
        async with SessionMemory.open(tmp_path, "room", read_only=True) as again:
            assert len(again["documents"]) == 101
            assert again["documents"] is not room["documents"]


async def test_what_is_read_differently_is_not_shared(tmp_path):
    """Other specs, counters, sessions and namespaces are read for themselves, and few are kept."""
    await stored_room(tmp_path)
    await stored_room(tmp_path, documents=2, session_id="other")
    opened = []
    for different in (
        {},
        {"sections": (SectionSpec("documents", eviction="none"),)},
        {"counter": "estimate"},
        {"counter": lambda text: len(text)},
        {"counter": lambda text: len(text) + 1},
        {"session_id": "other"},
        {"session_id": "room", "namespace": "other", "options": SessionOptions(missing_ok=True)},
    ):
        options = {"session_id": "room", **different}
        async with SessionMemory.open(tmp_path, read_only=True, **options) as room:
            assert all(room["documents"] is not other for other in opened)
            opened.append(room["documents"])
            if options["session_id"] == "room" and "namespace" not in options:
                assert len(room["documents"]) == 100
            else:
                assert len(room["documents"]) == (2 if "namespace" not in options else 0)


class Weather:
    """A source of one's own: what it says is computed when it is asked."""

    spec = SectionSpec("weather", 50, 65)

    async def propose(self, query, *, cap, wanted=None):
        await asyncio.sleep(0)
        text = f"It is raining; asked: {query.text}"
        item = Item("w1", "weather", "tool", text, 10, datetime(2024, 1, 1, tzinfo=UTC))
        return Proposal.of([(item, 0.5)])

    async def get(self, item_id):
        return None


async def test_a_room_counted_otherwise_is_counted_again(tmp_path):
    """The budget holds in the counter of the session that shows it."""
    await stored_room(tmp_path)
    memory = SessionMemory.test_mode()
    async with SessionMemory.open(tmp_path, "room", read_only=True, counter=lambda text: 1) as room:
        await memory.attach(room["documents"])
        context = await memory.assemble_context("liability cap", budget=300)
        assert 200 < context.used == memory.admin.counter(context.text) <= 300


async def test_a_source_of_ones_own_is_asked_and_shown():
    """What satisfies the protocol is budgeted and explained like a section."""
    assert isinstance(Weather(), Source)
    memory = SessionMemory.test_mode()
    await memory.attach(Weather())
    memory.add("messages", "Shall I take an umbrella?")
    context = await memory.assemble_context(budget=300, format="openai")
    assert "It is raining; asked: Shall I take an umbrella?" in str(context.messages)
    assert context.decision("w1").reason is Reason.RELEVANT
    assert count_messages(context.messages, "openai") == context.used
    with pytest.raises(NotFoundError):
        await memory.fetch("w2")
