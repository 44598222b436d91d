"""A corpus of documents: ingested once, asked many times, with reasons."""

from __future__ import annotations

from pathlib import Path

from kaosmem import Reason, SessionMemory

CLAUSES = (
    "term",
    "fee",
    "notice",
    "liability",
    "assignment",
    "audit",
    "insurance",
    "governing law",
)


def write_contracts(folder: Path, count: int) -> None:
    for number in range(count):
        clauses = [
            f"## {name.title()}\n\nIn contract {number} the {name} is set at {number + 3} units.\n"
            for name in CLAUSES
        ]
        (folder / f"contract-{number:03}.md").write_text(
            f"# Contract {number}\n\n" + "\n".join(clauses)
        )


async def test_a_deal_room_answers_within_its_budget(tmp_path: Path) -> None:
    room = tmp_path / "room"
    store = tmp_path / "store"
    room.mkdir()
    write_contracts(room, 60)
    async with SessionMemory.open(str(store), "room") as memory:
        report = await memory.ingest(str(room))
        assert len(report.new) == 60
        context = await memory.assemble_context("What is the insurance of contract 17?", budget=800)
        assert "In contract 17 the insurance is set at 20 units." in context.text
        assert context.used <= 800
        for decision in context.nearest_misses(3):
            assert decision.reason in (Reason.NO_ROOM, Reason.OUTRANKED)

    async with SessionMemory.open(str(store), "room") as memory:
        assert (await memory.ingest(str(room))).items_added == 0
        again = await memory.assemble_context("What is the insurance of contract 17?", budget=800)
        assert again.text == context.text
