"""Compressed files are skipped, and documents expand to a bounded size."""

import gzip
import io
import tracemalloc
import zipfile

import pytest

from kaosmem import SessionMemory
from kaosmem.errors import MissingFileError


def nested_zip(layers):
    data = b"0" * 10_000
    for layer in range(layers):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for copy in range(8):
                archive.writestr(f"lib {layer} {copy}.zip", data)
        data = packed.getvalue()
    return data


async def test_a_document_expands_to_so_much_at_most(tmp_path):
    """Bombs, and archives in archives, are skipped with the reason, in little memory."""
    bomb = gzip.compress(b"\0" * 20_000_000)
    contents = {
        "a.md.gz": bomb,
        "b.gz": gzip.compress(bomb),
        "c.zip": nested_zip(4),
        "d.md": bomb,
        "f.docx": zipped({"word/document.xml": b"<w/>" * 2_000_000}),
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
            "a.md.gz": "compressed",
            "b.gz": "compressed",
            "c.zip": "an archive",
            "d.md": "compressed",
            "f.docx": "too large",
        }
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def zipped(members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()
