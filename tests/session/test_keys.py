"""Items with a key: the newest of a section is live, those before it are where evicted items are."""

from functools import partial

import pytest

from benchmarks.corpus import seeded_texts
from kaosmem import (
    NotFoundError,
    Reason,
    SectionSpec,
    SessionMemory,
)
from tests.persistence.damage.damaged import opened, place_of, stored
from tests.persistence.damage.turns import lost, turns

PERSISTENCES = ("stream", "none")
SPECS = (
    SectionSpec("messages", 400, placement="history", recall=0.5, retrieval_threshold=0),
    SectionSpec("findings", eviction="none"),
    SectionSpec("full", 20, eviction="refuse"),
    SectionSpec("ranked", 40, eviction="priority"),
    *(SectionSpec(f"kept-{each}", eviction="fifo", persistence=each) for each in PERSISTENCES),
)


@pytest.fixture
def memory():
    return SessionMemory.test_mode(sections=SPECS)


def live(memory, section):
    return list(memory[section])


@pytest.mark.parametrize("section", [spec.name for spec in SPECS])
async def test_the_newest_of_a_key_is_live(memory, section):
    """The one before is in the archive, fetched by its id, and its decision names the newest; other keys stay."""
    old = memory.add(section, "the owner is Ann", key="owner", pinned=True, priority=9)
    others = [memory.add(section, "a plan", key="plan"), memory.add(section, "no key")]
    new = memory.add(section, "the owner is Bob", key="owner")
    assert live(memory, section) == [*others, new]
    assert memory[section].keyed("owner") == new
    assert memory[section].keyed("nothing") is None
    assert memory.get(old.id) is None
    assert await memory.fetch(old.id) == old
    with pytest.raises(NotFoundError):
        memory.update(old.id, "the owner is Eve")
    assert len(memory[section].archive) == 1
    context = await memory.assemble_context("owner", budget=500)
    decision = context.decision(old.id)
    if section != "messages":
        assert (decision.reason, decision.same_as) == (Reason.ARCHIVED, new.id)
        assert decision.why == f"archived superseded by {new.id}"


async def test_what_was_superseded_can_be_forgotten(tmp_path):
    """An old version is erased alone; with the newest one the key is free, and nothing older comes back."""
    async with SessionMemory.open(tmp_path, sections=SPECS) as memory:
        first, second, third = (memory.add("messages", f"CANARY-{each}", key="k") for each in "abc")
        await memory.forget(first.id)
        assert live(memory, "messages") == [third]
        with pytest.raises(NotFoundError):
            await memory.fetch(first.id)
        await memory.forget(third.id)
        assert live(memory, "messages") == []
        assert (await memory.fetch(second.id)).text == "CANARY-b"
        fourth = memory.add("messages", "CANARY-d", key="k")
        assert live(memory, "messages") == [fourth]
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"CANARY-b" in stored
    assert b"CANARY-a" not in stored
    assert b"CANARY-c" not in stored


async def test_an_attached_section_supersedes_nothing_here(tmp_path):
    """Keys of another session's section are its own."""
    async with SessionMemory.open(tmp_path, "theirs", sections=SPECS) as theirs:
        theirs.add("findings", "their owner is Ann", key="owner")
    async with SessionMemory.open(tmp_path, "theirs", sections=SPECS, read_only=True) as theirs:
        ours = SessionMemory.test_mode(sections=SPECS)
        ours.add("findings", "our owner is Bob", key="owner")
        await ours.attach(theirs["findings"])
        context = await ours.assemble_context("owner", budget=500)
        assert {item.text for item in context.items} == {"their owner is Ann", "our owner is Bob"}


async def test_a_damaged_session_keeps_the_newest_of_a_key():
    """Where the record that superseded an item is lost, the next version supersedes it."""
    changes = [
        partial(SessionMemory.add, section="documents", content=each, key="k", id=each)
        for each in "abc"
    ]
    files = lost(stored(await turns(*changes)), 3)
    async with opened(place_of(files), read_only=True) as memory:
        assert [item.id for item in memory["documents"]] == ["c"]
        assert [version.item.id for version in memory["documents"].archive.in_memory()] == ["a"]


async def test_a_question_about_the_past_reaches_what_was_superseded(tmp_path):
    """A history recalls it as what it evicted, in the process that superseded it and after it is opened again."""
    question = "Who owned the vault before?"
    async with SessionMemory.open(tmp_path, sections=SPECS) as memory:
        old = memory.add("messages", "Ann owned the vault in Zurich.", key="owner")
        memory.add("messages", "Since today Bob is in charge of it.", key="owner")
        for text in seeded_texts(3, words=10):
            memory.add("messages", text)
        context = await memory.assemble_context(question, budget=1_000)
        assert context.decision(old.id).reason is Reason.RECALLED
    async with SessionMemory.open(tmp_path, sections=SPECS) as memory:
        assert old.id not in memory
        context = await memory.assemble_context(question, budget=1_000)
        assert context.decision(old.id).reason is Reason.RECALLED
        assert old.text in context.text
