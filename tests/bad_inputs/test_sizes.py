"""Small inputs that ask for much."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kaosmem import CorruptionError, InvalidContentError, NothingToIngestError, SectionSpec
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


async def test_bi_054_055_nothing_is_decompressed(tmp_path: Path) -> None:
    """Compressed files, bombs and archives in archives, are skipped unopened; as text they are bytes like any."""
    bomb = gzip.compress(b"\0" * 50_000_000)
    for name, data in (("a.md.gz", bomb), ("b.gz", gzip.compress(bomb)), ("c.zip", nested_zip(4)), ("d.md", bomb)):
        (tmp_path / name).write_bytes(data)
    tracemalloc.start()
    try:
        async with memory_at(tmp_path / "root") as memory:
            with pytest.raises(NothingToIngestError):
                await memory.ingest(tmp_path / "a.md.gz")
            report = await memory.ingest(tmp_path)
            assert (report.new, report.items_added) == (("d.md",), 0)
            assert {skipped.source for skipped in report.skipped} >= {"a.md.gz", "b.gz", "c.zip"}
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


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
        with pytest.raises(InvalidContentError, match="split it"):
            memory.add("documents", **given)
        memory.add("documents", "word " * 20_000, id="long", metadata={"long": "y" * 20_000_000})
        await memory.save()
    async with memory_at(tmp_path) as memory:
        assert [len(item.metadata["long"]) for item in memory["documents"]] == [20_000_000]
