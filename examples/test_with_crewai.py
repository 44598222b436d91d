"""CrewAI: an agent whose session outlives the process, within a budget."""

from pathlib import Path
from typing import Any

import pytest
from crewai import Agent, BaseLLM

from kaosmem import SyncSessionMemory
from kaosmem.integrations.crewai import kaosmem_llm

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


class ScriptedLLM(BaseLLM):
    """Says how many messages it got."""

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        return f"Thought: I know.\nFinal Answer: Seen: {len(messages)}."


def test_an_agent_of_crewai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each agent is a new one: the session has the earlier messages."""
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))
    for question, answer in (("How long is the notice?", "Seen: 2."), ("How?", "Seen: 4.")):
        llm = kaosmem_llm(ScriptedLLM(model="x"), tmp_path, conversation="deal-42", budget=8_000)
        agent = Agent(role="Analyst", goal="Answer.", backstory="Careful.", llm=llm)
        assert agent.kickoff(question).raw == answer
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        assert len(memory["messages"]) == 4
