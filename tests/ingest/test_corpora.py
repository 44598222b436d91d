"""A thousand documents from a filesystem that is no disk: read once, then only what has changed."""

from __future__ import annotations

from fsspec.implementations.dirfs import DirFileSystem

from kaosmem import SessionMemory
from kaosmem.persistence.storage.objects import IsolatedMemoryFileSystem

COUNT = 1_000


def contract(number: int, days: int) -> bytes:
    return f"# Contract {number}\n\nEither party may terminate on {days} days' notice.\n".encode()


async def test_a_thousand_documents_are_read_once_and_kept_up_to_date() -> None:
    """Progress is told for each file read; what vanished or changed stays in the archive; all else is left alone."""
    fs = IsolatedMemoryFileSystem()
    for number in range(COUNT):
        fs.pipe_file(f"/room/{number:04}.md", contract(number, 30))
    room = DirFileSystem(path="/room", fs=fs)
    memory = SessionMemory.test_mode()
    told = list[tuple[str, int, int]]()
    report = await memory.ingest(room, progress=lambda *step: told.append(step))
    assert len(report.new) == COUNT
    assert [done for _, done, _ in told] == list(range(1, COUNT + 1))
    assert {total for *_, total in told} == {COUNT}
    assert {source for source, *_ in told} == set(report.new)
    items = {item.metadata["source"]: item for item in memory["documents"]}
    assert len(items) == len(memory["documents"]) == COUNT

    told.clear()
    fs.rm_file("/room/0007.md")
    fs.pipe_file("/room/0100.md", contract(100, 90))
    fs.pipe_file("/room/1000.md", contract(1_000, 30))
    report = await memory.ingest(room, progress=lambda *step: told.append(step))
    assert (report.vanished, report.changed, report.new) == (
        ("0007.md",),
        ("0100.md",),
        ("1000.md",),
    )
    assert len(report.unchanged) == COUNT - 2
    assert {source for source, *_ in told} == {"0100.md", "1000.md"}
    assert items["0007.md"].id not in memory
    assert (await memory.fetch(items["0007.md"].id)).text == items["0007.md"].text
    context = await memory.assemble_context(
        "On how many days' notice does contract 100 terminate?", budget=200
    )
    assert "on 90 days' notice" in context.text
    assert (
        sum(
            item.metadata["source"] == "0050.md" and item is items["0050.md"]
            for item in memory["documents"]
        )
        == 1
    )
