"""Haystack: an agent whose session outlives the process, within a budget."""

from pathlib import Path

import pytest
from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage

from kaosmem.integrations.haystack import KaosmemChatGenerator


@component
class ScriptedGenerator:
    """Says how many messages it got."""

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: object = None, **_: object) -> dict:
        return {"replies": [ChatMessage.from_assistant(f"Seen: {len(messages)}.")]}


@pytest.mark.frameworks
def test_an_agent_of_haystack(tmp_path: Path) -> None:
    """A run gives the new message alone: the session has the earlier ones."""
    generator = KaosmemChatGenerator(ScriptedGenerator(), tmp_path, budget=8_000)
    agent = Agent(chat_generator=generator)
    for question, answer in (("How long is the notice?", "Seen: 1."), ("How?", "Seen: 3.")):
        asked = [ChatMessage.from_user(question)]
        result = agent.run(messages=asked, generation_kwargs={"conversation": "deal-42"})
        assert result["last_message"].text == answer
