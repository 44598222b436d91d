"""Microsoft Agent Framework: an agent whose session outlives the process, within a budget."""

from pathlib import Path
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatMiddlewareLayer, ChatResponse, Message

from kaosmem import SyncSessionMemory
from kaosmem.integrations.agent_framework import KaosmemMiddleware


class ScriptedClient(ChatMiddlewareLayer, BaseChatClient):
    """Says how many messages it got."""

    async def _inner_get_response(self, *, messages: Any, **options: Any) -> ChatResponse:
        return ChatResponse(messages=[Message("assistant", [f"Seen: {len(messages)} messages."])])


async def test_an_agent_of_agent_framework(tmp_path: Path) -> None:
    """Each run is a new agent: the session has the earlier messages, and the document."""
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        memory.add("documents", "Notice is thirty days.", metadata={"source": "msa.pdf"})
    for question in ("How long is the notice?", "How?"):
        kept = KaosmemMiddleware(tmp_path, budget=8_000)
        agent = Agent(ScriptedClient(), middleware=[kept])
        await agent.run(question, session=agent.create_session(session_id="deal-42"))
    with SyncSessionMemory.open(tmp_path, "deal-42") as memory:
        said = [item.text for item in memory["messages"]]
    assert said[1::2] == ["Seen: 1 messages.", "Seen: 3 messages."]
