"""LangChain: an agent whose session outlives the process, within a budget."""

from pathlib import Path

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from kaosmem import SyncSessionMemory
from kaosmem.integrations.langchain import KaosmemMiddleware


def test_an_agent_of_langchain(tmp_path: Path) -> None:
    """Each run is a new agent: the session has the earlier messages, and the document."""
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        memory.add("documents", "Notice is thirty days.", metadata={"source": "msa.pdf"})
    for question, answer in (("How long is the notice?", "Thirty days."), ("How?", "In writing.")):
        model = GenericFakeChatModel(messages=iter([AIMessage(answer)]))
        agent = create_agent(model, middleware=[KaosmemMiddleware(tmp_path, budget=8_000)])
        agent.invoke(
            {"messages": [("user", question)]},
            config={"configurable": {"thread_id": "deal-42"}},
        )
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        said = [item.text for item in memory["messages"]]
    assert said == ["How long is the notice?", "Thirty days.", "How?", "In writing."]
