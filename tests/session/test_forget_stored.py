"""Forgetting for good: what a session's files hold, whoever wrote them, whatever fails on the way."""

import asyncio

import pytest

import kaosmem.persistence.log as log_module
from kaosmem import (
    ConflictError,
    DurabilityError,
    NotFoundError,
    SectionSpec,
    SessionMemory,
    Window,
    list_sessions,
    repair_session,
)
from kaosmem.persistence.layout import FOLDERS, PURGE
from kaosmem.persistence.steps import Append, Delete, Publish, Write
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.testing import paths_holding
from tests.places import files_in
from tests.session.erasing import CANARY, LONG, SPECS, filled, opened


@pytest.mark.usefixtures("small_snapshots")
async def test_no_file_holds_what_is_forgotten(place):
    """Live or archived, long or short, derived in any step: all of it goes, and all else stays."""
    await filled(place)
    folders = {path.split("/")[-2] for path in paths_holding(place, CANARY)}
    assert folders == {"log", "snap", "archive", "index"}
    async with opened(place) as memory:
        await memory.forget("secret")
        await memory.forget("rule")
        for turn in range(8):
            await memory.forget(f"m{turn}")
            assert not paths_holding(place, f"{CANARY} said {turn}")
        assert paths_holding(place, CANARY) == []
        assert "finding" not in memory
        assert "conclusion" not in memory
    async with opened(place) as memory:
        assert memory.notices == ()
        assert [item.id for item in memory["documents"]] == ["report"]
        for turn in range(8):
            assert f"harmless {turn}" in (await memory.fetch(f"h{turn}")).text
            with pytest.raises(NotFoundError):
                await memory.fetch(f"m{turn}")
        assert (await memory.fetch("report")).text == LONG
        memory.add("messages", "life goes on")
    async with opened(place) as memory:
        assert "life goes on" in [item.text for item in memory["messages"]]
    assert await list_sessions(place) == ["default"]


@pytest.mark.usefixtures("small_snapshots")
@pytest.mark.parametrize("again", ["forget", "save", "reopen"])
@pytest.mark.parametrize(
    "kind", ["tombstone", "archive/", "snap/", "deleting log/", "deleting snap/"]
)
async def test_a_forgetting_that_fails_is_finished_later(tmp_path, failing, kind, again):
    """It is not acknowledged; once it is in the log, the next save of whoever opens the session finishes it."""

    def refused(step):
        if kind == "tombstone":
            return type(step).__name__ == "Append"
        folder = kind.removeprefix("deleting ")
        kinds = Delete if kind.startswith("deleting") else (Write, Publish)
        return isinstance(step, kinds) and step.path.startswith(folder)

    await filled(tmp_path)
    with pytest.raises(DurabilityError):
        async with opened(tmp_path) as memory:
            failing.refused = staticmethod(refused)
            try:
                await memory.forget("secret")
            except DurabilityError:
                failing.refused = staticmethod(lambda step: False)
                if again == "reopen":
                    raise
                await (memory.forget("secret") if again == "forget" else memory.save())
                assert not paths_holding(tmp_path, f"{CANARY}, version")
                raise
    async with opened(tmp_path) as memory:
        if again == "reopen" and kind == "tombstone":
            await memory.forget("secret")
        else:
            assert "secret" not in memory
            with pytest.raises(NotFoundError):
                await memory.fetch("secret")
            await memory.save()
        assert not paths_holding(tmp_path, f"{CANARY}, version", '"secret"')
        assert "h0" in {(await memory.fetch("h0")).id}


async def test_files_that_a_killed_writer_left_half_written_go_too(tmp_path):
    """They are in every folder of the session, and hold what is forgotten."""
    async with opened(tmp_path) as memory:
        memory.add("documents", CANARY, id="secret")
        await memory.save()
        for folder in FOLDERS:
            path = tmp_path / "default" / "default" / folder / ".half.jsonl.01234567.tmp"
            path.parent.mkdir(exist_ok=True)
            path.write_text(CANARY)
        await memory.forget("secret")
    assert paths_holding(tmp_path, CANARY) == []


@pytest.mark.parametrize(
    "options",
    [{}, {"window": Window("main", rebase=True), "sections": ["messages"]}],
    ids=["shown", "shown before"],
)
async def test_no_unsaved_window_brings_back_what_another_forgets(tmp_path, failing, options):
    """A writer saves between the tombstone and the erasure: no turn with the text reaches the log."""
    async with opened(tmp_path) as memory:
        memory.add("documents", CANARY, id="secret")
        await memory.save()
        async with opened(tmp_path) as other:
            other.add("messages", "What is the word?", role="user")
            first = await other.assemble_context(budget=2_000, format="openai", window="main")
            assert CANARY in str(first.messages)
            await other.assemble_context(
                **{"budget": 2_000, "format": "openai", "window": "main", **options}
            )
            failing.refused = staticmethod(
                lambda step: isinstance(step, Write) and step.path == PURGE
            )
            with pytest.raises(DurabilityError):
                await memory.forget("secret")
            failing.refused = staticmethod(lambda step: False)
            await other.save()
            again = await other.assemble_context(budget=2_000, format="openai", window="main")
            assert again.rebased == "forgotten"
            assert CANARY not in str(again.messages)
        await memory.save()
    assert paths_holding(tmp_path, CANARY) == []


@pytest.mark.usefixtures("small_snapshots")
async def test_an_evicted_item_is_not_recalled_while_its_erasure_is_unfinished(tmp_path, failing):
    """The archive files still have its text: it is shown to nobody, and no index that is stored again knows its words.

    Another item in the same files is recalled.
    """
    specs = (SectionSpec("findings", budget=60, eviction="fifo", recall=0.5),)
    async with SessionMemory.open(tmp_path, sections=specs) as memory:
        for number, word in enumerate(["the wanted", CANARY, *["filler"] * 20]):
            memory.add("findings", f"{word} number {number}", id=f"f{number}")
        await memory.save()
        memory.search("number")
    failing.refused = staticmethod(lambda step: isinstance(step, Write) and step.path == PURGE)
    texts = []
    with pytest.raises(DurabilityError):
        async with SessionMemory.open(tmp_path, sections=specs) as memory:
            with pytest.raises(DurabilityError):
                await memory.forget("f1")
            texts.append((await memory.assemble_context(f"wanted {CANARY}", budget=4_000)).text)
    failing.refused = staticmethod(lambda step: False)
    for read_only in (True, False):
        async with SessionMemory.open(tmp_path, sections=specs, read_only=read_only) as memory:
            texts.append((await memory.assemble_context(f"wanted {CANARY}", budget=4_000)).text)
    assert all("wanted" in text and CANARY not in text for text in texts)
    assert not paths_holding(tmp_path, CANARY)


async def test_a_writer_that_was_open_finishes_what_another_left(tmp_path, failing):
    """An erasure fails at its last step.

    The next save of a session that was open before finishes it.
    """
    await filled(tmp_path)
    async with opened(tmp_path) as memory:
        failing.refused = staticmethod(lambda step: step == Delete(PURGE, at_once=True))
        with pytest.raises(DurabilityError):
            async with opened(tmp_path) as other:
                await other.forget("secret")
        failing.refused = staticmethod(lambda step: False)
        memory.add("documents", "another", id="another")
        await memory.save()
        assert not [*tmp_path.rglob(PURGE)]
        assert not paths_holding(tmp_path, f"{CANARY}, version")


async def test_a_session_with_nothing_left_is_still_there(place):
    """Its log is empty, its snapshot says what was forgotten, and it can be gone on with and deleted."""
    async with opened(place) as memory:
        memory.add("documents", CANARY, id="only")
        await memory.forget("only")
    assert paths_holding(place, CANARY) == []
    assert await list_sessions(place) == ["default"]
    async with opened(place) as memory:
        with pytest.raises(NotFoundError):
            await memory.forget("only")
        with pytest.raises(NotFoundError, match="forgotten"):
            memory.add("findings", "as it said", sources=["only"])
        memory.add("documents", "another of this name", id="only")
    async with opened(place) as memory:
        assert (await memory.fetch("only")).text == "another of this name"
        memory.remove("only")
        await memory.save()
        await memory.forget("only")
        with pytest.raises(NotFoundError):
            await memory.fetch("only")


@pytest.mark.usefixtures("small_snapshots")
async def test_other_writers_go_on_without_it(place):
    """A writer that has the item still loses it with its next save, and nothing else."""
    await filled(place)
    async with opened(place) as one, opened(place) as other:
        other.add("findings", "of my own", id="mine")
        await one.forget("secret")
        await one.forget("m7")
        one.add("messages", "after it")
        await one.save()
        await other.save()
        assert "secret" not in other
        assert "mine" in other
        assert [item.text for item in other["messages"]][-1] == "after it"
        other.add("findings", "more", id="more")
        await other.save()
        await one.save()
    async with opened(place) as memory:
        assert {item.id for item in memory["findings"]} == {"mine", "more"}
    assert not paths_holding(place, f"{CANARY}, version")
    assert not paths_holding(place, f"{CANARY} said 7")


async def test_a_tombstone_is_in_the_log_though_another_committed_first(place):
    """Nothing locks object stores: what another erases at the same record would bring the item back."""
    async with SessionMemory.open(place) as memory:
        memory.add("documents", "A retired clause.", id="retired")
        memory.add("documents", "A wrong clause.", id="wrong")
        memory.remove("retired")
        await memory.save()
        before = await memory.forget("wrong")  # from now on, only an archive file holds the other
    async with SessionMemory.open(place) as one, SessionMemory.open(place) as other:
        one.add("documents", "Another clause.")
        await one.save()
        receipt = await other.forget("retired")
    assert receipt.record == before.record + 2
    assert not paths_holding(place, "A retired clause.")


async def test_what_is_derived_elsewhere_meanwhile_is_refused(place):
    """A finding from an item that another writer has forgotten is not stored."""
    async with opened(place) as memory:
        memory.add("documents", CANARY, id="secret")
    with pytest.raises(ConflictError, match="forgotten"):
        async with opened(place) as other:
            other.add("findings", f"{CANARY} it says", sources=["secret"])
            async with opened(place) as one:
                await one.forget("secret")
    assert paths_holding(place, CANARY) == []


async def test_a_store_that_cannot_delete_does_not_forget(monkeypatch):
    """The call raises, as the text is still there."""

    def rm_file(path):
        raise NotImplementedError

    place = IsolatedMemoryFileSystem()
    async with opened(place) as memory:
        memory.add("documents", f"{CANARY} {LONG}", id="secret")
        await memory.save()
        monkeypatch.setattr(place, "rm_file", rm_file)
        with pytest.raises(DurabilityError):
            await memory.forget("secret")
        monkeypatch.undo()
        await memory.save()
    assert paths_holding(place, CANARY) == []


def _is_tombstone(step):
    return isinstance(step, Append) and b'"op":"forget"' in step.data


async def test_what_is_asked_for_while_a_tombstone_is_written_is_forgotten_too(tmp_path, failing):
    """Two may be forgotten at once, the second while the disk is at work on the first."""
    loop = asyncio.get_running_loop()
    asked = []

    async def forget_second():
        asked.append(asyncio.create_task(memory.forget("second")))
        await asyncio.sleep(0)  # until it waits for its turn

    def ask(step):
        if _is_tombstone(step) and not asked:
            asyncio.run_coroutine_threadsafe(forget_second(), loop).result(30)
        return False

    async with opened(tmp_path) as memory:
        memory.add("documents", CANARY, id="first")
        memory.add("documents", f"more {CANARY}", id="second")
        await memory.save()
        failing.refused = staticmethod(ask)
        await memory.forget("first")
        await asyncio.gather(*asked)
        assert list(memory["documents"]) == []
        assert paths_holding(tmp_path, CANARY) == []


async def test_forgetting_before_anything_is_stored_ends(place):
    """There is no file to rewrite, and none is made. The receipt has record 0, and holds."""
    async with SessionMemory.open(
        place, sections=[SectionSpec("scratch", persistence="none")]
    ) as memory:
        memory.add("scratch", CANARY, id="note")
        receipt = await asyncio.wait_for(memory.forget("note"), 30)
        assert len(memory["scratch"]) == 0
        assert (receipt.record, receipt.files) == (0, ())
        assert await memory.admin.verify(receipt) == ()
    assert files_in(place) == {}


async def test_the_newest_version_stays_the_newest(place, monkeypatch):
    """What was archived, and archived again alike, is found as it last was when something else is forgotten.

    Each version says when it left, so that no two of them are one.
    """
    async with opened(place) as memory:
        memory.add("documents", "first", id="plan")
        memory.add("documents", CANARY, id="secret")
        await memory.save()
        monkeypatch.setattr(log_module, "MIN_LOG_BYTES", 1)
        memory.update("plan", "second")
    monkeypatch.setattr(log_module, "MIN_LOG_BYTES", 2**20)
    async with opened(place) as memory:
        memory.update("plan", "first")
        memory.remove("plan")
        await memory.forget("secret")
        assert (await memory.fetch("plan")).text == "first"
    async with opened(place) as memory:
        assert (await memory.fetch("plan")).text == "first"
        assert len(memory["documents"].archive) == 3
    assert (await repair_session(place, "default")).damage == ()


async def test_unknown_items_and_read_only_sessions_are_refused(place):
    """Nothing is written by a forgetting that means nothing."""
    async with opened(place) as memory:
        memory.add("documents", "a contract", id="contract")
    before = files_in(place)
    async with opened(place) as memory:
        with pytest.raises(NotFoundError):
            await memory.forget("nothing")
    async with SessionMemory.open(place, sections=SPECS, read_only=True) as memory:
        with pytest.raises(PermissionError):
            await memory.forget("contract")
    assert files_in(place) == before
