"""Forgetting for good: what a session's files hold, whoever wrote them, whatever fails on the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kaosmem import (
    DurabilityError,
    NotFoundError,
    SectionSpec,
    SessionMemory,
    Window,
    list_sessions,
)
from kaosmem.persistence.layout import FOLDERS, PURGE
from kaosmem.persistence.steps import Delete, Publish, Step, Write
from kaosmem.testing import paths_holding
from tests.session.erasing import CANARY, LONG, Failing, filled, opened


@pytest.mark.usefixtures("small_snapshots")
async def test_no_file_holds_what_is_forgotten(place: Any) -> None:
    """Live or archived, long or short, derived in any step: all of it goes, and all else stays."""
    await filled(place)
    assert (
        len({path.split("/")[-2] for path in paths_holding(place, CANARY)}) == 5
    )  # log, snap, archive, blob, index
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
    "kind", ["tombstone", "archive/", "snap/", "deleting log/", "deleting snap/", "deleting blob/"]
)
async def test_a_forgetting_that_fails_is_finished_later(
    tmp_path: Path, failing: type[Failing], kind: str, again: str
) -> None:
    """It is not acknowledged; once it is in the log, the next save of whoever opens the session finishes it."""

    def refused(step: Step) -> bool:
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


@pytest.mark.usefixtures("small_snapshots")
async def test_a_snapshot_beside_an_unfinished_erasure_hides_nothing_of_it(
    tmp_path: Path, failing: type[Failing]
) -> None:
    """A forgetter is killed after its tombstone.

    Another writer goes on and saves. The next to open erases all.
    """
    await filled(tmp_path)
    async with opened(tmp_path) as memory:
        failing.refused = staticmethod(lambda step: isinstance(step, Write) and step.path == PURGE)
        with pytest.raises(DurabilityError):
            async with opened(tmp_path) as other:
                await other.forget("secret")
        failing.refused = staticmethod(lambda step: False)
        for number in range(4):
            memory.add("documents", f"another {number} " * 900, id=f"another-{number}")
            await memory.save()
    async with opened(tmp_path) as memory:
        with pytest.raises(NotFoundError):
            await memory.fetch("secret")
    assert not paths_holding(tmp_path, f"{CANARY}, version")


async def test_files_that_a_killed_writer_left_half_written_go_too(tmp_path: Path) -> None:
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
async def test_no_unsaved_window_brings_back_what_another_forgets(
    tmp_path: Path, failing: type[Failing], options: Mapping[str, Any]
) -> None:
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
async def test_an_evicted_item_is_not_recalled_while_its_erasure_is_unfinished(
    tmp_path: Path, failing: type[Failing]
) -> None:
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


async def test_a_writer_that_was_open_finishes_what_another_left(
    tmp_path: Path, failing: type[Failing]
) -> None:
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
