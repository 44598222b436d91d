"""What was evicted stays known without its text, which is read from its archive file when it is proposed."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.corpus import seeded_texts
from kaosmem import Reason, SectionSpec, SessionMemory, ToolResultBlock, ToolUseBlock
from kaosmem.errors import CorruptionError
from kaosmem.persistence import log as session_log
from kaosmem.persistence.layout import ARCHIVE
from kaosmem.persistence.steps import Read
from kaosmem.persistence.storage.local import LocalStorage
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.sections import lazy_index
from kaosmem.sections.archive import EvictedItem
from tests.places import files_in, fill_once, put

SPEC = SectionSpec("messages", 400, placement="history", recall=0.5, retrieval_threshold=5)
FACT = "The vault code of the Zurich office is 4711."
QUESTION = "What is the vault code in Zurich?"
OTHER_QUESTION = "For spardthongation boutment gloasslugbuxity"  # the words of the first text
TURNS = 400


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Snapshots come early, and indexes are kept of small sections."""
    monkeypatch.setattr(session_log, "MIN_LOG_BYTES", 1_000)
    monkeypatch.setattr(lazy_index, "MIN_STORED", 50)


def opened(place, **options):
    return SessionMemory.open(place, "s", sections=(SPEC,), **options)


async def filled(place):
    await fill_once(place, fill)


async def fill(place):
    """Store a session that was told a fact and then so much else, some of it as calls, and has ranked it."""
    async with opened(place) as memory:
        memory.add("messages", FACT, id="fact")
        for number, text in enumerate(seeded_texts(TURNS, words=12)):
            if number % 50 == 7:
                memory.add(
                    "messages",
                    [ToolUseBlock(f"c{number}", "f")],
                    id=f"call{number}",
                    role="assistant",
                )
                memory.add(
                    "messages",
                    [ToolResultBlock(f"c{number}", text)],
                    id=f"result{number}",
                    role="tool",
                )
            else:
                memory.add("messages", text, id=f"m{number}")
            if number % 150 == 99:
                await memory.save()
                await (
                    memory._session.saver._checkpoints.finished()
                )  # or the last save may find one under way
        await memory.assemble_context(QUESTION, budget=1_000)


def shown(context):
    return {
        decision.item_id for decision in context.decisions if decision.reason is Reason.RECALLED
    }


def unread(memory):
    """Return what of the section's past is known without its text."""
    evicted = memory["messages"].held.evicted
    return [item for item in evicted.values() if isinstance(item, EvictedItem)]


@pytest.fixture
def reads(monkeypatch):
    """Return what is read of archive files on the local disk, as it is read."""
    perform = LocalStorage.perform
    seen = []

    def noting(self, step):
        paths = (
            {step.path}
            if isinstance(step, Read)
            else {part[0] for part in getattr(step, "parts", ())}
        )
        if any(path.startswith(ARCHIVE) for path in paths):
            seen.append(step)
        return perform(self, step)

    monkeypatch.setattr(LocalStorage, "perform", noting)
    return seen


async def test_a_text_that_is_not_proposed_is_not_read(tmp_path, reads):
    """A session opens, ranks and recalls by what its archive files say at their ends.

    A text is read once in a row.
    """
    await filled(tmp_path)
    archives = list(tmp_path.rglob(f"{ARCHIVE}/*.jsonl"))
    reads.clear()
    async with opened(tmp_path) as memory:
        assert all(size <= len('{"crc":"01234567",') for step in reads for _, _, size in step.parts)
        reads.clear()
        context = await memory.assemble_context(QUESTION, budget=1_000)
        assert "fact" in shown(context)
        texts = len(reads) - len(archives)
        assert len(shown(context)) <= texts < len(unread(memory)) / 4
        reads.clear()
        assert (await memory.assemble_context(QUESTION, budget=1_000)).text == context.text
        assert reads == []
        await memory.assemble_context("zzyzx", budget=1_000)
        assert memory["messages"].held.texts.keys() <= {each.position for each in unread(memory)}


async def test_a_snapshot_takes_the_texts_out_of_memory(place):
    """What a process has evicted itself is read back from the archive as what an earlier one has."""
    async with opened(place) as memory:
        memory.add("messages", FACT, id="fact")
        for text in seeded_texts(TURNS, words=12):
            memory.add("messages", text)
        before = await memory.assemble_context(QUESTION, budget=1_000)
        assert unread(memory) == []
        await memory.save()
        await memory._session.saver._checkpoints.finished()
        assert len(unread(memory)) == len(memory["messages"].held.evicted) > TURNS / 2
        after = await memory.assemble_context(QUESTION, budget=1_000)
        assert "fact" in shown(after)
        assert after.text == before.text


def stored_line(place, found):
    """Return the archive file that holds these bytes, and where."""
    return next((path, data.find(found)) for path, data in archives(place).items() if found in data)


def archives(place):
    return {path: data for path, data in files_in(place).items() if f"/{ARCHIVE}/" in path}


def flipped(data, at):
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_damaged_line_costs_its_item_alone(place, read_only):
    """It is said once, and what else was evicted is recalled."""
    await filled(place)
    path, at = stored_line(place, FACT.encode())
    put(place, {path: flipped(archives(place)[path], at)})
    async with opened(place, read_only=read_only) as memory:
        assert memory.damage == ()
        for _ in range(2):
            context = await memory.assemble_context(QUESTION, budget=1_000)
            assert "fact" not in shown(context)
            assert shown(await memory.assemble_context(OTHER_QUESTION, budget=1_000))
            (notice,) = memory.notices
            assert notice.startswith("what was evicted earlier cannot be recalled: 'archive/")
            assert [error.file for error in memory.damage] == [
                re.findall("archive/.*jsonl", path)[0]
            ]
            assert "vault" not in notice


async def test_a_line_of_another_item_is_damage(tmp_path):
    """Whole lines that changed places are not taken for one another."""
    await filled(tmp_path)
    path, _ = stored_line(tmp_path, FACT.encode())
    head, first, second, *rest = archives(tmp_path)[path].split(b"\n")
    assert FACT.encode() in first
    moved = b"\n".join([head, second[: len(first)].ljust(len(first)), first, *rest])
    async with opened(tmp_path) as memory:
        await memory.assemble_context("zzyzx", budget=1_000)
        put(tmp_path, {path: moved})
        assert "fact" not in shown(await memory.assemble_context(QUESTION, budget=1_000))
        assert len(memory.damage) == 1


async def test_an_archive_file_that_is_missing_costs_what_it_held(place):
    """It may vanish while the session is open: another may have forgotten something."""
    await filled(place)
    async with opened(place) as memory:
        assert "fact" in shown(await memory.assemble_context(QUESTION, budget=1_000))
        path, _ = stored_line(place, FACT.encode())
        put(place, {path: None})
        memory["messages"].held.texts.clear()
        context = await memory.assemble_context(QUESTION, budget=1_000)
        is_copied = not isinstance(place, Path)
        assert ("fact" in shown(context)) == is_copied
        assert all("is missing" in notice for notice in memory.notices)
        assert bool(memory.notices) != is_copied
    with pytest.raises(CorruptionError, match=r"archive/.* is missing"):
        async with opened(place):
            pass
    async with opened(place, read_only=True) as memory:
        assert any("is missing" in str(error) for error in memory.damage)
        assert "fact" not in shown(await memory.assemble_context(QUESTION, budget=1_000))


async def test_an_archive_that_says_nothing_at_its_end_is_read_whole(place, monkeypatch):
    """The table of a very large file is too long for a line; what is recalled is the same."""
    usual = IsolatedMemoryFileSystem()
    await filled(usual)
    async with opened(usual) as memory:
        expected = await memory.assemble_context(QUESTION, budget=1_000)
    monkeypatch.setattr("kaosmem.persistence.files.contents._MAX_BYTES", 0)
    await fill(place)
    async with opened(place) as memory:
        context = await memory.assemble_context(QUESTION, budget=1_000)
        assert context.text == expected.text
        assert len(unread(memory)) > TURNS / 2


async def test_an_index_that_is_lost_is_made_from_the_archive(place):
    """What was evicted is read some at a time, put into the index, and let go of."""
    await filled(place)
    async with opened(place) as memory:
        expected = await memory.assemble_context(QUESTION, budget=1_000)
        assert "fact" in shown(expected)
    put(place, {path: None for path in files_in(place) if "/index/" in path})
    async with opened(place) as memory:
        context = await memory.assemble_context(QUESTION, budget=1_000)
        assert context.text == expected.text
        assert len(memory["messages"].held.texts) < TURNS / 4


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["say"] * 5 + ["call", "update", "remove", "forget", "save", "ask", "open"]
        ),
        st.integers(0, 10**6),
    ),
    min_size=20,
    max_size=80,
)


@given(
    placement=st.sampled_from(["history", "query"]),
    steps=STEPS,
    log_bytes=st.sampled_from([1_000, 10**6]),
)
@settings(max_examples=6 * settings().max_examples // 5)
def test_a_session_recalls_as_one_that_holds_all_in_memory(placement, steps, log_bytes):
    """Whatever was evicted, forgotten, saved and opened again between, contexts are the same byte for byte."""
    spec = replace(SPEC, budget=120, placement=placement, retrieval_threshold=3)
    before = session_log.MIN_LOG_BYTES, lazy_index.MIN_STORED
    session_log.MIN_LOG_BYTES = log_bytes
    lazy_index.MIN_STORED = 5
    try:
        asyncio.run(_alike((spec,), steps))
    finally:
        session_log.MIN_LOG_BYTES, lazy_index.MIN_STORED = before


async def _alike(specs, steps):
    plain = SessionMemory.test_mode(sections=specs)  # never saved: all is in its memory
    fs = IsolatedMemoryFileSystem()
    texts = seeded_texts(300, words=8)
    ids = []
    opening = SessionMemory.open(fs, "s", sections=specs)
    memory = await opening.__aenter__()
    for number, (step, value) in enumerate([*steps, ("open", 0), ("ask", 7)]):
        text = texts[value % 300]
        live = [item.id for item in plain["messages"]]
        match step:
            case "say":
                for each in (plain, memory):
                    each.add("messages", text, id=f"{number}")
                ids.append(f"{number}")
            case "call":
                for each in (plain, memory):
                    each.add(
                        "messages",
                        [ToolUseBlock(f"c{number}", "f")],
                        id=f"{number}",
                        role="assistant",
                    )
                    each.add(
                        "messages",
                        [ToolResultBlock(f"c{number}", text)],
                        id=f"{number}r",
                        role="tool",
                    )
                ids += [f"{number}", f"{number}r"]
            case "update" if live and "r" not in (chosen := live[value % len(live)]):
                for each in (plain, memory):
                    each.update(chosen, text)
            case "remove" if live:
                for each in (plain, memory):
                    each.remove(live[value % len(live)])
            case "forget" if ids:
                gone = ids.pop(value % len(ids))
                plain["messages"].drain_journal()
                plain["messages"].forget((gone,))
                await memory.forget(gone)
            case "save":
                await memory.save()
            case "ask":
                for query in (text, "zzyzx"):
                    context = await memory.assemble_context(query, budget=250)
                    expected = await plain.assemble_context(query, budget=250)
                    assert context.text == expected.text
                    assert [d.reason for d in context.decisions] == [
                        d.reason for d in expected.decisions
                    ]
            case "open":
                await opening.__aexit__(None, None, None)
                opening = SessionMemory.open(fs, "s", sections=specs)
                memory = await opening.__aenter__()
    assert memory.notices == ()
    await opening.__aexit__(None, None, None)


def test_a_filter_refuses_evicted_items_of_two_sections(tmp_path):
    """The call ends, although one section has read the evicted item before and the other has not."""
    specs = [SectionSpec(name, retrieval_threshold=0) for name in ("addresses", "phones")]
    question = "What did Ann have before?"

    async def ask():
        async with SessionMemory.open(tmp_path, "s", sections=specs) as memory:
            for spec in specs:
                for source in ("old.md", "new.md"):
                    memory.add(
                        spec.name,
                        f"Ann has {spec.name} of {source}.",
                        key="ann",
                        metadata={"source": source},
                    )
        async with SessionMemory.open(tmp_path, "s", sections=specs) as memory:
            both = await memory.assemble_context(question, budget=1_000, sections=["addresses"])
            assert len(both.items) == 2
            call = memory.assemble_context(question, budget=1_000, filter={"source": "new.md"})
            return await asyncio.wait_for(call, timeout=30)

    assert [item.metadata["source"] for item in asyncio.run(ask()).items] == ["new.md", "new.md"]
