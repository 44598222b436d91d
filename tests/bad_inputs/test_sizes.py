"""Small inputs that ask for much."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kaosmem import CorruptionError, InvalidArgumentError, SectionSpec, SessionMemory
from kaosmem.errors import MissingFileError
from kaosmem.sections import MAX_SECTIONS, check_specs
from tests.bad_inputs.stored import LOG, changed, ids_at, in_memory, logged, memory_at
from tests.persistence.damage.forgery import encoded, seal


def nested_zip(layers: int) -> bytes:
    data = b"0" * 10_000
    for layer in range(layers):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for copy in range(8):
                archive.writestr(f"lib {layer} {copy}.zip", data)
        data = packed.getvalue()
    return data


async def test_bi_054_055_a_compressed_file_expands_to_so_much_at_most(tmp_path: Path) -> None:
    """Bombs, and archives in archives, are skipped with the reason, in little memory."""
    bomb = gzip.compress(b"\0" * 20_000_000)
    words = gzip.compress(b"word " * 4_000_000)
    contents = {
        "a.md.gz": bomb,
        "b.gz": gzip.compress(bomb),
        "c.zip": nested_zip(4),
        "d.md": bomb,
        "e.txt.gz": words,
        "f.docx": zipped({"word/document.xml": b"<w/>" * 2_000_000}),
        "g.txt.gz": words[: len(words) // 2],
        "h.txt.bz2": bz2.compress(b"word " * 2_000_000),
        "i.txt": b"A text.",
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    tracemalloc.start()
    try:
        memory = SessionMemory.test_mode()
        with pytest.raises(MissingFileError):
            await memory.ingest(tmp_path / "a.md.gz")
        report = await memory.ingest(tmp_path)
        assert report.new == ("i.txt",)
        assert {skipped.source: skipped.reason for skipped in report.skipped} == {
            "a.md.gz": "binary",
            "b.gz": "binary",
            "c.zip": "an archive",
            "d.md": "binary",
            "e.txt.gz": "too large",
            "f.docx": "too large",
            "g.txt.gz": "too large",
            "h.txt.bz2": "too large",
        }
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()


async def test_bi_056_a_session_has_so_many_sections_at_most(tmp_path: Path) -> None:
    """More sections than a session may have are refused when they are given and when a log describes them."""
    with pytest.raises(ValueError, match=str(MAX_SECTIONS)):
        check_specs(SectionSpec(f"s{number}") for number in range(MAX_SECTIONS + 1))
    many = {f"s{number}": {"name": f"s{number}"} for number in range(MAX_SECTIONS + 1)}
    files = changed(await logged(tmp_path, "a"), 0, lambda fields: fields["d"]["sections"].update(many))
    with pytest.raises(CorruptionError, match="sections"):
        await ids_at(in_memory(files))


@pytest.mark.parametrize("seq", [10**30, 2**63 - 1, 0, -1, "1", True])
async def test_bi_057_a_snapshot_that_claims_another_record_is_passed_over(seq: object, tmp_path: Path) -> None:
    """A snapshot's number has to be that of its name; else it is damaged, and the log says all."""
    files = await logged(tmp_path, "a", "b")
    header = {"crc": "", "seq": seq, "version": 1, "chain": "00000000", "txns": [], "d": {}}
    header |= {"log": "", "purged": 0}
    snapshot = seal({f"snap/{2:020d}.jsonl": [encoded(header), encoded({"crc": "", "end": 0})]})
    async with memory_at(in_memory({**files, **snapshot}), read_only=True) as memory:
        assert [item.id for item in memory["messages"]] == ["a", "b"]
        assert any("snap/" in notice for notice in memory.notices)


async def test_bi_057_a_number_that_is_no_name_is_no_snapshot(tmp_path: Path) -> None:
    """A file in the snapshots' folder whose name has more than 20 digits is none of ours."""
    files = await logged(tmp_path, "a")
    assert await ids_at(in_memory({**files, f"snap/{10**30}.jsonl": b"{}\n"})) == ["a"]
    assert json.loads(files[LOG].split(b"\n")[0])["seq"] == 1


@pytest.mark.parametrize(
    "given",
    [
        {"content": "x", "metadata": {"nested": [[]] * 500_000}},
        {"content": "x", "metadata": {"long": ["y" * 10_000] * 2_000}},
        {"content": "x", "tags": ["z" * 10_000] * 2_000},
        {"content": [{"type": "text", "text": "t"}] * 500_000},
    ],
    ids=["containers", "metadata", "tags", "blocks"],
)
async def test_what_could_not_be_stored_is_refused_before_it_is_taken(given: dict[str, Any], tmp_path: Path) -> None:
    """An item too large for one record leaves the session as it was, and later saves work; one long text is none."""
    async with memory_at(tmp_path) as memory:
        with pytest.raises(InvalidArgumentError, match="split it"):
            memory.add("documents", **given)
        memory.add("documents", "word " * 20_000, id="long", metadata={"long": "y" * 20_000_000})
        await memory.save()
    async with memory_at(tmp_path) as memory:
        assert [len(item.metadata["long"]) for item in memory["documents"]] == [20_000_000]


@pytest.mark.parametrize("kind", ["lists", "mappings", "values"])
def test_shared_references_are_refused_before_they_are_copied(kind: str) -> None:
    """Metadata that is small in memory, and vast in JSON as its parts stand in many places, costs little time."""
    shared: Any = ["x"] * (10_000 if kind == "values" else 1)
    for _ in range(60 if kind != "values" else 1):
        shared = {"a": shared, "b": shared} if kind == "mappings" else [shared] * (1_000 if kind == "values" else 2)
    memory = SessionMemory.test_mode()
    started = time.process_time()
    with pytest.raises(InvalidArgumentError, match="shared"):
        memory.add("documents", "x", metadata={"shared": shared})
    assert time.process_time() - started < 3
    assert not list(memory["documents"])
