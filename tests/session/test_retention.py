"""Retention: items go by age, use, kind and size; what is needed stays; erasures have receipts."""

from datetime import timedelta

import pytest

from kaosmem import DEFAULT_SECTIONS, InvalidArgumentError, SessionMemory
from kaosmem.errors import ReadOnlyError
from kaosmem.formation import PatternFormer
from kaosmem.session import RetentionPolicy
from kaosmem.session.options import SessionOptions
from kaosmem.testing import paths_holding
from kaosmem.testing.contracts.store import Clock
from kaosmem.types.content import ToolResultBlock, ToolUseBlock

DAY_S = 24 * 60 * 60
MONTH = RetentionPolicy(older_than=timedelta(days=30))
ERASING = RetentionPolicy(older_than=timedelta(days=30), erase=True)


def begun():
    clock = Clock()
    return SessionMemory.test_mode(options=SessionOptions(clock=clock)), clock


def texts(memory, section="findings"):
    return [item.text for item in memory[section]]


async def credit(memory, *item_ids):
    context = await memory.assemble_context("?", budget=2_000)
    context.credit(ids=item_ids)


async def test_old_items_go_to_the_archive():
    """No context recalls them, and fetch finds them. A dry run changes nothing."""
    memory, clock = begun()
    old = memory.add("findings", "The roof is red.")
    clock.advance(31 * DAY_S)
    memory.add("findings", "The door is blue.")
    for dry_run in (True, False):
        report = await memory.admin.retain(MONTH, dry_run=dry_run)
        assert report.items == (old.id,)
        assert report.receipt is None
        assert len(memory["findings"]) == 1 + dry_run
    assert texts(memory) == ["The door is blue."]
    context = await memory.assemble_context("Which colour has the roof?", budget=500)
    assert old not in context.items
    assert (await memory.fetch(old.id)).text == old.text
    assert (await memory.admin.retain(MONTH)).items == ()


async def test_a_policy_that_erases_gives_a_receipt():
    """Archived versions are erased too."""
    memory, clock = begun()
    old = memory.add("findings", "The roof is red.")
    archived = memory.add("findings", "The wall is white.")
    memory.remove(archived.id)
    clock.advance(31 * DAY_S)
    report = await memory.admin.retain(ERASING)
    assert {*report.items} == {old.id, archived.id}
    assert report.receipt is not None
    assert await memory.admin.verify(report.receipt) == ()
    assert paths_holding(memory.admin.fs, "The roof") == []
    assert paths_holding(memory.admin.fs, "The wall") == []


async def test_use_and_verification_count_against_idleness():
    memory, clock = begun()
    used = memory.add("findings", "The roof is red.")
    confirmed = memory.add("findings", "The door is blue.")
    unused = memory.add("findings", "The wall is white.")
    clock.advance(20 * DAY_S)
    await credit(memory, used.id)
    context = await memory.assemble_context("?", budget=2_000)
    context.credit(ids=[confirmed.id], confirmed=True)
    clock.advance(20 * DAY_S)
    policy = RetentionPolicy(unused_for=timedelta(days=30))
    assert (await memory.admin.retain(policy, dry_run=True)).items == (unused.id,)


async def test_kind_narrows():
    memory, _ = begun()
    episode = memory.add("findings", "We met.", metadata={"kind": "episodic"})
    memory.add("findings", "Ann pays.", metadata={"kind": "semantic"})
    memory.add("findings", "Bob pays.")
    report = await memory.admin.retain(RetentionPolicy(kinds=("episodic",)))
    assert report.items == (episode.id,)


async def test_size_takes_the_least_important_and_oldest_first():
    memory, clock = begun()
    facts = []
    for text in ("one two three", "four five six", "seven eight nine", "ten eleven twelve"):
        facts.append(memory.add("findings", text))
        clock.advance(1 * DAY_S)
    await credit(memory, facts[0].id)
    used = memory["findings"].used
    policy = RetentionPolicy(max_tokens=used - facts[1].tokens - 1)
    report = await memory.admin.retain(policy)
    assert report.items == (facts[1].id, facts[2].id)
    assert memory["findings"].used <= used - facts[1].tokens - 1


async def test_what_is_needed_stays():
    """Pinned items, required ones, and units of which one item is not due."""
    memory, clock = begun()
    pinned = memory.add("findings", "The roof is red.", pinned=True)
    system = memory.add("role", "You are careful.", role="system")
    memory.add("messages", "Look.")
    call = memory.add("messages", (ToolUseBlock("a", "find", {}),), role="assistant")
    clock.advance(31 * DAY_S)
    waiting = await memory.admin.retain(MONTH, section="messages", dry_run=True)
    assert call.id in waiting.kept
    memory.add("messages", (ToolResultBlock("a", "done"),), role="tool")
    report = await memory.admin.retain(MONTH, section="messages")
    assert report.items == ()
    assert (await memory.admin.retain(MONTH)).kept == {pinned.id: "pinned"}
    assert (await memory.admin.retain(MONTH, section="role")).kept == {system.id: "required"}
    assert len(memory["messages"]) == 3


async def test_the_source_of_a_kept_item_is_not_erased():
    """Harm case: to erase a message would erase the fact that was formed from it."""
    memory, clock = begun()
    said = memory.add("messages", "I live in Oslo.")
    memory.add("messages", "Nothing to remember here.", id="small-talk")
    memory.add("messages", "And so on.", role="assistant")
    memory.add("messages", "Fine.")
    clock.advance(31 * DAY_S)
    (fact,) = await memory.form(PatternFormer())
    report = await memory.admin.retain(ERASING, section="messages")
    assert report.kept[said.id] == "an item that stays comes from it"
    assert "small-talk" in report.items
    assert [item.id for item in await memory.archive.expand(fact.item.id)] == [said.id]
    archived = await memory.admin.retain(MONTH, section="messages")
    assert archived.items == (said.id,)  # the archive still answers for the fact
    assert [item.id for item in await memory.archive.expand(fact.item.id)] == [said.id]
    clock.advance(31 * DAY_S)
    gone = await memory.admin.retain(ERASING)
    assert gone.items == (fact.item.id,)


@pytest.mark.parametrize(
    "stated", [None, "2019-01-01", "2030-01-01", "no date", 7, "0001-01-01T00:00"]
)
async def test_a_wrong_time_keeps_an_item(stated):
    """Harm case: an item without a time, a time of long ago or of the future, is not erased early.

    `add` refuses what is no time. A record of a file that is read may still have it.
    """
    memory, clock = begun()
    metadata = {} if stated is None else {"timestamp": stated}
    section = memory._session.writable("findings")
    item = memory._session.factory.make(section.spec, "The roof is red.", metadata=metadata)
    section.add(item)
    clock.advance(29 * DAY_S)
    assert (await memory.admin.retain(ERASING, dry_run=True)).items == ()
    clock.advance(2 * DAY_S)
    due = () if stated == "2030-01-01" else (item.id,)
    assert (await memory.admin.retain(ERASING, dry_run=True)).items == due


async def test_a_clock_in_the_past_keeps_all():
    memory, clock = begun()
    memory.add("findings", "The roof is red.")
    clock.advance(-10_000 * DAY_S)
    policies = MONTH, ERASING, RetentionPolicy(unused_for=timedelta(seconds=1))
    for policy in policies:
        assert (await memory.admin.retain(policy)).items == ()


async def test_two_workers_archive_and_erase_together(tmp_path):
    """Neither fails, and an item that one has changed meanwhile is decided anew."""
    clock = Clock()
    options = SessionOptions(clock=clock)
    async with SessionMemory.open(tmp_path, "s", options=options) as one:
        first = one.add("findings", "The roof is red.")
        second = one.add("findings", "The door is blue.")
        await one.save()
        async with SessionMemory.open(tmp_path, "s", options=options) as other:
            clock.advance(31 * DAY_S)
            one["findings"].retire([first.id, second.id], at=clock())
            other.update(second.id, "The door is green.")
            await other.save()
            await one.save()
            assert texts(one) == ["The door is green."]
            assert (await other.admin.retain(MONTH)).items == (second.id,)
            assert (await one.admin.retain(MONTH)).items == ()
            assert {*(await one.admin.retain(ERASING)).items} == {first.id, second.id}
            assert (await other.admin.retain(ERASING)).items == ()
            assert texts(one) == texts(other) == []


def test_a_policy_without_a_condition_is_refused():
    with pytest.raises(InvalidArgumentError, match="has no condition"):
        RetentionPolicy(erase=True)
    with pytest.raises(InvalidArgumentError, match="times above 0"):
        RetentionPolicy(older_than=timedelta(days=-1))
    with pytest.raises(InvalidArgumentError, match="kinds is a str"):
        RetentionPolicy(kinds="episodic")


@pytest.mark.parametrize("erase", [False, True])
async def test_a_section_retains_by_itself_at_the_end(erase):
    """A block that ends by an exception retains nothing."""
    clock = Clock()
    policy = RetentionPolicy(older_than=timedelta(days=30), erase=erase)
    sections = DEFAULT_SECTIONS.replace(findings={"retention": policy})
    options = SessionOptions(clock=clock)
    fs = SessionMemory.test_mode().admin.fs
    opening = {"sections": sections, "options": options}
    async with SessionMemory.open(fs, "s", **opening) as memory:
        old = memory.add("findings", "The roof is red.")
    clock.advance(31 * DAY_S)
    with pytest.raises(RuntimeError):
        async with SessionMemory.open(fs, "s", **opening):
            raise RuntimeError
    async with SessionMemory.open(fs, "s", **opening) as memory:
        assert texts(memory) == ["The roof is red."]
        memory.add("findings", "The door is blue.")
    async with SessionMemory.open(fs, "s", read_only=True, **opening) as memory:
        assert texts(memory) == ["The door is blue."]
        assert len(memory.archive) == 1 - erase
    assert bool(paths_holding(fs, old.text)) != erase


async def test_a_reader_may_only_rehearse():
    memory, clock = begun()
    old = memory.add("findings", "The roof is red.")
    await memory.save()
    clock.advance(31 * DAY_S)
    options = SessionOptions(clock=clock)
    async with SessionMemory.open(
        memory.admin.fs, "test", read_only=True, options=options
    ) as reader:
        assert (await reader.admin.retain(MONTH, dry_run=True)).items == (old.id,)
        with pytest.raises(ReadOnlyError):
            await reader.admin.retain(MONTH)
