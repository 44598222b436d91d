"""OpenHands: an agent whose session outlives the conversation, within a budget."""

from pathlib import Path

import pytest
from openhands.sdk import Agent, Conversation
from openhands.sdk.llm import Message
from openhands.sdk.testing import TestLLM

from kaosmem import SyncSessionMemory
from kaosmem.integrations.openhands import KaosmemCondenser

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


def test_an_agent_of_openhands(tmp_path: Path) -> None:
    """The session has what was said, the last reply, too, and another agent goes on with it."""
    said = {"How long is the notice?": "Thirty days.", "How is it given?": "In writing."}
    for question, answer in said.items():
        llm = TestLLM.from_messages([Message(role="assistant", content=answer)])
        kept = KaosmemCondenser(location=str(tmp_path), conversation="deal-42", budget=20_000)
        agent = Agent(llm=llm, condenser=kept)
        talk = Conversation(agent, workspace=str(tmp_path), callbacks=[kept.keep], visualizer=None)
        talk.send_message(question)
        talk.run()
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        told = [item.text for item in memory["messages"]]
    assert told == ["How long is the notice?", "Thirty days.", "How is it given?", "In writing."]
