"""The receipt of an erasure: it names what was erased, and says later whether that still holds."""

import json
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from kaosmem import (
    DurabilityError,
    InvalidArgumentError,
    SessionMemory,
    SessionOptions,
)
from kaosmem.errors import SourceError
from kaosmem.persistence.erasure import _items_in
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem
from kaosmem.session import ErasureReceipt
from kaosmem.testing import paths_holding
from tests.places import files_in, put
from tests.session.erasing import CANARY, filled, opened
from tests.session.notes import ErasableNotes, Notes

SESSION = "default/default"


def files(place):
    return files_in(place, SESSION)


async def verified(place, receipt):
    """Verify a receipt in a session that is opened anew for it."""
    async with SessionMemory.open(place, read_only=True) as memory:
        return await memory.admin.verify(receipt)


@pytest.mark.usefixtures("small_snapshots")
async def test_a_receipt_names_items_derived_items_windows_and_files(place):
    """It is frozen, survives JSON, holds no text, and holds for as long as the session goes on."""
    await filled(place)
    async with opened(place) as memory:
        await memory.assemble_context(CANARY, budget=60_000, window="main")
        await memory.save()
        await memory._session.saver._checkpoints.finished()  # a snapshot deletes older files, too
        before = files(place)
        receipt = await memory.forget("secret", "rule")
        assert (receipt.items, receipt.derived) == (("secret", "rule"), ("conclusion", "finding"))
        assert receipt.windows == ("main",)
        assert {path.split("/")[0] for path in receipt.files} == {
            "log",
            "snap",
            "archive",
            "index",
        }
        left = {path for path, data in files(place).items() if data}
        deleted = {path for path in before.keys() - left if not path.startswith(("index/", "lock"))}
        assert deleted <= {*receipt.files}
        assert not left & {*receipt.files}
        assert await memory.admin.verify(receipt) == ()
    stored = json.dumps(receipt.to_dict())
    assert CANARY not in stored
    assert ErasureReceipt.from_dict(json.loads(stored)) == receipt
    with pytest.raises(AttributeError):
        receipt.record = 0
    for turn in range(12):
        async with opened(place) as memory:
            memory.add("documents", f"life goes on {turn} " * 200)
            memory.add(
                "findings",
                "another finding of this name",
                id=f"finding-{turn}" if turn else "finding",
            )
            await memory.assemble_context("life", budget=60_000, window="main")
        assert await verified(place, receipt) == ()


@pytest.mark.usefixtures("small_snapshots")
async def test_each_file_that_comes_back_is_named(place):
    """A file from a copy is found, whichever it is; so is a session that is brought back as a whole.

    A server may carry out a request long after its client gave up: the next save erases its file.
    """
    is_served = isinstance(place, IsolatedMemoryFileSystem)
    await filled(place)
    before = files(place)
    async with opened(place) as memory:
        receipt = await memory.forget("secret", "rule")
    after = files(place)
    assert {path.split("/")[0] for path in receipt.files} == {
        "log",
        "snap",
        "archive",
        "index",
    }
    for path in receipt.files:
        put(place, {path: before.get(path, CANARY.encode())}, SESSION)
        assert any(path in reason for reason in await verified(place, receipt)), path
        if is_served:
            async with opened(place):
                pass
            assert not files(place).get(path), path
        else:
            put(place, {path: after.get(path)}, SESSION)
        assert await verified(place, receipt) == ()
    put(place, {"log/.probe-0123456789abcdef": b"1"}, SESSION)  # its writer was killed
    assert await verified(place, receipt) == ()
    assert paths_holding(place, f"{CANARY}, version") == []
    put(place, dict.fromkeys(files(place)), SESSION)
    put(place, before, SESSION)
    assert any("older copy" in reason for reason in await verified(place, receipt))


async def test_an_item_that_is_still_there_is_named(place):
    """In the log, in an archive and in a snapshot, and what was derived from it; a later one of its name is another."""
    async with opened(place) as memory:
        memory.add("documents", "a contract", id="contract")
        memory.add("findings", "a finding", id="finding", sources=["contract"])
        memory.add("documents", "a draft", id="draft")
        receipt = await memory.forget("draft")
        memory.add("documents", "another draft", id="draft")
        await memory.save()
        assert await memory.admin.verify(receipt) == ()
        for named in ("items", "derived", "finished"):
            of = ErasureReceipt.from_dict({**receipt.to_dict(), named: ["contract"]})
            reasons = await memory.admin.verify(of)
            assert len(reasons) == 2
            assert "holds item 'contract'" in reasons[0]
            assert "holds item 'finding', derived from 'contract'" in reasons[1]
        await memory.assemble_context(budget=1_000, window="main")
        await memory.save()
        assert any(
            "holds a window that shows item 'contract'" in reason
            for reason in await memory.admin.verify(of)
        )


async def test_a_clock_ahead_makes_no_later_item_an_erased_one(place):
    """A machine whose clock is a day ahead erases; another adds an item of that id, and derives from it."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    ahead = count()
    behind = count()
    async with opened(
        place, options=SessionOptions(clock=lambda: now + timedelta(days=1, seconds=next(ahead)))
    ) as memory:
        memory.add("documents", "a contract", id="contract")
        memory.add("findings", "a finding", id="finding", sources=["contract"])
        await memory.save()
        receipt = await memory.forget("contract")
        assert {*receipt.created_at} == {"contract", "finding"}
    async with opened(
        place, options=SessionOptions(clock=lambda: now + timedelta(seconds=next(behind)))
    ) as memory:
        memory.add("documents", "another contract", id="contract")
        memory.add("findings", "another finding", id="later", sources=["contract"])
        await memory.assemble_context(budget=1_000, window="main")
        await memory.save()
        assert await memory.admin.verify(receipt) == ()
        stored = receipt.to_dict()
        assert ErasureReceipt.from_dict(json.loads(json.dumps(stored))) == receipt
        times = {"contract": [memory.get("contract").created_at.isoformat()]}
        erased = ErasureReceipt.from_dict(
            {**stored, "created_at": times}
        )  # the very item, as if it had stayed
        assert any(
            "holds item 'contract'" in reason for reason in await memory.admin.verify(erased)
        )


def test_an_item_is_found_wherever_a_record_holds_it():
    """By itself, in a list of versions, and in a part of a change; not in the contents that a caller gave."""
    item = {"id": "a", "created_at": "2024-01-01T00:00:00+00:00"}
    held = {**item, "content": [{**item, "id": "b"}], "metadata": {"of": {**item, "id": "c"}}}
    for record in (
        held,
        {"item": held},
        {"versions": [{"item": held, "ordinal": 1}]},
        {"d": {"items": [[0, held]]}},
    ):
        assert [each["id"] for each in _items_in(record)] == ["a"]


async def test_the_receipt_of_another_session_is_refused(place):
    """As is anything that is no receipt; a session made anew has another log."""
    async with opened(place) as memory:
        memory.add("documents", "a contract", id="contract")
        receipt = await memory.forget("contract")
    async with SessionMemory.open(place, "other") as memory:
        with pytest.raises(InvalidArgumentError, match="'default'"):
            await memory.admin.verify(receipt)
    stored = receipt.to_dict()
    naive = {"created_at": {"contract": ["2024-01-01"]}}
    for wrong in (
        {},
        {**stored, "old_versions": "no"},
        stored | naive,
        {**stored, "record": "8"},
        {**stored, "at": "today"},
        {**stored, "items": [1]},
    ):
        with pytest.raises(InvalidArgumentError, match="no receipt"):
            ErasureReceipt.from_dict(wrong)
    put(place, dict.fromkeys(files(place)), SESSION)
    async with opened(place) as memory:
        memory.add("documents", "a contract", id="contract")
        memory.add("documents", "another", id="another")
        await memory.save()
        assert await memory.admin.verify(receipt)
        await memory.forget("another")
        assert "another log" in (await memory.admin.verify(receipt))[0]


async def test_attached_sources_are_named_and_asked(tmp_path):
    """A source that holds the item again, and one that is not attached, are reasons; so is one that can't forget."""
    notes = ErasableNotes(note="1", other="2")
    fixed = Notes(other="2")
    async with opened(tmp_path) as memory:
        await memory.attach(notes, name="notes")
        memory.add("documents", "as the note says", id="note")
        receipt = await memory.forget("note")
        assert receipt.sources == {"notes": ("note",)}
        assert await memory.admin.verify(receipt) == ()
        notes.notes["note"] = notes.notes["other"]
        assert await memory.admin.verify(receipt) == ("source 'notes' holds item 'note'",)
        await memory.attach(fixed, name="fixed")
        memory.add("documents", "as the other note says", id="other")
        with pytest.raises(SourceError) as caught:
            await memory.forget("other")
        assert caught.value.sources == ("fixed",)
        assert caught.value.receipt.sources == {"notes": ("other",)}
    assert await verified(tmp_path, receipt) == (
        "source 'notes' is not attached; attach it, or give its FactShelf to a plan, to have it "
        "asked",
    )


@pytest.mark.usefixtures("small_snapshots")
async def test_the_next_receipt_names_what_a_failed_call_had_begun(tmp_path, failing):
    """A call that fails gives no receipt.

    Once a save has finished it, the next receipt names its items too.
    """
    await filled(tmp_path)
    async with opened(tmp_path) as memory:
        failing.refused = staticmethod(lambda step: type(step).__name__ == "Delete")
        with pytest.raises(DurabilityError):
            await memory.forget("secret")
        failing.refused = staticmethod(lambda step: False)
        await memory.save()
        receipt = await memory.forget("rule")
        assert receipt.items == ("rule",)
        assert receipt.derived == ("conclusion", "finding")
        assert receipt.finished == ("secret",)
        assert await memory.admin.verify(receipt) == ()
