"""Pydantic AI: an agent whose session outlives the process, within a budget."""

from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

from kaosmem import SyncSessionMemory
from kaosmem.integrations.pydantic_ai import KaosmemCapability


async def test_an_agent_of_pydantic_ai(tmp_path: Path) -> None:
    """Each run is a new agent: the session has the earlier messages, and the document."""
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        memory.add("documents", "Notice is thirty days.", metadata={"source": "msa.pdf"})
    for question, answer in (("How long is the notice?", "Thirty days."), ("How?", "In writing.")):
        agent = Agent(
            TestModel(custom_output_text=answer),
            capabilities=[KaosmemCapability(tmp_path, budget=8_000)],
        )
        await agent.run(question, conversation_id="deal-42")
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        said = [item.text for item in memory["messages"]]
    assert said == ["How long is the notice?", "Thirty days.", "How?", "In writing."]
