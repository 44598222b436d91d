"""Facts that change: an assistant keeps facts about its user over many sessions, and knows which of them still hold."""

from __future__ import annotations

from pathlib import Path

from kaosmem import SessionMemory
from kaosmem.backends import open_stores
from kaosmem.sources import FactSource
from kaosmem.stores import LongTermMemory


async def learn(facts: LongTermMemory, session: str, day: str, *learned: tuple[str, str]) -> None:
    """Keep what a session brought; a model would find the facts and their keys."""
    for key, text in learned:
        metadata = {"source": session, "timestamp": day}
        await facts.save("assistant", text, namespace="ann", key=key, metadata=metadata)


async def shown(facts: LongTermMemory, question: str) -> str:
    memory = SessionMemory.test_mode()
    await memory.attach(FactSource(facts, "assistant", namespace="ann"))
    memory.add("messages", question)
    return (await memory.assemble_context(budget=200, sections=["facts"])).text


async def test_old_facts_come_back_for_questions_about_the_past(tmp_path: Path) -> None:
    async with open_stores(tmp_path) as stores:
        await learn(
            stores.facts,
            "session_1",
            "2023-03-01",
            ("home", "Ann lives in Oslo."),
            ("drink", "Ann likes tea."),
        )
        await learn(stores.facts, "session_9", "2024-06-01", ("home", "Ann lives in Bergen."))

    async with open_stores(tmp_path) as stores:  # another process
        facts = stores.facts
        assert await shown(facts, "Where does Ann live?") == (
            "## facts\n[session_1, 1 March 2023] Ann likes tea.\n[session_9, 1 June 2024] Ann "
            "lives in Bergen.\n"
        )
        assert (
            "[session_1, 1 March 2023 until 1 June 2024] Ann lives in Oslo.\n"
            "[session_9, since 1 June 2024] Ann lives in Bergen.\n"
        ) in await shown(facts, "Where did Ann live before?")

        # Told late: it changes nothing now.
        await learn(facts, "session_12", "2022-01-01", ("home", "Ann lives in Rome."))
        assert "Rome" not in await shown(facts, "Where does Ann live?")
        assert [
            version.item.content
            for version in await facts.versions("assistant", "home", namespace="ann")
        ] == [
            "Ann lives in Rome.",
            "Ann lives in Oslo.",
            "Ann lives in Bergen.",
        ]
        assert "[session_12, 1 January 2022 until 1 March 2023] Ann lives in Rome." in await shown(
            facts, "Where did Ann live at first?"
        )
