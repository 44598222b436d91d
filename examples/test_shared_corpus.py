"""One corpus for many users: it is read once, and each user asks it from a session of their own."""

from pathlib import Path

from kaosmem import SessionMemory

PARTIES = ("Acme", "Birch", "Cobalt", "Dune", "Elm")


def write_contracts(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        party = PARTIES[number % len(PARTIES)]
        (folder / f"{party.lower()}-{number}.md").write_text(
            f"# Services agreement {number} with {party}\n\n"
            f"{party} may terminate for convenience on {20 + number} days' written notice.\n\n"
            f"Invoices are due within {number % 60 + 10} days of receipt.\n"
        )


async def test_many_users_ask_one_deal_room(tmp_path: Path) -> None:
    """What each is shown is within budget and from the contract that was asked for."""
    write_contracts(tmp_path / "contracts", 1_000)

    # Once, by whoever keeps the room: reading it again reads only what has changed.
    async with SessionMemory.open(tmp_path / "store", "deal-room") as room:
        report = await room.ingest(tmp_path / "contracts")
        assert len(report.new) == 1_000

    # Then for each user. Opened read-only, the room is in memory once, however many ask.
    for number in (7, 500, 999):
        party = PARTIES[number % len(PARTIES)]
        source = f"{party.lower()}-{number}.md"
        async with SessionMemory.open(tmp_path / "store", "deal-room", read_only=True) as room:
            memory = SessionMemory.test_mode(session_id=f"user-{number}")
            await memory.attach(room["documents"], name="deal-room")
            memory.add("messages", f"How can {party} terminate agreement {number}?")
            everywhere = await memory.assemble_context(budget=1_000)
            narrowed = await memory.assemble_context(budget=1_000, filter={"source": source})
        assert everywhere.by_section["deal-room"].items > narrowed.by_section["deal-room"].items
        assert f"{party} may terminate for convenience on {20 + number} days" in narrowed.text
        shown = {item.metadata["source"] for item in narrowed.items if item.section == "documents"}
        assert shown == {source}
