"""An agent whose facts, state, tasks, thread and files outlive its process, in one folder and without a server."""

from __future__ import annotations

from pathlib import Path

from kaosmem import ChatMessage, SessionMemory
from kaosmem.backends import Stores, open_stores
from kaosmem.context import AgentContext, ContextConfig
from kaosmem.sources import BlobSource, FactSource, HistorySource, StateSource, TaskSource
from kaosmem.stores import Task


async def answer(stores: Stores, question: str) -> str:
    """Return what the model is shown for a question: the thread, and what every store knows."""
    memory = SessionMemory.test_mode()
    await memory.attach(HistorySource(stores.history, "analyst", "deal-42"))
    await memory.attach(FactSource(stores.facts, "analyst"))
    await memory.attach(StateSource(stores.state, "deal-42"))
    await memory.attach(TaskSource(stores.tasks, "deal-42", "analyst"))
    context = AgentContext(ContextConfig(stores.history), "analyst")
    await context.append([ChatMessage("user", question)], session_id="deal-42")
    return (await memory.assemble_context(question, budget=500)).text


async def first_day(folder: Path) -> None:
    async with open_stores(folder) as stores:
        await stores.facts.save("analyst", "The customer prefers calls.", key="contact")
        await stores.facts.save("analyst", "The customer prefers letters.", key="contact")
        await stores.state.update_state("deal-42", {"stage": "negotiation"})
        await stores.tasks.create_task_list(
            "deal-42", "analyst", [Task("call", "Call the customer")]
        )
        await BlobSource(stores.files).upload(
            "lease.txt", b"The rent is 900 euros.", content_type="text/plain"
        )
        await answer(stores, "Who signs the lease?")


async def second_day(folder: Path) -> str:
    async with open_stores(folder) as stores:  # in another process, for example
        assert await stores.files.download("lease.txt") == b"The rent is 900 euros."
        await stores.tasks.update_status("deal-42", "analyst", "call", "in_progress")
        return await answer(stores, "How do we reach the customer?")


async def test_everything_is_there_the_next_day(tmp_path: Path) -> None:
    await first_day(tmp_path / "agent")
    shown = await second_day(tmp_path / "agent")
    print(shown)
    assert "Who signs the lease?" in shown
    assert "The customer prefers letters." in shown
    assert "prefers calls" not in shown  # superseded
    assert "stage: negotiation" in shown
    assert "[in_progress] call: Call the customer" in shown
