"""LlamaIndex: an agent whose session outlives the process, within a budget."""

from pathlib import Path

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms.mock import MockFunctionCallingLLM

from kaosmem import SyncSessionMemory
from kaosmem.integrations.llama_index import KaosmemMemory

# LlamaIndex uses deprecated parts of Pydantic.
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


async def test_an_agent_of_llama_index(tmp_path: Path) -> None:
    """Each run has a new memory object: the session has the earlier messages."""
    agent = FunctionAgent(llm=MockFunctionCallingLLM(), tools=[], streaming=False)
    for question in ("How long is the notice?", "How?"):
        memory = KaosmemMemory(tmp_path, conversation="deal-42", budget=8_000)
        await agent.run(question, memory=memory)
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        said = [item.role for item in memory["messages"]]
    assert said == ["user", "assistant", "user", "assistant"]
