"""Links, FIFOs and devices in the place of a session's files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from kaosmem import CorruptionError, delete_session
from tests.bad_inputs.stored import everything_in, folder_of, ids_at, memory_at, segment_of, session


async def test_bi_025_a_linked_segment_is_refused(tmp_path: Path) -> None:
    """A link in a segment's place is neither read nor written through, to open, to save, or to delete."""
    root, target = tmp_path / "root", tmp_path / "passwd"
    await session(root, "a")
    target.write_bytes(segment_of(root).read_bytes())
    before = target.read_bytes()
    segment_of(root).unlink()
    (folder_of(root) / "log" / f"{1:020d}.jsonl").symlink_to(target)
    for read_only in (False, True):
        with pytest.raises(CorruptionError, match="link"):
            async with memory_at(root, read_only=read_only) as memory:
                assert list(memory["messages"]) == []
                raise CorruptionError("a link was passed over")
    with suppress(CorruptionError):
        await delete_session(root, "s")
    assert target.read_bytes() == before


async def test_bi_026_a_linked_folder_is_refused_and_a_linked_root_is_not(tmp_path: Path) -> None:
    """A session's folder that is a link out of the root is refused; the root may be a link."""
    real = tmp_path / "real"
    await session(real, "a")
    (tmp_path / "link").symlink_to(real)
    assert await ids_at(tmp_path / "link") == ["a"]
    root = tmp_path / "root"
    (root / "default").mkdir(parents=True)
    (root / "default" / "s").symlink_to(folder_of(real))
    before = everything_in(real)
    with pytest.raises(CorruptionError):
        await session(root, "b")
    assert everything_in(real) == before


@pytest.mark.parametrize("kind", ["link", "fifo", "device"])
async def test_bi_027_a_blob_is_a_regular_file(kind: str, tmp_path: Path) -> None:
    """A link, FIFO or device in the place of a long text's file is refused, without waiting for what it will say."""
    root, text = tmp_path / "root", "long text " * 10_000
    async with memory_at(root) as memory:
        memory.add("documents", text, id="long")
    (blob,) = (folder_of(root) / "blob").iterdir()
    (tmp_path / "target").write_bytes(blob.read_bytes())
    blob.unlink()
    if kind == "link":
        blob.symlink_to(tmp_path / "target")
    elif kind == "fifo":
        os.mkfifo(blob)
    else:
        blob.symlink_to("/dev/zero")
    with pytest.raises(CorruptionError):
        async with memory_at(root) as memory:
            assert (await memory.fetch("long")).text == text
            raise AssertionError("what is no file was read")
