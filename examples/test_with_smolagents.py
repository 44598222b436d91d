"""smolagents: an agent whose session outlives the process, within a budget."""

from pathlib import Path
from typing import Any

import pytest
from smolagents import ChatMessage, CodeAgent, MessageRole, Model
from smolagents.monitoring import LogLevel

from kaosmem import SyncSessionMemory
from kaosmem.integrations.smolagents import KaosmemModel


class ScriptedModel(Model):
    """Answers with the number of messages that it got."""

    def generate(self, messages: list[ChatMessage], *_: Any, **__: Any) -> ChatMessage:
        return ChatMessage(MessageRole.ASSISTANT, f"<code>final_answer({len(messages)})</code>")


@pytest.mark.frameworks
def test_an_agent_of_smolagents(tmp_path: Path) -> None:
    """Each agent is a new one: the session has the earlier messages."""
    for question, seen in (("How long is the notice?", 2), ("How?", 5)):
        model = KaosmemModel(ScriptedModel(), tmp_path, conversation="deal-42", budget=16_000)
        agent = CodeAgent([], model, step_callbacks=[model.keep], verbosity_level=LogLevel.OFF)
        assert agent.run(question) == seen
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        assert len(memory["messages"]) == 6
